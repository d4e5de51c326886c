"""The searches of shrink and bisect, against oracles that are functions: nothing is started."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.campaign import engine, reduce, shrink
from chaos.campaign.search import ddmin, first_change, smallest
from chaos.campaign.subject import Subject, load_subject, raw_of, scenario_of
from chaos.scenario.load import load
from chaos.scenario.shipped import shipped

PLACES = st.integers(0, 9)


@given(st.lists(st.sets(PLACES), min_size=1, max_size=3), st.integers(1, 10))
def test_ddmin_ends_with_what_is_needed_and_nothing_that_can_be_left_out(needs, size):
    asked = []

    def remains(kept):
        asked.append(tuple(kept))
        return any(need & set(range(size)) <= set(kept) for need in needs)

    minimal = ddmin(range(size), remains)
    assert remains(minimal)
    assert not any(remains([x for x in minimal if x != item]) for item in minimal), "1-minimal"
    searched = asked[: -1 - len(minimal)]
    assert len(searched) == len(set(searched)), "no question is asked twice"


def test_ddmin_needs_few_questions_where_one_of_many_is_to_blame():
    asked = []
    assert ddmin(range(64), lambda kept: asked.append(kept) or 37 in kept) == [37]
    assert len(asked) < 20
    assert ddmin([], lambda kept: True) == []


def test_what_breaks_the_search_off_is_passed_on():
    answers = iter([False, True])

    def remains(kept):
        try:
            return next(answers)
        except StopIteration:
            raise engine.Wanted([]) from None

    with pytest.raises(engine.Wanted):
        ddmin(range(8), remains)


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 100))
def test_the_smallest_number_is_one_that_was_seen_and_near_the_least(first, threshold, low):
    first = max(first, threshold, low)
    accepted = {first}

    def remains(n):
        assert low <= n < first
        if n >= threshold:
            accepted.add(n)
        return n >= threshold

    result = smallest(first, low, remains)
    assert result in accepted
    least = max(threshold, low)
    assert result - least <= max(1, result // 8)


@given(st.integers(2, 30), st.data())
def test_the_first_change_is_found_and_undecided_places_are_named(count, data):
    change = data.draw(st.integers(1, count - 1))
    undecided = data.draw(st.sets(st.integers(1, max(1, count - 2)))) - {0, count - 1}
    asked = []

    def state(place):
        asked.append(place)
        return "skip" if place in undecided else "new" if place >= change else "old"

    result = first_change(count, state)
    assert result.last_old < change <= result.first_new
    assert result.between == list(range(result.last_old + 1, result.first_new))
    assert set(result.between) <= undecided
    assert len(asked) == len(set(asked))
    assert not {0, count - 1} & set(asked), "the ends are known"


def test_a_change_without_skips_takes_a_logarithm_of_questions():
    asked = []
    assert first_change(41, lambda i: asked.append(i) or ("new" if i >= 29 else "old")).first_new == 29
    assert len(asked) <= 6


# what can be taken away from a scenario


def raw(name, variant=""):
    return raw_of(load(shipped()[name], variant=variant))


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_scenario_as_plain_data_is_the_same_scenario(name):
    for variant in load(shipped()[name]).variants or [""]:
        scenario = load(shipped()[name], variant=variant)
        assert scenario_of(raw_of(scenario)) == scenario


def test_a_fault_that_waited_for_one_that_is_gone_takes_its_place():
    whole = raw("resilience-demo")
    parts = reduce.entries(whole)
    kept = [p for p in parts if p.name in ("slow-consumer", "billing", "shop")]
    reduced = reduce.keep_entries(whole, kept)
    scenario = scenario_of(reduced)
    assert [f.name for f in scenario.faults] == ["slow-consumer"]
    assert scenario.faults[0].when.acked == 4000, "where the first of them would have begun"
    assert [c.name for c in scenario.consumers] == ["billing"]
    assert set(scenario.expect.groups) == {"billing"}, "what is expected of a group that is gone is gone"


def test_a_trigger_on_a_consumer_that_is_gone_counts_what_was_acknowledged():
    whole = raw("consumer-crash")
    fault = whole["faults"][0]
    assert "delivered" in fault["when"]
    fault |= {"kind": "broker.kill", "target": {"broker": 1}}
    reduced = reduce.keep_entries(whole, [p for p in reduce.entries(whole) if p.section != "consumers"])
    assert scenario_of(reduced).faults[0].when.acked == fault["when"]["delivered"]["records"]


def test_a_trigger_on_a_group_stays_while_one_of_its_entries_is_left():
    whole = raw("group-two-speeds")
    whole["faults"] = [
        whole["faults"][0]
        | {
            "kind": "broker.kill",
            "target": {"broker": 1},
            "when": {"delivered": {"group": "billing", "records": 9}},
            "heal": None,
        }
    ]
    parts = reduce.entries(whole)
    for kept, trigger in ({"slow"}, {"delivered": {"group": "billing", "records": 9}}), (set(), {"acked": 9}):
        left = reduce.keep_entries(whole, [p for p in parts if p.section != "consumers" or p.name in kept])
        assert left["faults"][0]["when"] == trigger


def test_topics_that_nobody_uses_any_more_go_too():
    whole = raw("leader-kill")
    whole["topics"].append({"name": "idle"})
    assert [t["name"] for t in reduce.keep_entries(whole, reduce.entries(whole))["topics"]] == ["orders"]


def test_records_shrink_together_with_the_triggers_that_count_them():
    reduced = reduce.with_records(raw("acks1-leader-kill", "acks-1"), 80)
    assert reduced["producers"][0]["records"] == 80
    assert reduced["faults"][0]["when"]["acked"] == 40
    assert reduced["faults"][1]["when"] == {"after": "freeze.proven + 500ms"}


def test_settings_are_taken_away_one_by_one_and_an_empty_config_goes():
    whole = raw("acks1-leader-kill", "acks-1")
    names = {str(p) for p in reduce.settings(whole)}
    assert {"producers.shop.config.acks", "producers.shop.rate", "consumers.billing.config.auto.offset.reset"} <= names
    assert not any(".name" in n or ".target" in n or "records" in n for n in names)
    dropped = [p for p in reduce.settings(whole) if p.section == "consumers"]
    reduced = reduce.without_settings(whole, dropped)
    assert "config" not in reduced["consumers"][0]
    assert whole["consumers"][0]["config"], "what it was made from is left alone"


def search(subject, needed):
    """A search whose oracle looks at the scenario; returns it with the scenarios that were asked about."""
    asked, kept = [], []

    def remains(candidate, scenario):
        asked.append(candidate)
        if shows := needed(scenario):
            kept.append(candidate)
        return shows

    start = shrink.starting_point(subject)
    parse = lambda text, candidate: scenario_of(candidate)  # noqa: E731
    return shrink.Search(start, remains, lambda words: None, parse), asked, kept


def loses(scenario):
    """What the loss of acks1-leader-kill takes: both faults, acks=1, and a follower."""
    acks = [p.config.get("acks") for p in scenario.producers]
    return (
        {"freeze", "kill"} <= {f.name for f in scenario.faults}
        and 1 in acks
        and (scenario.topics[0].replication_factor > 1)
    )


def test_shrinking_keeps_what_the_anomaly_needs_and_leaves_out_everything_else():
    search_run, asked, kept = search(load_subject("acks1-leader-kill", "acks-1"), loses)
    assert search_run.begin()
    search_run.run()
    small = scenario_of(search_run.best)
    assert loses(small)
    assert search_run.complete
    assert small.consumers == []
    assert small.producers[0].config == {"acks": 1}
    assert (small.cluster.brokers, small.topics[0].replication_factor) == (2, 2)
    assert small.producers[0].records < 200
    assert kept[-1] == search_run.best, "each smaller one was put somewhere safe"
    assert len(asked) <= 45
    text = shrink.final_text(Subject("x", "x", small, 7), search_run.best, "lost_write")
    assert "seed: 7" in text
    assert "a run of exactly this scenario showed lost_write" in text


def test_a_search_that_is_broken_off_keeps_the_smallest_so_far():
    subject = load_subject("acks1-leader-kill", "acks-1")
    calls = itertools.count(1)

    def needed(scenario):
        if next(calls) > 12:
            raise KeyboardInterrupt
        return loses(scenario)

    search_run, _, kept = search(subject, needed)
    search_run.begin()
    with pytest.raises(KeyboardInterrupt):
        search_run.run()
    assert not search_run.complete
    assert kept[-1] == search_run.best
    assert scenario_of(search_run.best).consumers == []


def test_a_candidate_that_makes_no_sense_is_never_run():
    search_run, asked, _ = search(load_subject("acks1-leader-kill", "acks-1"), lambda s: True)
    search_run.run()
    assert all(scenario_of(one) is not None for one in asked)
    assert scenario_of(search_run.best).producers, "a scenario needs one"
