"""Tests of rules: the frames that a rule matches, its count, and the transit over a slow link."""

import pytest

from chaos.relay.rules import APIS, Rule, RuleBook

PRODUCE, FETCH = APIS["Produce"], APIS["Fetch"]


def book(*rules):
    rule_book = RuleBook()
    for rule in rules:
        rule_book.add(rule)
    return rule_book


def hits(rules, *frames):
    return [active.id if (active := rules.hit(*frame)) else 0 for frame in frames]


def test_a_rule_matches_its_broker_side_api_and_client():
    rules = book(Rule("drop", (2,), "Produce", "shop/*", "response"))
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
    rules = book(Rule("drop", (1, 2), count=2))
    assert hits(rules, *[(broker, "request", PRODUCE, "x") for broker in (1, 3, 2, 1)]) == [1, 0, 1, 0]


def test_a_rule_without_api_and_client_matches_every_frame():
    assert hits(book(Rule("cut", (1,))), (1, "request", -1, ""), (1, "request", FETCH, "x")) == [1, 1]


def test_a_rule_with_a_count_matches_no_more_frames_after_it():
    rules = book(Rule("drop", (1,), count=2))
    assert hits(rules, *[(1, "request", PRODUCE, "x")] * 4) == [1, 1, 0, 0]
    assert rules.active[1].hits == 2


def test_the_next_rule_matches_after_the_count():
    rules = book(Rule("drop", (1,), count=1), Rule("cut", (1,)))
    assert hits(rules, *[(1, "request", PRODUCE, "x")] * 3) == [1, 2, 2]


def test_a_removed_rule_hits_nothing():
    rules = book(Rule("drop", (1,)))
    assert rules.remove(1)
    assert not rules.remove(1)
    assert hits(rules, (1, "request", PRODUCE, "x")) == [0]


def test_a_slow_link_matches_no_frames_and_delays_bytes():
    rules = book(Rule("slow", (1,), latency_s=0.1))
    assert hits(rules, (1, "request", PRODUCE, "x")) == [0]
    assert rules.transit(1, "request", 100, 5.0) == (5.05, 1)
    assert rules.transit(2, "request", 100, 5.0) == (5.0, 0)
    assert rules.active[1].hits == 1


@pytest.mark.parametrize("wrong", [{"api": "Prodcue"}, {"delay_s": -1}, {"latency_s": -0.1}, {"bandwidth": 0}])
def test_an_invalid_rule_is_refused(wrong):
    with pytest.raises(ValueError):
        Rule("delay", (1,), **wrong)
