"""Parts of faults without a cluster: what heals where the injection broke off, and what counts as proof."""

import random
from types import SimpleNamespace

import pytest

from chaos.errors import ClusterError, FaultError
from chaos.faults import FAULTS
from chaos.faults.world import World
from chaos.kafka.metadata_merge import Metadata, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import broker as specs
from chaos.scenario.triggers import Target, Trigger
from chaos.wait import wait_until

AT = Trigger(at=0)


class Cluster:
    """Three brokers that do as they are told, but for what the test forbids."""

    broker_ids = (1, 2, 3)

    def __init__(self, refuses=()):
        self.refuses, self.down, self.paused, self.did = set(refuses), set(), set(), []
        self.state = SimpleNamespace(driver="process")

    def _do(self, what, broker):
        self.did.append((what, broker))
        if (what, broker) in self.refuses:
            raise ClusterError(f"cannot {what} {broker}")

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
    asked = iter(controllers)
    kafka = SimpleNamespace(metadata=lambda: metadata, controller=lambda: next(asked, None))
    observer = SimpleNamespace(metadata=metadata, partition=lambda name: metadata.partitions.get(name))
    scenario = SimpleNamespace(topics=[SimpleNamespace(name="orders")])
    return World(scenario, cluster, None, observer, kafka, random.Random(1))


def build(spec):
    return FAULTS[spec.kind](spec)


def test_brokers_that_were_killed_before_the_injection_broke_off_are_started():
    cluster = Cluster(refuses={("kill", 3)})
    spec = specs.BrokerKill(name="k", kind="broker.kill", target=Target(followers_of="orders/0"), when=AT)
    one = build(spec)
    with pytest.raises(ClusterError):
        one.inject(world_of(cluster))
    assert cluster.down == {2}
    one.heal(world_of(cluster))
    assert cluster.down == set()
    one.heal(world_of(cluster))
    assert cluster.did.count(("start", 2)) == 1


def test_a_stop_that_does_not_hand_over_is_no_controlled_shutdown(monkeypatch):
    monkeypatch.setattr("chaos.faults.brokers.HANDOVER_TIMEOUT_S", 0.1)
    cluster = Cluster()
    one = build(specs.BrokerStop(name="s", kind="broker.stop", target=Target(leader_of="orders/0"), when=AT))
    with pytest.raises(FaultError, match="still leads orders/0"):
        one.inject(world_of(cluster))
    one.heal(world_of(cluster))
    assert cluster.down == set()


def test_a_controller_is_lost_when_another_leads_the_quorum_or_the_epoch_is_higher():
    spec = specs.ControllerKill(name="c", kind="controller.kill", target=Target(controller=True), when=AT)
    one = build(spec)
    world = world_of(Cluster(), controllers=[(2, 7), (2, 7), None, (2, 7), (3, 8)])
    one.inject(world)
    assert one.broker == 2
    assert one.proof(world) is None, "nobody knows"
    assert one.proof(world) is None, "the same one in the same epoch"
    assert one.proof(world) == "the active controller went from 2 to 3, epoch 7 to 8"


def test_pauses_in_turns_end_with_the_heal(monkeypatch):
    monkeypatch.setattr("chaos.faults.probe.answered", lambda broker, world: 0.001)
    cycle = specs.Cycle(paused=0.02, running=0.02)
    spec = specs.BrokerPause(name="p", kind="broker.pause", target=Target(broker=1), when=AT, cycle=cycle)
    cluster, one = Cluster(), build(spec)
    world = world_of(cluster)
    one.inject(world)
    wait_until(lambda: cluster.did.count(("pause", 1)) >= 3, 5, "it does not take turns")
    one.heal(world)
    assert cluster.paused == set()
    done = len(cluster.did)
    assert one.heal(world) == "broker 1 goes on"
    assert len(cluster.did) == done


@pytest.mark.parametrize(("waited", "proven"), [(1.2, True), (0.2, False), (None, False)])
def test_a_short_pause_is_proven_by_a_request_that_waited(monkeypatch, waited, proven):
    monkeypatch.setattr("chaos.faults.probe.answered", lambda broker, world: 0.001)
    monkeypatch.setattr("chaos.faults.probe.waited_s", lambda broker, timeout_s, world: waited)
    cycle = specs.Cycle(paused=2.0, running=60.0)
    spec = specs.BrokerPause(name="p", kind="broker.pause", target=Target(broker=1), when=AT, cycle=cycle)
    one, world = build(spec), world_of(Cluster())
    one.inject(world)
    assert bool(one.proof(world)) == proven
    one.heal(world)
