"""Tests of rules: the frames that a rule matches, its count, and the transit over a slow link."""

import json
from dataclasses import asdict

import pytest

from chaos.relay.rules import APIS, Frames, Rule, RuleBook, Waiting

PRODUCE, FETCH = APIS["Produce"], APIS["Fetch"]


def book(*rules):
    rule_book = RuleBook()
    for rule in rules:
        rule_book.add(rule)
    return rule_book


def hits(rules, *frames):
    return [active.id if (active := rules.hit(*frame)) else 0 for frame in frames]


def test_a_rule_matches_its_broker_side_api_and_client():
    rules = book(Rule("drop", Frames((2,), "Produce", "shop/*", "response")))
    matching = (2, "response", PRODUCE, "shop/1")
    others = [
        (1, "response", PRODUCE, "shop/1"),
        (2, "request", PRODUCE, "shop/1"),
        (2, "response", FETCH, "shop/1"),
        (2, "response", PRODUCE, "shopper/1"),
    ]
    assert hits(rules, matching, *others) == [1, 0, 0, 0, 0]
    assert rules.active[1].hits == 1


def test_a_rule_counts_its_frames_at_all_its_brokers_together():
    rules = book(Rule("drop", Frames((1, 2)), count=2))
    assert hits(rules, *[(broker, "request", PRODUCE, "x") for broker in (1, 3, 2, 1)]) == [1, 0, 1, 0]


def test_a_rule_without_api_and_client_matches_every_frame():
    assert hits(book(Rule("cut", Frames((1,)))), (1, "request", -1, ""), (1, "request", FETCH, "x")) == [1, 1]


def test_a_rule_with_a_count_matches_no_more_frames_after_it():
    rules = book(Rule("drop", Frames((1,)), count=2))
    assert hits(rules, *[(1, "request", PRODUCE, "x")] * 4) == [1, 1, 0, 0]
    assert rules.active[1].hits == 2


def test_the_next_rule_matches_after_the_count():
    rules = book(Rule("drop", Frames((1,)), count=1), Rule("cut", Frames((1,))))
    assert hits(rules, *[(1, "request", PRODUCE, "x")] * 3) == [1, 2, 2]


def test_a_removed_rule_hits_nothing():
    rules = book(Rule("drop", Frames((1,))))
    assert rules.remove(1)
    assert not rules.remove(1)
    assert hits(rules, (1, "request", PRODUCE, "x")) == [0]


def test_a_slow_link_matches_no_frames_and_delays_bytes():
    rules = book(Rule("slow", Frames((1,)), latency_s=0.1))
    assert hits(rules, (1, "request", PRODUCE, "x")) == [0]
    assert rules.transit(1, "request", 100, 5.0) == (5.05, 1)
    assert rules.transit(2, "request", 100, 5.0) == (5.0, 0)
    assert rules.active[1].hits == 1


def test_a_rule_with_a_topic_matches_requests_that_name_it():
    rules = book(Rule("drop", Frames((1,), "Produce", topic="orders", partition=2)))
    named = [{("orders", 2)}, {("bills", 2), ("orders", 2)}, {("orders", 1)}, {("bills", 2)}, set(), None]
    assert hits(rules, *[(1, "request", PRODUCE, "x", names) for names in named]) == [1, 1, 0, 0, 0, 0]
    assert rules.active[1].hits == 2


@pytest.mark.parametrize(
    ("rule", "reads"),
    [
        (Rule("drop", Frames((1,), "Produce")), (False, False)),
        (Rule("drop", Frames((1,), "Produce", topic="orders")), (True, False)),
        (Rule("drop", Frames((2,), "Produce", topic="orders")), (False, False)),
        (Rule("error", Frames((1,), "Fetch"), error=6), (False, True)),
        (Rule("error", Frames((1,), "Fetch", side="response"), error=6), (False, False)),
        (Rule("hold", Frames((2,)), until=Frames(api="Fetch", topic="orders")), (False, True)),
    ],
)
def test_only_requests_of_which_a_rule_needs_the_contents_are_read(rule, reads):
    assert (book(rule).reads(1, PRODUCE, "x"), book(rule).reads(1, FETCH, "x")) == reads


class Holder:
    """A direction of a connection that holds a frame."""

    def __init__(self, there=True):
        self.there, self.released = there, []

    def release(self, rule):
        self.released.append(rule)
        return self.there


def held(*holders, until=10.0):
    rules = book(Rule("hold", Frames((1,), "Produce"), delay_s=10, until=Frames(api="Fetch", client="reader/*")))
    for holder in holders:
        active = rules.hit(1, "request", PRODUCE, "shop/1")
        rules.hold(active, Waiting(until, holder.release))
    return rules


def passes(rules, now, *frame):
    rules.passed(rules.awaits(*frame, None), now)
    return rules.active[1].released


def test_a_held_frame_passes_when_the_awaited_one_has_passed_at_any_broker():
    holder = Holder()
    rules = held(holder, holder)
    assert passes(rules, 5.0, 1, "request", FETCH, "shop/1") == 0 and not holder.released
    assert passes(rules, 5.0, 1, "response", FETCH, "reader/1") == 0 and not holder.released
    assert passes(rules, 5.0, 2, "request", FETCH, "reader/1") == 2
    assert holder.released == [1]
    assert passes(rules, 6.0, 2, "request", FETCH, "reader/1") == 2, "nothing waits any more"


def test_a_frame_that_passed_because_of_the_time_was_not_released():
    late, gone = Holder(), Holder(there=False)
    assert passes(held(late, until=4.0), 5.0, 2, "request", FETCH, "reader/1") == 0
    assert passes(held(gone), 5.0, 2, "request", FETCH, "reader/1") == 0, "its connection was closed"


@pytest.mark.parametrize(
    ("act", "frames", "wrong"),
    [
        ("delay", {"api": "Prodcue"}, {}),
        ("delay", {}, {"delay_s": -1}),
        ("delay", {}, {"latency_s": -0.1}),
        ("delay", {}, {"bandwidth": 0}),
        ("drop", {"topic": "orders"}, {}),
        ("drop", {"api": "Heartbeat", "topic": "orders"}, {}),
        ("drop", {"api": "Produce", "partition": 1}, {}),
        ("hold", {}, {}),
        ("drop", {}, {"until": Frames()}),
        ("error", {"api": "Produce"}, {}),
        ("error", {"api": "ApiVersions"}, {"error": 6}),
        ("error", {}, {"error": 6}),
        ("drop", {}, {"error": 6}),
    ],
)
def test_an_invalid_rule_is_refused(act, frames, wrong):
    with pytest.raises(ValueError):
        Rule(act, Frames((1,), **frames), **wrong)


def test_a_rule_arrives_over_the_control_connection_as_it_was_sent():
    rule = Rule("hold", Frames((1, 2), "EndTxn"), 1, 5.0, until=Frames(api="Produce", topic="orders", partition=1))
    assert Rule.parse(json.loads(json.dumps(asdict(rule)))) == rule


def test_a_rule_of_a_front_matches_only_there():
    rules = book(Rule("delay", Frames((1,), front="billing/*"), delay_s=1), Rule("slow", Frames(front="billing/1")))
    assert rules.hit(1, "request", PRODUCE, "x", front="billing/2") is rules.active[1]
    assert rules.hit(1, "request", PRODUCE, "x", front="billings/2") is None
    assert rules.hit(1, "request", PRODUCE, "billing/1") is None, "a client id is no front"
    assert [rules.transit(1, "request", 10, 0.0, front)[1] for front in ("billing/1", "billing/2", "")] == [2, 0, 0]


def test_a_share_of_frames_is_drawn_by_the_seed_and_counts_as_hits_alone():
    drawn = [hits(book(Rule("drop", Frames((1,)), share=0.25, seed=seed)), *[(1, "request", PRODUCE, "x")] * 400)
             for seed in (7, 7, 8)]  # fmt: skip
    assert drawn[0] == drawn[1] != drawn[2]
    assert 60 < sum(drawn[0]) < 140
    with pytest.raises(ValueError, match="a share is above 0, and 1 at most"):
        Rule("drop", Frames(), share=0)


def test_the_nth_frame_is_counted_also_over_frames_about_which_another_rule_decides():
    second, third = (Rule("delay", Frames(api="Produce"), count=1, skip=skip, delay_s=1) for skip in (1, 2))
    assert hits(book(second, third), *[(1, "request", PRODUCE, "x")] * 4) == [0, 1, 2, 0]
