"""Which frames a rule means, and how it counts them."""

import pytest

from chaos.relay.rules import APIS, Rule, RuleBook

PRODUCE, FETCH = APIS["Produce"], APIS["Fetch"]


def book(*rules):
    made = RuleBook()
    for rule in rules:
        made.add(rule)
    return made


def hits(made, *frames):
    return [one.id if (one := made.hit(*frame)) else 0 for frame in frames]


def test_a_rule_means_its_broker_side_api_and_client_and_nothing_else():
    made = book(Rule("drop", 2, "Produce", "shop/*", "response"))
    meant = (2, "response", PRODUCE, "shop/1")
    others = [
        (1, "response", PRODUCE, "shop/1"),
        (2, "request", PRODUCE, "shop/1"),
        (2, "response", FETCH, "shop/1"),
        (2, "response", PRODUCE, "shopper/1"),
    ]
    assert hits(made, meant, *others) == [1, 0, 0, 0, 0]
    assert made.active[1].hits == 1


def test_a_rule_without_api_and_client_means_all():
    assert hits(book(Rule("cut", 1)), (1, "request", -1, ""), (1, "request", FETCH, "x")) == [1, 1]


def test_only_the_first_so_many_are_hit():
    made = book(Rule("drop", 1, count=2))
    assert hits(made, *[(1, "request", PRODUCE, "x")] * 4) == [1, 1, 0, 0]
    assert made.active[1].hits == 2


def test_what_a_used_up_rule_leaves_is_for_the_next():
    made = book(Rule("drop", 1, count=1), Rule("cut", 1))
    assert hits(made, *[(1, "request", PRODUCE, "x")] * 3) == [1, 2, 2]


def test_a_removed_rule_hits_nothing():
    made = book(Rule("drop", 1))
    assert made.remove(1)
    assert not made.remove(1)
    assert hits(made, (1, "request", PRODUCE, "x")) == [0]


def test_a_slow_link_picks_no_frames():
    made = book(Rule("slow", 1, latency_s=0.1))
    assert hits(made, (1, "request", PRODUCE, "x")) == [0]
    assert made.transit(1, "request", 100, 5.0) == (5.05, 1)
    assert made.transit(2, "request", 100, 5.0) == (5.0, 0)
    assert made.active[1].hits == 1


@pytest.mark.parametrize("wrong", [{"api": "Prodcue"}, {"delay_s": -1}, {"latency_s": -0.1}, {"bandwidth": 0}])
def test_a_rule_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError):
        Rule("delay", 1, **wrong)
