"""Faults of the wire: their rules in the proxy, their proofs, and their heals."""

from types import SimpleNamespace

import pytest

from chaos.errors import ClusterError, FaultError, ScenarioError
from chaos.faults import FAULTS
from chaos.scenario.load import parse

SCENARIO = """
title: t
topics: [{{name: orders}}]
producers: [{{name: shop, topic: orders}}]
faults: [{{name: f, target: {{broker: 2}}, when: {{at: 1s}}, {0}}}]
"""


def fault(text):
    spec = parse(SCENARIO.format(text), "t.yaml").faults[0]
    return FAULTS[spec.kind](spec)


class Proxy:
    """A proxy that keeps its rules, or refuses them."""

    def __init__(self, refuses=False):
        self.rules, self.removed, self.matched, self.refuses = [], [], 0, refuses

    def add(self, rule):
        if self.refuses:
            raise ClusterError("the wire proxy is gone")
        self.rules.append(rule)
        return len(self.rules)

    def hits(self, rule):
        return self.matched

    def remove(self, rule):
        self.removed.append(rule)
        return self.matched


def world(proxy):
    return SimpleNamespace(cluster=SimpleNamespace(controller_ids=()), proxy=proxy)


def test_the_rule_has_the_parameters_of_the_scenario():
    proxy = Proxy()
    cut = fault("kind: wire.cut, api: Produce, client: shop/*, side: response, count: 3")
    assert cut.inject(world(proxy)) == (
        "from now on the first 3 Produce responses of shop/* at broker 2 are lost with their connection"
    )
    (rule,) = proxy.rules
    assert (rule.act, rule.brokers, rule.api, rule.client, rule.side, rule.count) == (
        "cut",
        (2,),
        "Produce",
        "shop/*",
        "response",
        3,
    )


def test_a_rule_without_hits_is_no_proof():
    proxy = Proxy()
    delay = fault("kind: wire.delay, delay: 250ms")
    delay.inject(world(proxy))
    assert proxy.rules[0].delay_s == 0.25
    assert delay.proof(world(proxy)) is None
    proxy.matched = 4
    assert delay.proof(world(proxy)) == "4 requests at broker 2 were delayed so far"


@pytest.mark.parametrize("text", ["kind: wire.drop", "kind: wire.delay, delay: 1s", "kind: wire.cut"])
def test_a_heal_is_idempotent_and_a_failed_injection_leaves_nothing_to_heal(text):
    proxy, broken = Proxy(), Proxy(refuses=True)
    injected = fault(text)
    injected.inject(world(proxy))
    assert injected.heal(world(proxy)) == injected.heal(world(proxy))
    assert set(proxy.removed) == {1}
    failed = fault(text)
    with pytest.raises(ClusterError):
        failed.inject(world(broken))
    assert failed.heal(world(broken)) == "nothing to heal"


def test_an_injection_needs_a_proxy():
    with pytest.raises(FaultError, match="no wire proxy"):
        fault("kind: wire.drop").inject(world(None))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: wire.drop, api: Prodcue", "api"),
        ("kind: wire.drop, api: Produce, side: both", "side"),
        ("kind: wire.drop, count: 0", "count"),
        ("kind: wire.delay, delay: -1s", "delay"),
        ("kind: wire.delay, delay: 0s", "delay"),
        ("kind: wire.delay", "delay"),
        ("kind: wire.slow", "give latency, bandwidth or both"),
        ("kind: wire.slow, bandwidth: 0", "bandwidth"),
        ("kind: wire.cut, target: {member: shop/1}", "target"),
    ],
)
def test_invalid_parameters_are_refused_at_load_in_one_line(text, message):
    template = SCENARIO.replace("target: {{broker: 2}}, ", "") if "target" in text else SCENARIO
    with pytest.raises(ScenarioError, match=message) as refused:
        parse(template.format(text), "t.yaml")
    assert str(refused.value).strip().count("\n") == 1, "a heading, and one line for the problem"


ATTACHED = """
title: t
cluster: {{driver: attached, bootstrap: "h:1", security: {0}}}
topics: [{{name: orders}}]
producers: [{{name: shop, topic: orders}}]
faults: [{{name: f, kind: wire.drop, target: {{leader_of: orders/0}}, when: {{at: 1s}}}}]
"""


def test_an_existing_cluster_needs_no_permission_because_the_brokers_are_left_alone():
    assert parse(ATTACHED.format("{}"), "t.yaml").proxied


def test_tls_is_refused_because_the_proxy_cannot_read_it():
    with pytest.raises(ScenarioError, match=r"wire.drop needs the wire proxy, which cannot read SSL"):
        parse(ATTACHED.format("{protocol: SSL}"), "t.yaml")


def slow_link(monkeypatch, before, now):
    """Return the proof of a slow link of 300 ms, with these round trips in seconds before and after the injection."""
    proxy, slow, trips = Proxy(), fault("kind: wire.slow, latency: 300ms"), iter([*before, *now])
    monkeypatch.setattr(type(slow), "_round_trip_s", lambda self, world: next(trips))
    slow.inject(world(proxy))
    return slow.proof(world(proxy))


def test_one_long_round_trip_before_does_not_hide_a_slow_link(monkeypatch):
    proof = slow_link(monkeypatch, [0.9, 0.01, 0.02], [0.33, 0.31, 0.6])
    assert proof == "a round trip with broker 2 rose from 10 to 310 ms"


@pytest.mark.parametrize("now", [[0.24], [0.4, 0.02]])
def test_one_short_round_trip_after_is_no_slow_link(monkeypatch, now):
    assert slow_link(monkeypatch, [0.01, 0.01, 0.01], now) is None
