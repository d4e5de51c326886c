"""A story names one of several fetches, commits and writes by a rule: the one of the rule, and near misses."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest

from checks.effects.seen import Life, Seen
from checks.effects.story import SUMMED, add_stories, tell_sum
from checks.effects.tables import BEHIND
from checks.wire.tables import table_path
from tests.checks.effects.test_story import (
    AT,
    FETCHED,
    FETCHED_AGAIN,
    FURTHER,
    KILLED,
    LATE_COMMIT,
    MADE,
    ONCE,
    PASSED_FIRST,
    PAST,
    at,
    change,
    commit,
    facts,
    fetch,
    finding,
    story,
    write,
)
from tests.checks.effects.wire import SCENARIO
from tests.support.fake_runs import FakeRun

EARLIER = fetch("billing/1", 12.2)


def summed(inputs, found, expected, known=None):
    """Return the story of a sum of inputs, each an amount and what was seen of it."""
    place = SUMMED | {"topic": "orders", "partition": 3}
    of_key = [(place | {"offset": AT + n, "amount": amount}, seen) for n, (amount, seen) in enumerate(inputs)]
    row = finding("wrong", found=found, expected=expected, offset=None, partition=None)
    return row | tell_sum(row, of_key, known or facts(KILLED), "invoices")


def with_faults(*kinds):
    faults = [
        f"{{name: f{n}, kind: {kind}, target: {{broker: 1}}, when: {{acked: {n + 1}}}, heal: {{after: 1s}}}}"
        for n, kind in enumerate(kinds)
    ]
    return f"{SCENARIO}faults: [{', '.join(faults)}]\n"


COPY = SCENARIO.replace("id: $.order_id}", "id: $.order_id, equals: record}")


@pytest.mark.parametrize(
    ("scenario", "only_doubled", "copies"),
    [
        (with_faults("wire.duplicate"), True, ()),
        (with_faults("wire.duplicate", "broker.kill"), True, ()),  # which changes no answer
        (with_faults("wire.duplicate", "wire.corrupt"), False, ()),
        (with_faults("broker.kill"), False, ()),
        (COPY, False, ("invoices",)),
    ],
)
def test_stories_know_what_the_faults_and_effects_of_the_scenario_are(
    tmp_path, monkeypatch, scenario, only_doubled, copies
):
    run = FakeRun(tmp_path, scenario)
    table_path(run.run, "fetched").mkdir(parents=True)
    known, said = facts(KILLED), []
    wire = SimpleNamespace(facts=lambda: known, seen=lambda: [PASSED_FIRST, PASSED_FIRST])
    monkeypatch.setattr("checks.effects.story.Wire", lambda *asked: wire)
    monkeypatch.setattr("checks.effects.story.tell", lambda row, seen, facts, output: said.append(facts) or {})
    add_stories(None, run.run, run.resolved, [finding(), finding(BEHIND)], 20)
    assert said == [replace(known, only_doubled=only_doubled, copies=frozenset(copies))], "none of what was behind"


def test_a_sum_in_a_topic_is_of_the_applications_that_write_it(tmp_path, monkeypatch):
    """An application that reads the same inputs, and writes another topic, makes no sum unclear."""
    run = FakeRun(tmp_path, SCENARIO)
    table_path(run.run, "fetched").mkdir(parents=True)
    seen = Seen([*FETCHED_AGAIN.fetches, fetch("audit/1", 13)])
    wire = SimpleNamespace(facts=lambda: facts(KILLED), seen=lambda: [seen])
    monkeypatch.setattr("checks.effects.story.Wire", lambda *asked: wire)
    row = finding("wrong", found="20", expected="10", offset=None, partition=None)
    row["inputs"] = [{"partition": 3, "offset": AT, "amount": Decimal(10)}]
    add_stories(None, run.run, run.resolved, [row], 20)
    assert row["cause"] == "not_idempotent", row["why"]


def test_a_sum_without_a_known_value_is_not_explained():
    assert summed([(Decimal(5), ONCE)], "5", None)["why"] == "one of them is no number"


ALIVE = Life("billing/2", at(12.4))
WENT_ON = {"billing/2": [Life("billing/2", 0, at(12.35), "was killed"), ALIVE]}
"""Its next incarnation fetched it too."""


@pytest.mark.parametrize(
    ("fetches", "lives", "cause"),
    [
        ([EARLIER, *FETCHED], KILLED, "state_lost"),
        ([*FETCHED, fetch("billing/1", 12.4)], KILLED, None),
        ([*FETCHED, fetch("billing/1", 12.4)], {"billing/2": [Life("billing/2", 0, at(13), "was killed")]}, None),
        ([*FETCHED, fetch("billing/2", 12.4)], WENT_ON, None),
    ],
)
def test_the_instance_that_fetched_an_input_last_has_lost_it_if_it_ended(fetches, lives, cause):
    row = summed([(Decimal(5), Seen(fetches))], "0", "5", facts(lives))
    assert row["cause"] == cause, row["why"]


@pytest.mark.parametrize(
    "earlier", [EARLIER, fetch("billing/2", 11)], ids=["another instance", "an earlier incarnation"]
)
def test_the_last_fetch_of_a_lost_input_is_named(earlier):
    lives = {"billing/2": [Life("billing/2", 0, at(11.5), "was stopped"), *KILLED["billing/2"]]}
    lives["billing/2"][1] = replace(lives["billing/2"][1], begin_us=at(12))
    row = summed([(Decimal(5), Seen([earlier, *FETCHED]))], "0", "5", facts(lives))
    assert [(frame["at_us"], frame["words"]) for frame in row["frames"] if frame["words"]] == [
        (at(12.3), "fetched by billing/2"),
        (at(12.5), "billing/2 was killed"),
    ]


@pytest.mark.parametrize(
    ("amount", "seen", "more", "why"),
    [
        (1, FETCHED_AGAIN, 1000, "1,000 of its 1,000 inputs are in it twice, which makes 1000 too much"),
        (0, FETCHED_AGAIN, 1, "1,000 of its 1,000 inputs were fetched again, and 0 may be left out"),
        (0, PASSED_FIRST, 1, "0 of its 1,000 inputs were fetched again, and 1,000 may be left out"),
        (0, ONCE, 1, "each of its 1,000 inputs was fetched once"),
    ],
)
def test_the_inputs_of_a_sum_are_counted_in_thousands(amount, seen, more, why):
    row = summed([(Decimal(amount), seen)] * 1000, str(5000 + more), "5000")
    assert why in row["why"]


def test_a_difference_of_sums_has_no_exponent():
    assert "it is 0.0000001 too much" in summed([(Decimal(5), ONCE)], "5.0000001", "5")["why"]


AGAIN = [EARLIER, *FETCHED]
"""By two instances; the last one was killed."""
REFUSED = [write("billing/2", second, "fail") | {"error": code} for second, code in ((12.3, 19), (12.35, 10))]


@pytest.mark.parametrize(
    ("known", "seen", "cause", "words"),
    [
        (
            replace(facts(KILLED), changes=[change(13, 1080)]),
            {"fetches": AGAIN, "commits": LATE_COMMIT},
            "set_past",
            "fetched again by billing/2 at 12.3 s, billing/2 was killed at 12.5 s, reset set",
        ),
        (
            facts(KILLED),
            {"fetches": [*FETCHED, fetch("billing/1", 13)], "commits": PAST},
            "passed_over",
            "committed past by billing/2 at 12.4 s",
        ),
        (facts(KILLED), {"fetches": AGAIN}, "unfinished", "billing/2 was killed at 12.5 s, and no member fetched it"),
        (
            facts(),
            {"fetches": [fetch("billing/2", 12.2), FETCHED[0] | MADE], "commits": PAST},
            "altered",
            "a fault of the run had changed the answer",
        ),
        (
            facts(),
            {"fetches": [fetch("billing/2", 12.2) | MADE, *FETCHED], "commits": PAST},
            "passed_over",
            "it was not interrupted",
        ),
        (
            facts(failed=REFUSED),
            {"fetches": FETCHED, "commits": PAST},
            "send_failed",
            "a send of it to invoices failed (MESSAGE_SIZE_TOO_LARGE) at 12.4 s",
        ),
        (facts(failed=REFUSED[:1]), {"fetches": FETCHED, "commits": PAST}, "send_failed", "(NOT_ENOUGH_REPLICAS)"),
        (
            facts(failed=[write("billing/2", 12.25, "fail") | {"error": 19}]),  # of an effect before its last fetch
            {"fetches": [fetch("billing/2", 12.2), *FETCHED], "commits": PAST},
            "passed_over",
            "it was not interrupted",
        ),
        (
            facts(failed=[write("billing/2", 12.45, "fail") | {"error": 19}]),
            {"fetches": FETCHED, "commits": FURTHER},
            "send_failed",
            "(NOT_ENOUGH_REPLICAS)",
        ),
        (facts(failed=REFUSED[:1]), {"fetches": [], "commits": PAST}, "skipped", "no member fetched it"),
        (  # of the same moment, and so not after it
            facts(KILLED),
            {"fetches": FETCHED, "commits": [*PAST, commit("billing/2", 12.4, 1099)]},
            "commit_first",
            "no member fetched it again",
        ),
        (
            facts(KILLED),
            {"fetches": FETCHED, "commits": [commit("billing/1", 12.4), commit("billing/2", 12.4, state="open")]},
            "commit_first",
            "committed past (no answer)",
        ),
    ],
)
def test_a_missing_effect_is_explained_by_the_last_fetch_before_its_commit(known, seen, cause, words):
    row, said = story("missing", known, **seen)
    assert row["cause"] == cause and words in said, said


@pytest.mark.parametrize(
    ("known", "commits", "words"),
    [
        (facts(), [commit("billing/2", 12.4, state="aborted")], "the commit past it was aborted at 12.4 s"),
        (facts({"billing/2": [Life("billing/2", 0, at(13), "was killed")]}), [], "was killed before a commit past it"),
        (facts(KILLED), [], "at 12.5 s, fetched again by billing/1 from 1,040 at 13.0 s, and its effects are not seen"),
    ],
)
def test_a_doubled_effect_is_explained_with_the_commit_between_its_fetches(known, commits, words):
    said = story("duplicate", known, fetches=FETCHED_AGAIN.fetches, commits=commits)[1]
    assert words in said, said


@pytest.mark.parametrize(
    ("fetched", "done", "wait"),
    [
        (12.14, 1300.5, "1,288.4 s passed between its fetch and its effect"),
        (1300.54, 1301, "1,288.4 s passed before its fetch"),
    ],
)
def test_the_first_write_of_a_late_effect_is_named_with_its_wait(fetched, done, wait):
    writes = [write("billing/1", done), write("billing/1", done + 1, "unknown")]
    said = story("late", facts(), fetches=[fetch("billing/1", fetched)], writes=writes, at_us=at(done))[1]
    assert wait in said and said.count("its effect was") == 1, said


def test_an_instance_that_ended_when_the_other_one_fetched_is_the_cause_of_a_late_effect():
    known = facts({"billing/2": [Life("billing/2", 0, at(40), "was killed")]})
    row, said = story("late", known, fetches=[*FETCHED, fetch("billing/1", 40)], at_us=at(41))
    assert row["cause"] == "late_down" and "billing/2 was killed at 40.0 s" in said


def test_two_writes_after_two_fetches_are_of_the_last_two():
    fetches = [fetch("billing/2", second) for second in (12.3, 12.5, 13)]
    written = [write("billing/2", second) for second in (13.4, 13.6)]
    row, said = story("duplicate", facts(), fetches=fetches, writes=written)
    assert row["cause"] == "repeated" and "fetched by billing/2 at 12.5 s" in said
    assert "fetched again by billing/2 from 1,040 at 13.0 s" in said


def test_the_last_fetch_before_a_wrong_effect_is_named():
    said = story("wrong", facts(), fetches=AGAIN, times_us=[at(12.4)], expected="9", found="8")[1]
    assert "fetched by billing/2 at 12.3 s" in said and said.count("fetched by") == 1, said


@pytest.mark.parametrize("seconds", [(12.2, 12.4), (12.2, 12.3)])
def test_a_wrong_effect_is_of_what_was_fetched_before_its_last_write(seconds):
    writes = [write("billing/2", second) for second in seconds]
    assert story("wrong", facts(), fetches=FETCHED, writes=writes)[0]["cause"] == "miscalculated"


def test_an_effect_without_an_input_is_of_the_last_fetch_before_its_first_write():
    fetches = [fetch("billing/2", second) | {"isolation": level} for second, level in ((12.3, 1), (12.6, 0))]
    written = [write("billing/2", 13), write("billing/2", 12.4)]
    row, said = story("unexpected", facts(), fetches=fetches, writes=written, why="its transaction was aborted")
    assert row["cause"] == "read_uncommitted" and "fetched by billing/2 at 12.6 s" in said, said
    both = [fetches[0] | {"isolation": 0}, fetch("billing/1", 12.5) | {"isolation": 1}]
    same = {"fetches": both, "writes": [write("billing/2", 12.3)], "why": "its transaction was aborted"}
    assert story("unexpected", facts(), **same)[0]["cause"] == "read_uncommitted"
    others = [fetch("billing/3", 12.2) | {"isolation": 1}, fetch("billing/1", 12.7) | {"isolation": 0}]
    row, said = story("unexpected", facts(), fetches=others, why="its transaction was aborted")
    assert row["cause"] == "read_uncommitted" and "fetched by billing/1 at 12.7 s" in said, said


@pytest.mark.parametrize(
    ("seconds", "written", "again"),
    [
        ([12.3, 12.5, 13], [("billing/2", 12.6), ("billing/1", 13.4), ("billing/1", 14)], "13.0"),
        ([12.3, 12.5, 13], [("billing/2", 12.3), ("billing/1", 13)], "13.0"),
        ([12.3, 12.5, 13], [("billing/2", 12.3), ("billing/1", 12.9)], "12.5"),
    ],
)
def test_the_fetches_of_a_doubled_effect_are_the_last_ones_before_its_first_two_writes(seconds, written, again):
    fetches = [fetch(who, second) for who, second in zip(("billing/2", "billing/1", "billing/1"), seconds, strict=True)]
    said = story("duplicate", facts(), fetches=fetches, writes=[write(*one) for one in written])[1]
    assert f"fetched again by billing/1 from 1,040 at {again} s" in said, said


def test_the_label_of_a_frame_has_its_offset_in_thousands():
    known = replace(facts(), changes=[change(13, 1080)])
    assert story("missing", known)[0]["frames"][-1]["label"] == "set the offset 1,080"
    written = [write("billing/2", 12.4, offset=1020)]
    assert story("unexpected", facts(), writes=written)[0]["frames"][-1]["label"] == "ok, offset 1,020"
