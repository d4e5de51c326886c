"""Faults of the wire: their rules in the proxy, their proofs, and their heals."""

import random
import re
from importlib.resources import files
from types import SimpleNamespace

import pytest

from chaos.clients.choice import RUNTIMES
from chaos.errors import ClusterError, FaultError, ScenarioError
from chaos.faults import FAULTS
from chaos.faults.wire import CODES, ERRORS, OPEN
from chaos.relay.control import Hits
from chaos.relay.rules import Frames, Rule
from chaos.scenario.load import parse

SCENARIO = """
title: t
topics: [{{name: orders}}]
producers: [{{name: shop, topic: orders}}]
faults: [{{name: f, target: {{broker: 2}}, when: {{at: 1s}}, {0}}}]
expect: {{}}
"""


def fault(text):
    spec = parse(SCENARIO.format(text), "t.yaml").faults[0]
    return FAULTS[spec.kind](spec)


JAVA_TABLE = re.compile(r"Set<Errors> ([A-Z_]+) =\s*EnumSet\.of\((.*?)\);", re.S)
HOLD = "kind: wire.hold, api: EndTxn, until: {api: Produce, side: response, topic: orders}, at_most: 20s"
ERROR = "kind: wire.error, api: Produce, partition: orders/0, error: NOT_LEADER_OR_FOLLOWER"


class Proxy:
    """A proxy that keeps its rules, or refuses them."""

    def __init__(self, refuses=False):
        self.rules, self.removed, self.matched, self.refuses = [], [], 0, refuses
        self.released = self.outlived = 0

    def add(self, rule):
        if self.refuses:
            raise ClusterError("the wire proxy is gone")
        self.rules.append(rule)
        return len(self.rules)

    def hits(self, rule):
        return self.matched

    def counts(self, rule):
        return Hits(self.matched, self.released, self.outlived)

    def remove(self, rule):
        self.removed.append(rule)
        return self.counts(rule)


def world(proxy):
    return SimpleNamespace(cluster=SimpleNamespace(controller_ids=()), proxy=proxy)


def test_the_rule_has_the_parameters_of_the_scenario():
    proxy = Proxy()
    cut = fault("kind: wire.cut, api: Produce, client: shop/*, side: response, count: 3")
    assert cut.inject(world(proxy)) == (
        "from now on the first 3 Produce responses of shop/* at broker 2 are lost with their connection"
    )
    (rule,) = proxy.rules
    assert rule == Rule("cut", Frames((2,), "Produce", "shop/*", "response"), 3)


def test_a_rule_without_hits_is_no_proof():
    proxy = Proxy()
    delay = fault("kind: wire.delay, delay: 250ms")
    delay.inject(world(proxy))
    assert proxy.rules[0].delay_s == 0.25
    assert delay.proof(world(proxy)) is None
    proxy.matched = 4
    assert delay.proof(world(proxy)) == "4 requests at broker 2 were delayed so far"


@pytest.mark.parametrize("text", ["kind: wire.drop", "kind: wire.delay, delay: 1s", "kind: wire.cut", HOLD, ERROR])
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


def test_a_hold_is_proven_when_a_frame_passed_after_the_other_one():
    proxy = Proxy()
    hold = fault(HOLD)
    assert hold.inject(world(proxy)) == (
        "from now on EndTxn requests at broker 2 are held until one of the Produce responses for orders has passed"
    )
    until = Frames(None, "Produce", side="response", topic="orders")
    assert proxy.rules == [Rule("hold", Frames((2,), "EndTxn"), delay_s=20, until=until)]
    proxy.matched = 2
    assert hold.proof(world(proxy)) is None, "a frame that is held, or passed when its time was over, is no proof"
    proxy.released = proxy.outlived = 1
    assert hold.proof(world(proxy)) == (
        "2 EndTxn requests at broker 2 were held so far, 1 of them until one of the Produce responses for orders had "
        "passed; 1 connections had outlived their clients by then"
    )
    assert hold.heal(world(proxy)).endswith("; 2 frames were hit in all, 1 connections outlived their clients")


@pytest.mark.parametrize(
    ("side", "result"),
    [
        ("request", "answered with NOT_LEADER_OR_FOLLOWER and not passed on"),
        ("response", "changed to NOT_LEADER_OR_FOLLOWER, after the broker had carried the requests out"),
    ],
)
def test_an_error_names_its_partition_and_says_whether_the_broker_did_it(side, result):
    proxy = Proxy()
    error = fault(f"{ERROR}, side: {side}, count: 2")
    frames = f"Produce {side}s for orders/0 at broker 2"
    assert error.inject(world(proxy)) == f"from now on the first 2 {frames} are {result}"
    assert proxy.rules == [Rule("error", Frames((2,), "Produce", "*", side, "orders", 0), 2, error=6)]
    assert error.proof(world(proxy)) is None
    proxy.matched = 2
    assert error.proof(world(proxy)) == f"2 {frames} were {result} so far"


def test_every_error_has_a_number_and_a_changed_answer_only_those_that_a_refusal_has():
    assert {name for names in [*ERRORS.values(), *OPEN.values()] for name in names} == set(CODES)
    assert all(set(names) <= set(ERRORS[api]) for api, names in OPEN.items())


@pytest.mark.parametrize("runtime", [name for name, traits in RUNTIMES.items() if traits.sends])
def test_no_client_takes_an_invented_error_for_more_than_it_says(runtime):
    traits = RUNTIMES[runtime]
    refused = {name: refusal.needs for name, refusal in traits.sends.items()}
    assert not set(OPEN["Produce"]) & set(refused), "the record may be in the log"
    assert not set(OPEN["OffsetCommit"]) & set(traits.commits)
    assert all(refused.get(name, {"attempt"}) for name in ERRORS["Produce"]), "an earlier attempt may have succeeded"
    if runtime == "confluent":
        assert all(refused.get(name, {"attempt"}) == {"attempt"} for name in ERRORS["Produce"])


def test_java_takes_an_invented_error_for_no_more_than_it_says():
    java = (files("chaos.clients.java") / "src/aftershock/Outcomes.java").read_text()
    tables = {name: set(re.findall(r"Errors\.([A-Z_]+)", body)) for name, body in JAVA_TABLE.findall(java)}
    assert {"NEVER", "BY_LIMITS", "BY_TIMESTAMPS", "BY_RIGHTS", "REFUSED", "COMMIT_REFUSED"} == set(tables)
    assert not set(OPEN["Produce"]) & set.union(*tables.values())
    assert not set(OPEN["OffsetCommit"]) & tables["COMMIT_REFUSED"]
    assert not set(ERRORS["Produce"]) & set.union(
        *(tables[name] for name in ("NEVER", "BY_LIMITS", "BY_TIMESTAMPS", "BY_RIGHTS"))
    )


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
        ("kind: wire.drop, api: Produce, topic: bills", "topic: 'bills' is not one of the topics"),
        ("kind: wire.drop, api: Produce, partition: orders/9", "orders has partitions 0 to"),
        ("kind: wire.drop, api: Produce, partition: orders", "partition"),
        ("kind: wire.drop, topic: orders", "requests of any kind are not read for it; give an api that names topics"),
        ("kind: wire.drop, api: Heartbeat, topic: orders", "Heartbeat requests are not read for it"),
        ("kind: wire.drop, api: Produce, topic: orders, partition: orders/0", "give topic or partition, not both"),
        ("kind: wire.hold, api: Produce", "until"),
        ("kind: wire.hold, api: Produce, until: {client: shop/*}", "until: give the api"),
        ("kind: wire.hold, api: Produce, until: {api: Fetch, topic: bills}", "until.topic: 'bills'"),
        ("kind: wire.hold, api: Produce, until: {api: Fetch}, at_most: 0s", "at_most"),
        ("kind: wire.error, api: Produce", "error"),
        ("kind: wire.error, error: NOT_COORDINATOR", "api: give a kind of request that can be answered with an error"),
        ("kind: wire.error, api: Metadata, error: LEADER_NOT_AVAILABLE", "api: give a kind of request"),
        ("kind: wire.error, api: Produce, error: NOT_LEADER", r"did you mean NOT_LEADER_OR_FOLLOWER\?"),
        ("kind: wire.error, api: Produce, error: NOT_COORDINATOR", "a request Produce takes one of"),
        ("kind: wire.repeat, side: request", "side"),
        ("kind: wire.duplicate, api: Produce", "api"),
        ("kind: wire.corrupt, side: request", "side: the request of Fetch has no records; give response"),
        ("kind: wire.corrupt, checksum: good", "checksum"),
        ("kind: wire.error, api: Produce, side: response, error: NOT_ENOUGH_REPLICAS", "the response to Produce takes"),
    ],
)
def test_invalid_parameters_are_refused_at_load_in_one_line(text, message):
    template = SCENARIO.replace("target: {{broker: 2}}, ", "") if "target" in text else SCENARIO
    with pytest.raises(ScenarioError, match=message) as refused:
        parse(template.format(text), "t.yaml")
    assert str(refused.value).strip().count("\n") == 1, "a heading, and one line for the problem"


def test_answers_and_records_twice_are_rules_of_the_proxy():
    proxy = Proxy()
    repeat = fault("kind: wire.repeat, api: OffsetCommit, client: billing/*")
    assert repeat.inject(world(proxy)).endswith("OffsetCommit responses of billing/* at broker 2 are sent twice")
    twice = fault("kind: wire.duplicate, api: Fetch, side: response, count: 2")
    twice.inject(world(proxy))
    assert proxy.rules == [
        Rule("repeat", Frames((2,), "OffsetCommit", "billing/*", "response")),
        Rule("duplicate", Frames((2,), "Fetch", "*", "response"), 2),
    ]
    proxy.matched = 3
    assert twice.proof(world(proxy)) == ("3 Fetch responses at broker 2 were passed on with their records twice so far")
    assert twice.heal(world(proxy)) == "the wire of broker 2 is whole again; 3 frames were hit in all"


@pytest.mark.parametrize(
    ("text", "api", "side", "valid", "words"),
    [
        ("", "Fetch", "response", False, "a checksum that does not fit it"),
        (", api: Produce, checksum: right", "Produce", "request", True, "a checksum that fits the changed record"),
    ],
)
def test_records_are_changed_where_they_are(text, api, side, valid, words):
    proxy = Proxy()
    bad = fault(f"kind: wire.corrupt{text}")
    at = SimpleNamespace(**vars(world(proxy)), rng=random.Random(4))
    assert words in bad.inject(at)
    (rule,) = proxy.rules
    assert (rule.act, rule.frames.api, rule.frames.side, rule.valid) == ("corrupt", api, side, valid)
    assert rule.seed == random.Random(4).randrange(2**31) and bad.proof(at) is None


def test_nobody_promises_anything_about_changed_records_but_about_those_of_an_application():
    with pytest.raises(ScenarioError, match=r"faults\[0\]: wire.corrupt changes records on their way"):
        parse(SCENARIO.format("kind: wire.corrupt").replace("expect: {}", ""), "t.yaml")


def test_records_without_an_answer_cannot_be_refused():
    text = SCENARIO.replace("topic: orders}}]", "topic: orders, config: {{acks: 0, enable.idempotence: false}}}}]")
    with pytest.raises(ScenarioError, match=r"faults\[0\].client: shop has acks 0, and no broker answers its records"):
        parse(text.format(ERROR), "t.yaml")
    assert parse(text.format(f"{ERROR}, client: till/*"), "t.yaml").faults
    assert parse(text.format(f"{ERROR}, side: response"), "t.yaml").faults


def test_nothing_is_promised_when_errors_are_invented():
    with pytest.raises(ScenarioError, match=r"faults\[0\]: wire.error answers in place of the broker"):
        parse(SCENARIO.format(ERROR).replace("expect: {}", "expect: promised"), "t.yaml")


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("kind: wire.drop, api: Fetch, topic: orders", True),
        ("kind: wire.drop, api: Fetch", False),
        ("kind: wire.drop, api: Produce, topic: orders", False),
        ("kind: wire.hold, api: Produce, until: {api: Fetch, partition: orders/0}", True),
    ],
)
def test_the_proxy_follows_fetch_sessions_only_if_a_fault_selects_them_by_topic(text, reads):
    assert parse(SCENARIO.format(text), "t.yaml").reads_sessions == reads


ATTACHED = """
title: t
cluster: {{driver: attached, bootstrap: "h:1", security: {0}}}
topics: [{{name: orders}}]
producers: [{{name: shop, topic: orders}}]
faults: [{{name: f, kind: wire.drop, target: {{leader_of: orders/0}}, when: {{at: 1s}}}}]
"""


@pytest.mark.parametrize("security", ["{}", "{protocol: SSL}"])
def test_an_existing_cluster_needs_no_permission_because_the_brokers_are_left_alone(security):
    assert parse(ATTACHED.format(security), "t.yaml").proxied


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
