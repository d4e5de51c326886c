"""Faults of brokers without a cluster: heals after a partial injection, and conditions of the proofs."""

import random
from types import SimpleNamespace

import pytest

from chaos.errors import ClusterError, FaultError
from chaos.faults import FAULTS, replicas, resources
from chaos.faults import brokers as specs
from chaos.faults.base import World
from chaos.faults.settings import BrokerConfigSpec
from chaos.kafka.client import LogDir
from chaos.kafka.metadata import NO_LEADER, Metadata, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.setup.triggers import Target, Trigger
from chaos.wait import wait_until

AT = Trigger(at=0)


class Cluster:
    """A cluster of three brokers that refuses the operations that a test forbids."""

    broker_ids = (1, 2, 3)
    controller_ids = ()

    def __init__(self, refuses=()):
        self.refuses, self.down, self.paused, self.operations = set(refuses), set(), set(), []
        self.state = SimpleNamespace(driver="process", zookeeper=None)

    def _do(self, operation, broker):
        self.operations.append((operation, broker))
        if (operation, broker) in self.refuses:
            raise ClusterError(f"cannot {operation} {broker}")

    def kill_broker(self, broker):
        self._do("kill", broker)
        self.down.add(broker)

    def stop_broker(self, broker):
        self._do("stop", broker)
        self.down.add(broker)

    def start_broker(self, broker):
        self.start_brokers([broker])

    def start_brokers(self, brokers):
        for broker in brokers:
            self._do("start", broker)
            self.down.discard(broker)

    def pause_broker(self, broker):
        self._do("pause", broker)
        self.paused.add(broker)

    def resume_broker(self, broker):
        self.paused.discard(broker)

    def broker_alive(self, broker):
        return broker not in self.down

    def address(self, broker):
        return "127.0.0.1", broker


def world_of(cluster, leader=1, epoch=3, controllers=()):
    state = PartitionState(leader, epoch, (1, 2, 3), (1, 2, 3))
    metadata = Metadata({b: ("h", b) for b in (1, 2, 3)}, {TopicPartition("orders", 0): state})
    answers = iter(controllers)
    kafka = SimpleNamespace(metadata=lambda: metadata, controller=lambda: next(answers, None))
    observer = SimpleNamespace(metadata=metadata, partition=lambda name: metadata.partitions.get(name))
    scenario = SimpleNamespace(topics=[SimpleNamespace(name="orders")], their_topics=frozenset(), internal_topics={})
    return World(scenario, cluster, None, observer, kafka, random.Random(1))


def build(spec):
    return FAULTS[spec.kind](spec)


def test_a_heal_starts_the_brokers_that_a_partial_injection_killed():
    cluster = Cluster(refuses={("kill", 3)})
    spec = specs.BrokerKillSpec(name="k", kind="broker.kill", target=Target(followers_of="orders/0"), when=AT)
    fault = build(spec)
    with pytest.raises(ClusterError):
        fault.inject(world_of(cluster))
    assert cluster.down == {2}
    fault.heal(world_of(cluster))
    assert cluster.down == set()
    fault.heal(world_of(cluster))
    assert cluster.operations.count(("start", 2)) == 1


def test_a_stop_without_handover_is_no_controlled_shutdown(monkeypatch):
    monkeypatch.setattr("chaos.faults.targets.HANDOVER_TIMEOUT_S", 0.1)
    cluster = Cluster()
    fault = build(specs.BrokerStopSpec(name="s", kind="broker.stop", target=Target(leader_of="orders/0"), when=AT))
    with pytest.raises(FaultError, match="still leads orders/0"):
        fault.inject(world_of(cluster))
    fault.heal(world_of(cluster))
    assert cluster.down == set()


def test_alternate_pauses_end_with_the_heal(monkeypatch):
    monkeypatch.setattr("chaos.faults.targets.answered", lambda broker, world: 0.001)
    cycle = specs.Cycle(paused=0.02, running=0.02)
    spec = specs.BrokerPauseSpec(name="p", kind="broker.pause", target=Target(broker=1), when=AT, cycle=cycle)
    cluster, fault = Cluster(), build(spec)
    world = world_of(cluster)
    fault.inject(world)
    wait_until(lambda: cluster.operations.count(("pause", 1)) >= 3, 5, "the pauses do not repeat")
    fault.heal(world)
    assert cluster.paused == set()
    before = len(cluster.operations)
    assert fault.heal(world) == "broker 1 runs again"
    assert len(cluster.operations) == before


@pytest.mark.parametrize(("wait_s", "proven"), [(1.2, True), (0.2, False), (None, False)])
def test_a_short_pause_is_proven_by_a_delayed_request(monkeypatch, wait_s, proven):
    monkeypatch.setattr("chaos.faults.targets.answered", lambda broker, world: 0.001)
    monkeypatch.setattr("chaos.faults.targets.waited_s", lambda broker, timeout_s, world: wait_s)
    cycle = specs.Cycle(paused=2.0, running=60.0)
    spec = specs.BrokerPauseSpec(name="p", kind="broker.pause", target=Target(broker=1), when=AT, cycle=cycle)
    fault, world = build(spec), world_of(Cluster())
    fault.inject(world)
    assert bool(fault.proof(world)) == proven
    fault.heal(world)


def test_a_wipe_of_unreplicated_partitions_is_proven_by_the_list_of_brokers():
    cluster = Cluster()
    cluster.replicas_on_disk = lambda broker: 0 if broker in cluster.down else 21
    cluster.wipe_disk = lambda broker: None
    spec = resources.BrokerWipeSpec(name="w", kind="broker.wipe", target=Target(broker=1), when=AT)
    fault, world = build(spec), world_of(cluster)
    fault.inject(world)
    assert fault.proof(world) is None, "the others still list it"
    listed = world.kafka.metadata
    world.kafka.metadata = lambda: None
    assert fault.proof(world) is None, "no broker answers"
    without = Metadata({b: ("h", b) for b in (2, 3)}, listed().partitions)
    world.kafka.metadata = lambda: without
    assert fault.proof(world) == "broker 1 is gone from the metadata; of 21 replicas on its disk none is left"


@pytest.mark.parametrize(("topic", "cluster"), [({"flush.messages": 1}, {}), ({}, {"log.flush.interval.ms": 10})])
def test_a_power_loss_refuses_a_topic_that_brokers_flush_as_the_disk_does_not_show_what_is_flushed(topic, cluster):
    spec = resources.LogTruncateSpec(name="power", kind="log.truncate", target=Target(isr_of="orders/0"), when=AT)
    scenario = SimpleNamespace(
        topic=lambda name: SimpleNamespace(config=topic), cluster=SimpleNamespace(config=cluster)
    )
    fault = FAULTS["log.truncate"](spec)
    with pytest.raises(FaultError, match=r"flush.*the disk does not show which"):
        fault._inject(SimpleNamespace(scenario=scenario))
    assert not fault.begun


class Settings:
    """The dynamic settings of brokers; a broker that is down neither reports nor takes any."""

    def __init__(self, monkeypatch, cluster, **own):
        self.cluster, self.own, self.late, self.refuses = cluster, {1: dict(own), 2: {}, 3: {}}, False, set()
        monkeypatch.setattr("chaos.kafka.admin.dynamic_of_broker", self.read)
        monkeypatch.setattr("chaos.kafka.admin.set_of_broker", self.change)
        monkeypatch.setattr("chaos.faults.settings.BACK_S", 0.05)

    def read(self, kafka, broker, names):
        return None if broker in self.cluster.down else {k: v for k, v in self.own[broker].items() if k in names}

    def change(self, kafka, broker, values):
        if broker in self.cluster.down or broker in self.refuses:
            raise ClusterError(f"broker {broker} takes no setting")
        changed = {} if self.late else values
        self.own[broker] = {k: v for k, v in (self.own[broker] | changed).items() if v is not None}


def settings_fault(**target):
    settings = {"max.connections": 20, "log.cleaner.min.cleanable.ratio": 1}
    return build(BrokerConfigSpec(name="f", kind="broker.config", settings=settings, target=Target(**target), when=AT))


def test_settings_of_a_broker_are_proven_by_its_own_report_and_healed_to_the_former_ones(monkeypatch):
    settings = Settings(monkeypatch, cluster := Cluster(), **{"max.connections": "50"})
    fault, world = settings_fault(broker=1), world_of(cluster)
    settings.late = True
    fault.inject(world)
    assert fault.proof(world) is None, "the broker has the former values"
    settings.late = False
    settings.change(None, 1, {"max.connections": "20", "log.cleaner.min.cleanable.ratio": "1.0"})
    assert fault.proof(world) == "broker 1 reports max.connections=20, log.cleaner.min.cleanable.ratio=1"
    assert fault.heal(world) == fault.heal(world)
    assert settings.own[1] == {"max.connections": "50"}, "one has its former value, the other one none"


def test_settings_of_all_brokers_are_healed_after_half_an_injection(monkeypatch):
    settings = Settings(monkeypatch, cluster := Cluster())
    settings.refuses = {2}
    fault, world = settings_fault(all_brokers=True), world_of(cluster)
    with pytest.raises(ClusterError):
        fault.inject(world)
    assert settings.own[1], "the first broker has them"
    settings.refuses.clear()
    assert fault.proof(world) is None
    fault.heal(world)
    assert settings.own == {1: {}, 2: {}, 3: {}}


def test_a_broker_that_is_down_is_not_changed_and_one_that_went_down_gets_its_settings_back(monkeypatch):
    settings = Settings(monkeypatch, cluster := Cluster())
    cluster.down = {1}
    fault, world = settings_fault(broker=1), world_of(cluster)
    with pytest.raises(FaultError, match="none was changed"):
        fault.inject(world)
    assert fault.heal(world) == "nothing to heal"
    cluster.down = set()
    fault.inject(world)
    cluster.kill_broker(1)
    assert fault.proof(world) is None
    fault.heal(world)
    assert cluster.down == set() and settings.own[1] == {}


class Folders(Cluster):
    """A cluster with two data folders at each broker; one may be taken away."""

    def __init__(self):
        super().__init__()
        self.away, self.refused = False, False

    def fail_folder(self, broker, partition):
        self.away = True
        if self.refused:
            raise ClusterError("half of it")
        return "d1"

    def mend_folders(self, broker):
        self.away = False

    def limit_disk(self, *_):
        raise AssertionError("only the folder is lost")

    unlimit_disk = limit_disk


def lost_folder(monkeypatch, cluster, error="KafkaStorageError", isr=(2, 3), leader=2):
    """A world after the loss of a folder of broker 1, as the cluster reports it."""
    world = world_of(cluster)
    world.scenario.cluster = SimpleNamespace(config={"log.dirs": "d1,d2"})
    fault = build(resources.DiskLimitSpec(name="d", kind="disk.limit", target=Target(leader_of="orders/0"), when=AT))
    monkeypatch.setattr("chaos.faults.resources.able", lambda cluster, to: cluster)
    monkeypatch.setattr("chaos.faults.targets.able", lambda cluster, to: cluster)
    found = [LogDir("/x/data/d2", "", {}), LogDir("/x/data/d1", error, {})]
    monkeypatch.setattr("chaos.kafka.client.log_dirs", lambda kafka, broker: found)
    moved = PartitionState(leader, 4, isr, (1, 2, 3))
    world.observer.partition = lambda name: moved
    return fault, world


def test_a_lost_folder_is_proven_by_the_brokers_own_report_and_healed_by_a_restart(monkeypatch):
    cluster = Folders()
    fault, world = lost_folder(monkeypatch, cluster)
    assert "took the data folder d1 away from broker 1" in fault.inject(world)
    proof = fault.proof(world)
    assert proof == "broker 1 lives on without its folder d1 (KafkaStorageError); orders/0 is led by 2 with ISR [2, 3]"
    assert fault.heal(world) == fault.heal(world) == "broker 1 started with all its folders"
    assert cluster.operations == [("stop", 1), ("start", 1)] and not cluster.away


@pytest.mark.parametrize(
    "seen", [{"error": ""}, {"isr": (1, 2, 3)}, {"leader": 1}], ids=["no error", "in the ISR", "still leads"]
)
def test_a_folder_that_the_broker_has_not_lost_is_no_proof(monkeypatch, seen):
    fault, world = lost_folder(monkeypatch, Folders(), **seen)
    fault.inject(world)
    assert fault.proof(world) is None


@pytest.mark.parametrize(("ids", "down", "proven"), [((1,), True, True), ((1,), False, False), ((1, 2), True, False)])
def test_the_only_broker_ended_at_a_full_disk_though_no_other_takes_its_leadership(monkeypatch, ids, down, proven):
    cluster = Folders()
    fault, world = lost_folder(monkeypatch, cluster, leader=1, isr=(1,))
    fault.inject(world)
    cluster.broker_ids = ids
    cluster.down.update({1} if down else ())
    assert (fault.proof(world) is not None) == proven
    if proven:
        assert fault.proof(world) == "broker 1 ended: it could not append to its log; it is the only one"


def test_a_broker_that_lost_its_last_folder_ended(monkeypatch):
    cluster = Folders()
    fault, world = lost_folder(monkeypatch, cluster)
    fault.inject(world)
    cluster.down.add(1)
    assert fault.proof(world).startswith("broker 1 ended: it could not append to its log; orders/0 is led by 2")
    fault.heal(world)
    assert cluster.operations == [("start", 1)] and not cluster.away


def test_a_folder_that_was_lost_half_way_comes_back(monkeypatch):
    cluster = Folders()
    cluster.refused = True
    fault, world = lost_folder(monkeypatch, cluster)
    with pytest.raises(ClusterError):
        fault.inject(world)
    assert cluster.away
    fault.heal(world)
    assert not cluster.away


class Move:
    """A partition of broker 1 that moves to broker 3, as the cluster reports it."""

    def __init__(self, monkeypatch, size=5_000_000, **spec):
        self.settings = Settings(monkeypatch, cluster := Cluster())
        self.world, self.copied, self.added, self.now, self.topic = world_of(cluster), 100, frozenset({3}), 100.0, []
        self.cancelled = False
        state = PartitionState(1, 3, (1, 2), (1, 2))
        states = {TopicPartition("orders", 0): state}
        self.world.kafka.metadata = lambda: Metadata({b: ("h", b) for b in (1, 2, 3)}, states)
        monkeypatch.setattr("chaos.kafka.admin.reassign", lambda *_: None)
        monkeypatch.setattr("chaos.kafka.admin.settings", lambda *_: {})
        monkeypatch.setattr("chaos.kafka.admin.set_settings", lambda kafka, topic, values: self.topic.append(values))
        monkeypatch.setattr("chaos.kafka.admin.added_by_reassignment", lambda *_: self.added)
        monkeypatch.setattr("chaos.kafka.admin.cancel_reassignment", self.cancel)
        monkeypatch.setattr("chaos.faults.replicas.time.monotonic", lambda: self.now)
        sizes = {1: lambda: size, 3: lambda: self.copied}
        monkeypatch.setattr(
            "chaos.kafka.client.log_dirs",
            lambda kafka, broker: [LogDir("/d", "", {TopicPartition("orders", 0): sizes[broker]()})],
        )
        fields = {"name": "m", "kind": "partition.reassign", "to": [1, 3], "throttle": 100_000} | spec
        self.fault = build(replicas.ReassignSpec(target=Target(partition="orders/0"), when=AT, **fields))

    def cancel(self, *_):
        self.cancelled, self.added = True, frozenset()


def test_a_throttled_move_is_proven_while_it_lasts_and_copies_no_more_than_the_rate_allows(monkeypatch):
    move = Move(monkeypatch)
    move.fault.inject(move.world)
    assert move.fault.proof(move.world) is None, "too soon"
    move.now += 5
    proof = move.fault.proof(move.world)
    assert proof == "orders/0 is being moved: after 5 s at 100,000 bytes per second broker 3 has 100 bytes"
    move.copied = 100_000 * 16 + 2**20 + 1
    assert move.fault.proof(move.world) is None, "it copied more"
    move.copied = 0
    assert "broker 3 has 0 bytes" in move.fault.proof(move.world), "the replicas in sync use up the rate"
    move.copied = None
    assert move.fault.proof(move.world) is None, "broker 3 does not report the replica"
    move.copied, move.settings.own[2] = 100, dict.fromkeys(move.settings.own[2], "")
    assert move.fault.proof(move.world) == proof, "brokers hide the value of a rate"
    move.settings.own[2] = dict.fromkeys(move.settings.own[2], "200000")
    assert move.fault.proof(move.world) is None, "a broker has another rate"
    move.settings.own[2] = {}
    assert move.fault.proof(move.world) is None, "a broker has no rate"


def test_a_hidden_rate_that_brokers_have_already_could_not_be_set_back_so_nothing_moves(monkeypatch):
    move = Move(monkeypatch)
    move.settings.own[2] = {"leader.replication.throttled.rate": ""}
    with pytest.raises(FaultError, match="broker 2 has a throttle already and hides its rate"):
        move.fault.inject(move.world)
    assert move.fault.heal(move.world) == "nothing to heal" and move.settings.own[1] == {}


def test_a_move_that_is_complete_is_no_proof_of_a_throttle(monkeypatch):
    move = Move(monkeypatch)
    move.fault.inject(move.world)
    move.now, move.added = move.now + 5, frozenset()
    assert move.fault.proof(move.world) is None


@pytest.mark.parametrize(("more", "done"), [({}, "is moved to [1, 3]"), ({"cancel": True}, "is not moved")])
def test_the_heal_removes_the_throttle_and_completes_or_cancels_the_move(monkeypatch, more, done):
    move = Move(monkeypatch, **more)
    move.fault.inject(move.world)
    assert move.topic[-1] == {
        "leader.replication.throttled.replicas": "0:1,0:2",
        "follower.replication.throttled.replicas": "0:3",
    }
    move.added = move.added if more else frozenset()
    assert move.fault.heal(move.world) == move.fault.heal(move.world)
    assert done in move.fault.heal(move.world) and move.cancelled == bool(more)
    assert move.settings.own == {1: {}, 2: {}, 3: {}} and set(move.topic[-1].values()) == {None}


def test_a_throttle_that_was_set_half_way_is_removed(monkeypatch):
    move = Move(monkeypatch)
    move.settings.refuses = {2}
    with pytest.raises(ClusterError):
        move.fault.inject(move.world)
    move.settings.refuses, move.added = set(), frozenset()
    move.fault.heal(move.world)
    assert move.settings.own == {1: {}, 2: {}, 3: {}}


def test_a_small_partition_moves_too_soon_for_a_throttle(monkeypatch):
    move = Move(monkeypatch, size=1_000_000)
    with pytest.raises(FaultError, match="which move too soon to be observed"):
        move.fault.inject(move.world)
    assert move.fault.heal(move.world) == "nothing to heal"


@pytest.mark.parametrize("kind", ["broker.stop", "cluster.rolling_restart"])
def test_the_only_broker_stops_though_nobody_takes_its_leaderships(kind, monkeypatch):
    cluster = Cluster()
    cluster.broker_ids = (1,)
    spec = {
        "broker.stop": lambda: specs.BrokerStopSpec(name="s", kind=kind, target=Target(leader_of="orders/0"), when=AT),
        "cluster.rolling_restart": lambda: specs.RollingRestartSpec(
            name="s", kind=kind, target=Target(all_brokers=True), when=AT
        ),
    }[kind]()
    fault, world = FAULTS[kind](spec), world_of(cluster)
    seen = world.kafka.metadata()
    world.kafka.metadata = lambda: None if cluster.down else seen
    world.kafka.unhealthy = lambda partitions: []
    for other in (2, 3):
        seen.brokers.pop(other)
    fault.inject(world)
    proof = fault.proof(world)
    if kind == "broker.stop":
        assert proof == "no broker answers, and there was none but broker 1"
    else:
        assert "broker 1 handed over 0 partitions" in proof and not cluster.down


@pytest.mark.parametrize("kind", ["broker.kill", "broker.stop"])
@pytest.mark.parametrize(
    ("leader", "epoch", "replicas", "proof"),
    [
        (2, 4, (1, 2), "source-offset/0 went from leader 1 to 2, leader epoch 3 to 4"),
        (NO_LEADER, 4, (1,), "source-offset/0 went from leader 1 to none, leader epoch 3 to 4"),
        (NO_LEADER, 4, (1, 2), None),  # the other replica may lead in a moment
        (NO_LEADER, 3, (1,), None),  # a broker that does not know the address of the leader names none
        (1, 3, (1,), None),
    ],
)
def test_the_end_of_a_broker_is_proven_by_a_topic_that_only_applications_use(kind, leader, epoch, replicas, proof):
    target = Target(leader_of="source-offset/0")
    fault = FAULTS[kind](FAULTS[kind].specification(name="k", kind=kind, target=target, when=AT))
    world = world_of(cluster := Cluster())
    orders, internal = TopicPartition("orders", 0), TopicPartition("source-offset", 0)
    partitions = world.observer.metadata.partitions
    partitions |= {orders: PartitionState(2, 3, (1, 2), (1, 2)), internal: PartitionState(1, 3, replicas, replicas)}
    world.scenario.internal_topics = {"source-offset": 1}
    after = Metadata(world.observer.metadata.brokers, {internal: PartitionState(2, 4, replicas, replicas)})
    world.kafka.metadata = lambda: after if cluster.down else world.observer.metadata
    fault.inject(world)
    assert cluster.down == {1} and fault.proof(world) is None, "the process is gone, and the cluster has not noticed"
    partitions[orders] = PartitionState(3, 4, (1, 2), (1, 2))
    assert fault.proof(world) is None, "another partition has another leader"
    partitions[internal] = PartitionState(leader, epoch, replicas, replicas)
    assert fault.proof(world) == proof


def test_a_kill_of_the_last_brokers_is_proven_by_silence_and_not_while_another_one_is_there():
    spec = specs.BrokerKillSpec(name="k", kind="broker.kill", target=Target(leader_of="orders/0"), when=AT)
    fault, world = build(spec), world_of(Cluster())
    fault.inject(world)
    assert fault.proof(world) is None
    world.kafka.metadata = lambda: None
    assert fault.proof(world) is None, "the others may answer at the next try"
    world.observer.metadata.brokers.clear()
    assert fault.proof(world) is None
    world.observer.metadata.brokers[1] = ("h", 1)
    assert fault.proof(world) == "no broker answers, and there was none but broker 1"
    world.kafka.metadata = lambda: world.observer.metadata
    assert fault.proof(world) is None, "a broker answers"
