"""Faults of clients without a cluster: their targets, their proofs, and that no running client is started again."""

import itertools
import random
import time
from types import SimpleNamespace

import pytest

from chaos.errors import ClientError, ClusterError, FaultError
from chaos.faults import FAULTS
from chaos.faults.clients import any_present
from chaos.kafka import admin
from chaos.kafka.client import GroupMember, GroupState
from chaos.kafka.partition import TopicPartition
from chaos.scenario.load import parse

SCENARIO = """
title: t
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
consumers: [{mode: assign, name: replay, topics: [orders]}]
faults:
  - {name: consumer, kind: consumer.crash, target: {member: replay/1}, when: {at: 1s}}
  - {name: producer, kind: producer.crash, target: {member: shop/1}, when: {at: 1s}}
"""


class Fleet:
    """A fleet of clients; `crash` fails if the process resists."""

    def __init__(self, resists=False):
        self.incarnations, self.resists = [SimpleNamespace(alive=True)], resists

    def state(self, client):
        return self.incarnations[-1]

    def crash(self, client):
        if self.resists:
            raise ClientError("the process did not end")
        self.state(client).alive = False

    def restart(self, client):
        if self.state(client).alive:
            raise ClientError(f"{client} still runs")
        self.incarnations.append(SimpleNamespace(alive=True))


@pytest.mark.parametrize("index", [0, 1], ids=["consumer.crash", "producer.crash"])
def test_a_crashed_client_is_started_once_and_a_running_one_never(index):
    scenario = parse(SCENARIO, "t.yaml")

    def injected(fleet):
        world = SimpleNamespace(scenario=scenario, fleet=fleet)
        fault = FAULTS[scenario.faults[index].kind](scenario.faults[index])
        try:
            fault.inject(world)
        except ClientError:
            assert fault.proof(world) is None
        return fault, world

    fault, world = injected(Fleet())
    assert fault.proof(world) == f"the process of {fault.resolved} is gone"
    assert fault.heal(world) == f"{fault.resolved} started again"
    assert fault.heal(world) == "nothing to heal"
    assert len(world.fleet.incarnations) == 2
    assert fault.proof(world), "the proof remains after the heal"

    fault, world = injected(Fleet(resists=True))
    assert fault.heal(world) == "nothing to heal"

    fault, world = injected(Fleet())
    world.fleet.restart("by another fault")
    assert fault.heal(world) == "nothing to heal"


STATIC = """
title: t
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
consumers:
  - {mode: subscribe, name: a, group: g, topics: [orders], static: true, config: {auto.offset.reset: earliest}}
  - {mode: subscribe, name: b, group: g, topics: [orders], static: true}
faults: [{name: f, kind: KIND, target: TARGET, when: {at: 1s}}]
"""


class Groups:
    """A fleet and the coordinator of its group.

    `members` are the member ids by client; `others` are memberships that a client has beside it.
    """

    def __init__(self, kind, target="{member: a/1}", static=True, text=STATIC):
        self.scenario = parse(text.replace("KIND", kind).replace("TARGET", target), "t.yaml")
        self.members, self.static, self.rng = {"a/1": "m1", "b/1": "m2"}, static, random.Random(0)
        self.others = []
        self.clients = {"a/1": SimpleNamespace(alive=True, errors=[], incarnation=1)}
        self.fleet = self.kafka = self
        self.fault = FAULTS[self.scenario.faults[0].kind](self.scenario.faults[0])

    def group(self, name):
        members = []
        for number, (client, member_id) in enumerate(self.members.items()):
            instance = client.replace("/", "-") if self.static else None
            members.append(GroupMember(member_id, instance, client, "", (TopicPartition("orders", number),)))
        others = [GroupMember(i, None, client, "", (TopicPartition("orders", 2),)) for client, i in self.others]
        return GroupState("Stable", 1, (*members, *others))

    def present(self, entry):
        return [client for client in self.members if client.startswith(f"{entry}/")]

    def state(self, client):
        return self.clients[client]

    def crash(self, client):
        self.clients[client].alive = False

    def take_over(self, client):
        self.clients[client] = SimpleNamespace(alive=True, errors=[], incarnation=2)

    restart = take_over

    def leave(self, client, within_s):
        self.crash(client)
        del self.members[client]

    def join(self, client):
        self.clients[client] = SimpleNamespace(alive=True, errors=[], incarnation=1)


def test_the_proof_of_a_static_member_is_the_end_of_its_process():
    world = Groups("consumer.crash")
    world.fault.inject(world)
    kept = "the process of a/1 is gone and sends no heartbeat; group g keeps orders/0 for the static member a-1"
    assert world.fault.proof(world) == kept
    world.fault.heal(world)
    world.members["a/1"] = "m3"
    assert world.fault.proof(world) == kept + " and its next process, m3"
    del world.members["a/1"]
    assert world.fault.proof(world) == "the session of the static member a-1 ended, and group g removed it"


def test_a_static_member_that_lives_is_no_proof():
    world = Groups("consumer.crash")
    world.crash = lambda client: None
    world.fault.inject(world)
    assert world.fault.proof(world) is None


def test_a_dynamic_member_has_to_leave_its_group():
    world = Groups("consumer.crash", static=False)
    world.fault.inject(world)
    assert world.fault.proof(world) is None
    del world.members["a/1"]
    assert world.fault.proof(world) == "a/1 left group g, orders/0 moved to b/1"


@pytest.mark.parametrize("joined", ["before the aim", "before the kill"])
def test_all_memberships_of_a_crashed_client_have_to_leave(joined):
    """A starved client joins again before the coordinator has dropped its former membership."""
    world = Groups("consumer.crash", static=False)
    if joined == "before the aim":
        world.others = [("a/1", "m0")]
    world.fault.inject(world)
    world.others = [("a/1", "m0")]
    assert world.fault.proof(world) is None
    del world.members["a/1"]
    assert world.fault.proof(world) is None, "the dead process has a membership, though orders/0 moved to b/1"
    world.others = []
    assert world.fault.proof(world).startswith("a/1 left group g")


def test_the_next_process_of_a_crashed_client_is_not_one_of_its_memberships():
    world = Groups("consumer.crash", static=False)
    world.fault.inject(world)
    del world.members["a/1"]
    world.fault.heal(world)
    world.others = [("a/1", "m3")]
    assert world.fault.proof(world).startswith("a/1 left group g")


def test_a_member_that_leaves_for_good_is_not_started_again():
    world = Groups("consumer.leave, for_good: true", static=False)
    world.fault.inject(world)
    assert world.fault.proof(world).startswith("a/1 left group g")
    assert world.fault.heal(world) == "a/1 stays away"
    assert not world.clients["a/1"].alive


def test_a_member_that_its_group_does_not_admit_is_proven_by_its_error():
    world = Groups("consumer.join", static=False, text=STATIC.replace("static: true, config", "admitted: 0, config"))
    del world.members["a/1"]
    world.fault.inject(world)
    assert world.fault.proof(world) is None
    world.clients["a/1"].errors.append("INCONSISTENT_GROUP_PROTOCOL: x")
    assert world.fault.proof(world) == "a/1 is refused by group g: INCONSISTENT_GROUP_PROTOCOL: x"


def test_a_fence_is_proven_by_the_error_of_the_earlier_process():
    world = Groups("consumer.fence")
    world.fault.inject(world)
    earlier = SimpleNamespace(alive=True, errors=["other", "Static consumer fenced by other consumer"], incarnation=1)
    world.fault._fenced = earlier
    assert world.fault.proof(world) is None, "it still runs"
    earlier.alive = False
    assert "incarnation 1 of a/1 (a-1) was fenced: Static consumer fenced" in world.fault.proof(world)
    earlier.errors = ["other"]
    assert world.fault.proof(world) is None, "it ended for another reason"


def test_a_member_of_a_group_may_be_of_any_entry():
    chosen = set()
    for seed in range(9):
        world = Groups("consumer.crash", "{random_member_of: g}")  # a fault resolves its target once
        world.clients["b/1"], world.rng = SimpleNamespace(alive=True), random.Random(seed)
        world.fault.inject(world)
        chosen.add(world.fault.resolved)
    assert chosen == {"a/1", "b/1"}


QUOTAS = (
    SCENARIO
    + "  - {name: limit, kind: client.quota, target: {member: shop/1}, producer_byte_rate: 1KiB, when: {at: 1s}}\n"
)


class Throttling:
    """A fleet of one client with the throttled responses that it has reported."""

    def __init__(self):
        self.sides, self.client = {}, SimpleNamespace(throttled=lambda: self.sides)

    def state(self, client):
        return self.client


@pytest.fixture
def quotas(monkeypatch):
    """The quotas of the cluster by client id."""
    kept = {}

    def change(kafka, client, rates):
        kept[client] = {**kept.get(client, {}), **rates}
        kept[client] = {key: rate for key, rate in kept[client].items() if rate is not None}

    monkeypatch.setattr("chaos.kafka.admin.set_quotas", change)
    monkeypatch.setattr("chaos.kafka.admin.quotas", lambda kafka, client: kept.get(client, {}))
    return kept


def limited():
    scenario = parse(QUOTAS, "t.yaml")
    world = SimpleNamespace(scenario=scenario, fleet=Throttling(), kafka=None)
    return FAULTS["client.quota"](scenario.faults[-1]), world


def test_a_quota_is_proven_by_responses_throttled_since_then(quotas):
    fault, world = limited()
    world.fleet.sides = {"producer": (2, 50)}
    fault.inject(world)
    assert quotas == {"shop/1": {"producer_byte_rate": 1024}}
    assert fault.proof(world) is None, "the responses before the fault"
    world.fleet.sides = {"producer": (2, 50), "consumer": (3, 70)}
    assert fault.proof(world) is None, "the quota does not limit reads"
    world.fleet.sides["producer"] = (5, 1200)
    assert fault.proof(world) == "3 responses to shop/1 as a producer were throttled, by up to 1,200 ms"
    world.fleet.client = SimpleNamespace(throttled=lambda: {"producer": (1, 9)})
    assert fault.proof(world), "a later incarnation counts from zero"
    assert fault.heal(world) == fault.heal(world)
    assert quotas == {"shop/1": {}}


def test_a_client_that_has_a_quota_already_is_left_alone(quotas):
    quotas["shop/1"] = {"request_percentage": 5.0}
    fault, world = limited()
    with pytest.raises(FaultError, match="has to be none"):
        fault.inject(world)
    assert fault.heal(world) == "nothing to heal"
    assert quotas["shop/1"] == {"request_percentage": 5.0}


def test_a_quota_that_was_set_half_way_is_removed(quotas, monkeypatch):
    fault, world = limited()
    change = admin.set_quotas

    def answer_is_lost(*args):
        change(*args)
        raise ClusterError("no answer")

    with monkeypatch.context() as patch, pytest.raises(ClusterError):
        patch.setattr("chaos.kafka.admin.set_quotas", answer_is_lost)
        fault.inject(world)
    fault.heal(world)
    assert quotas == {"shop/1": {}}


SLOW = """
title: t
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
consumers:
  - {mode: MODE, name: a, topics: [orders]MORE}
faults: [{name: f, kind: consumer.slow, per_record: 500ms, target: {member: a/1}, when: {at: 1s}}]
"""


class Slowed:
    """A consumer with a position in one partition, the end of that partition, and a clock."""

    def __init__(self, monkeypatch, mode="assign", more=""):
        self.scenario = parse(SLOW.replace("MODE", mode).replace("MORE", more), "t.yaml")
        self.now, self.done, self.end, self.rng = 0.0, 100, 100, random.Random(0)
        self.partitions = ["orders/0"]
        self.fleet = self.kafka = self
        self.fault = FAULTS["consumer.slow"](self.scenario.faults[0])
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.fault.inject(self)

    def group(self, name):
        return GroupState("Stable", 1, (GroupMember("m1", None, "a/1", "", (TopicPartition("orders", 0),)),))

    alive = True

    def order(self, client, order):
        if not self.alive:
            raise ClientError(f"{client} is gone and takes no order")

    def state(self, client):
        return SimpleNamespace(
            positions=lambda: dict.fromkeys(self.partitions, self.done), count=lambda _: self.done, alive=self.alive
        )

    def end_offsets(self, partitions):
        return dict.fromkeys(partitions, self.end)

    def after(self, seconds, processed, arrived):
        self.now, self.done, self.end = self.now + seconds, self.done + processed, self.end + arrived
        return self.fault.proof(self)


@pytest.mark.parametrize(
    ("mode", "more"), [("assign", ""), ("subscribe", ", group: g, client: sarama")], ids=["assign", "sarama"]
)
def test_a_consumer_that_nothing_evicts_is_slow_if_it_falls_behind(monkeypatch, mode, more):
    world = Slowed(monkeypatch, mode, more)
    assert world.after(0.1, 0, 0) is None, "the first sample"
    assert world.after(1.5, 2, 100) is None, "too early"
    assert world.after(1.0, 3, 50) == "a/1 processed 5 records in 2.5 s, and its lag grew from 0 to 145 records"


def test_a_slow_consumer_that_is_gone_needs_no_heal(monkeypatch):
    world = Slowed(monkeypatch)
    assert world.fault.heal(world) == "a/1 works at full speed"
    world.alive = False
    assert world.fault.heal(world) == "a/1 is gone"


@pytest.mark.parametrize(("processed", "arrived"), [(60, 100), (5, 5), (0, 0)], ids=["fast", "keeps up", "idle"])
def test_a_consumer_that_is_not_slow_or_does_not_fall_behind_is_no_proof(monkeypatch, processed, arrived):
    world = Slowed(monkeypatch)
    assert world.after(0.1, 0, 0) is None
    assert world.after(2.5, processed, arrived) is None


def test_a_slow_consumer_is_compared_over_the_same_partitions(monkeypatch):
    world = Slowed(monkeypatch)
    assert world.after(0.1, 0, 0) is None
    world.partitions = ["orders/0", "orders/1"]
    assert world.after(2.5, 5, 100) is None


def test_a_member_with_a_poll_interval_has_to_leave(monkeypatch):
    world = Slowed(monkeypatch, "subscribe", ", group: g")
    assert world.after(0.1, 0, 0) is None
    assert world.after(2.5, 5, 100) is None


PRODUCERS = """
title: t
topics: [{name: orders}, {name: bills}]
producers: [{name: shop, topic: orders, count: 2}]
processors: [{name: till, group: g, topics: [orders], to: bills, members: 2}]
faults: [{name: f, kind: KIND, target: {member: MEMBER}, when: {at: 1s}}]
"""


class Members:
    """A fleet in which a client leaves with an exit code, and one joins that was held back."""

    def __init__(self, kind, member="shop/2", exit_code=0, text=PRODUCERS):
        self.scenario = parse(text.replace("KIND", kind).replace("MEMBER", member), "t.yaml")
        self.exit_code, self.members = exit_code, {}
        self.clients = {} if kind.endswith("join") else {member: self._client()}
        self.fleet = self.kafka = self
        self.fault = FAULTS[self.scenario.faults[0].kind](self.scenario.faults[0])

    def _client(self):
        counts = {"sent": 9, "acked": 0}
        return SimpleNamespace(alive=True, exit_code=None, counts=counts, count=counts.__getitem__)

    def present(self, entry):
        return [client for client in self.clients if client.startswith(f"{entry}/")]

    def state(self, client):
        return self.clients[client]

    def group(self, name):
        partition = (TopicPartition("orders", 0),)
        members = [GroupMember(i, None, client, "", partition) for client, i in self.members.items()]
        return GroupState("Stable", 1, tuple(members))

    def leave(self, client, timeout_s):
        self.clients[client].alive, self.clients[client].exit_code = False, self.exit_code

    def join(self, client):
        if client in self.clients:
            raise ClientError(f"{client} was started before")
        self.clients[client] = self._client()

    def restart(self, client):
        self.clients[client] = self._client()


def test_a_producer_that_leaves_has_to_end_in_order_and_comes_back_once():
    world = Members("producer.leave")
    assert world.fault.proof(world) is None
    world.fault.inject(world)
    assert world.fault.proof(world) == "shop/2 stopped in order, with 0 of 9 records acknowledged"
    assert world.fault.heal(world) == "shop/2 started again"
    assert world.fault.heal(world) == "nothing to heal"

    world = Members("producer.leave", exit_code=1)
    world.fault.inject(world)
    assert world.fault.proof(world) is None, "it ended with an error"

    text = PRODUCERS.replace("kind: KIND", "kind: KIND, for_good: true")
    world = Members("producer.leave", text=text)
    world.fault.inject(world)
    assert world.fault.heal(world) == "shop/2 stays away"


def test_a_producer_that_joins_is_proven_by_an_acknowledged_record():
    world = Members("producer.join")
    assert world.scenario.held_back() == {"shop/2"}
    world.fault.inject(world)
    assert world.fault.proof(world) is None, "nothing is acknowledged"
    world.state("shop/2").counts["acked"] = 7
    assert world.fault.proof(world) == "shop/2 started, and 7 of its records are acknowledged"
    assert world.fault.heal(world) == "shop/2: the producer stays"
    with pytest.raises(ClientError, match="was started before"):
        world.fault.inject(world)


@pytest.mark.parametrize("name", ["till/2", "till/2-StreamThread-1-consumer"])
def test_a_processor_that_joins_is_found_in_its_group_also_by_the_name_of_its_thread(name):
    world = Members("consumer.join", "till/2")
    world.fault.inject(world)
    world.members["till/20"] = "other"
    assert world.fault.proof(world) is None
    world.members[name] = "mine"
    assert world.fault.proof(world) == "till/2 joined group g and has orders/0"


def test_a_processor_that_leaves_has_to_be_gone_from_its_group_unless_its_library_never_leaves():
    world = Members("consumer.leave", "till/1")
    world.members["till/1"] = "mine"
    world.fault.inject(world)
    assert world.fault.proof(world) is None
    world.members.clear()
    assert world.fault.proof(world) == "till/1 left group g"

    streams = PRODUCERS.replace("members: 2", "members: 2, client: streams")
    world = Members("consumer.leave", "till/1", text=streams)
    world.members["till/1-StreamThread-1-consumer"] = "mine"
    world.fault.inject(world)
    assert world.fault.proof(world) == "till/1 stopped in order"
    world = Members("consumer.leave", "till/1", exit_code=1, text=streams)
    world.fault.inject(world)
    assert world.fault.proof(world) is None


@pytest.mark.parametrize(
    ("counts", "proven"),
    [([10, 10, 10, 10], 2), ([10, 12, 12, 12, 12], 2), ([10, 12, 14, 16, 18], None)],
    ids=["nothing", "what it wrote before", "it goes on"],
)
def test_a_paused_reader_is_proven_once_it_delivers_nothing_also_if_its_last_reports_come_late(
    counts, proven, monkeypatch
):
    scenario = parse(SCENARIO.replace("consumer.crash", "consumer.pause"), "t.yaml")
    seconds = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    delivered = iter(counts)
    state = SimpleNamespace(alive=True, count=lambda name: next(delivered))
    fleet = SimpleNamespace(state=lambda client: state, pause=lambda client: None)
    world = SimpleNamespace(scenario=scenario, fleet=fleet, kafka=None)
    fault = FAULTS["consumer.pause"](scenario.faults[0])
    fault.inject(world)
    seen = [fault.proof(world) for _ in counts[1:]]
    first = next((number for number, text in enumerate(seen, 1) if text), None)
    assert first == proven, seen


def test_a_target_that_nothing_fits_any_more_is_named():
    world = SimpleNamespace(fleet=SimpleNamespace(present=lambda entry: []), rng=random.Random(1))
    with pytest.raises(FaultError, match="no client of shop, replay is there"):
        any_present(["shop", "replay"], world)
