"""Steps of a migration without a cluster: the proofs, proofs that must be missing, and heals after half a step."""

from __future__ import annotations

import json
import re
import threading
from types import SimpleNamespace

import pytest

from chaos.errors import ClusterError, FaultError
from chaos.faults import FAULTS
from chaos.faults.base import World
from chaos.kafka.features import Support
from chaos.kafka.metadata_merge import PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.kafka.quorum import Belief
from chaos.scenario.faults import SPECS
from tests.chaos.faults import test_brokers

ORDERS = TopicPartition("orders", 0)
STATE = "/brokers/topics/orders/partitions/0/state"
COPIED = "Completed migration of metadata from ZooKeeper to KRaft"
SENT = "UpdateMetadata request sent by controller"


class Cluster(test_brokers.Cluster):
    """Brokers with ZooKeeper, which behave as Kafka does in a migration; a test changes what they report."""

    def __init__(self):
        super().__init__()
        self.controller_ids, self.fails = [], set()
        self.state = SimpleNamespace(driver="process", zookeeper=True)
        self.modes = dict.fromkeys(self.broker_ids, "zookeeper")
        self.next_modes: dict[int, str] = {}
        self.znodes, self.logs, self.epoch, self.answers = {"/controller": '{"brokerid":1}'}, {}, 3, True
        self.sender = {}
        self.write()

    @property
    def node_ids(self):
        return [*self.controller_ids, *self.broker_ids]

    def write(self):
        """Change the leader epoch, here and in ZooKeeper."""
        self.epoch += 1
        self.znodes[STATE] = json.dumps({"leader": 1, "leader_epoch": self.epoch})

    def provision_controllers(self, count, config):
        self.controller_ids = list(range(101, 101 + count))
        self.modes |= dict.fromkeys(self.controller_ids, "migration")
        return self.controller_ids

    def remove_controllers(self):
        self.operations.append(("remove", tuple(self.controller_ids)))
        self.controller_ids = []

    def set_mode(self, node, mode):
        self.next_modes[node] = mode

    def start_brokers(self, brokers):
        for node in brokers:
            mode = self.next_modes.get(node, self.modes[node])
            if (node, mode) in self.fails:
                raise ClusterError(f"{node} did not get ready")
            self.modes[node] = mode
        super().start_brokers(brokers)
        self.write()
        if {self.modes[b] for b in self.broker_ids} == {"migration"} and self.controller_ids:
            self.logs[101] = COPIED
            self.znodes |= {"/controller": '{"brokerid":101}', "/migration": '{"kraft_metadata_offset":9}'}
        if set(self.modes.values()) == {"kraft"}:
            self.logs[101] = "state is POST_MIGRATION"

    def znode(self, path):
        return self.znodes.get(path)

    def delete_znode(self, path):
        self.operations.append(("delete", path))
        self.znodes.pop(path, None)
        if path == "/controller":
            self.znodes["/controller"] = '{"brokerid":2}'
            self.logs |= {b: f"in response to {SENT} {self.sender.get(b, 2)}" for b in self.broker_ids}

    def logged(self, node, pattern):
        found = re.search(pattern, self.logs.get(node, ""))
        return found.group() if found else None

    def end_zookeeper(self):
        self.answers, self.state.zookeeper = False, None

    def lend_zookeeper(self, running):
        self.answers = running

    def zookeeper_answers(self):
        return self.answers

    def prepare_migration(self, release, on_progress):
        pass


@pytest.fixture
def world(monkeypatch) -> World:
    cluster = Cluster()
    base = test_brokers.world_of(cluster)
    whole = base.kafka.metadata()

    def metadata():
        listed = {b: address for b, address in whole.brokers.items() if b not in cluster.down}
        leader = 2 if 1 in cluster.down else 1
        return test_brokers.Metadata(listed, {ORDERS: PartitionState(leader, cluster.epoch, (1, 2, 3), (1, 2, 3))})

    def settings(kafka, broker, names):
        values = {
            "zookeeper": {"zookeeper.connect": "h:1", "zookeeper.metadata.migration.enable": "false"},
            "migration": {"zookeeper.connect": "h:1", "zookeeper.metadata.migration.enable": "true"},
            "kraft": {"process.roles": "broker", "zookeeper.metadata.migration.enable": "false"},
        }[cluster.modes[broker]]
        return {name: SimpleNamespace(value=value) for name, value in values.items()}

    cluster.active = 101
    base.kafka.metadata = metadata
    base.kafka.unhealthy = lambda partitions: [f"broker {b} is down" for b in cluster.down]
    base.kafka.quorum = lambda: SimpleNamespace(leader=101, ends=dict.fromkeys(cluster.controller_ids, 90))
    fleet = SimpleNamespace(total_acked=iter(range(0, 10_000, 10)).__next__, producers_done=lambda: False)
    world = World(
        SimpleNamespace(topics=base.scenario.topics, cluster=SimpleNamespace(config={})),
        cluster,
        fleet,
        base.observer,
        base.kafka,
        base.rng,
    )
    started = iter(range(1, 1000))

    def beliefs(world):
        return {n: Belief(next(started) if n == cluster.active else None, 0) for n in cluster.controller_ids}

    monkeypatch.setattr("chaos.faults.targets.beliefs", beliefs)
    base.kafka.controller = lambda: (cluster.active, next(started))
    monkeypatch.setattr("chaos.faults.migration_state.broker_settings", settings)
    monkeypatch.setattr("chaos.faults.targets.LOOKUP_TIMEOUT_S", 0.3)
    monkeypatch.setattr("chaos.faults.migration_steps.COPY_TIMEOUT_S", 0.3)
    monkeypatch.setattr("chaos.faults.migration.COPY_TIMEOUT_S", 0.3)
    monkeypatch.setattr("chaos.faults.migration.admin.accepts_changes", lambda kafka, timeout_s: True)
    level = Support({}, {}, {"metadata.version": 21})
    monkeypatch.setattr("chaos.faults.migration.supported", lambda node, world: level)
    return world


def build(kind: str, **settings):
    values = {"name": "m", "kind": kind, "target": {"all_brokers": True}, "when": {"at": "1s"}, **settings}
    return FAULTS[kind](SPECS[kind].model_validate(values))


def done(world: World, *kinds: str):
    """Take these steps, each with its proof, and return the last fault."""
    for kind in kinds:
        fault = build(f"migration.{kind}")
        fault.inject(world)
        assert fault.proof(world) is not None, kind
    return fault


ALL = ("provision", "enter", "switch", "finalize")


def test_the_whole_way_restarts_each_broker_twice_and_each_controller_once(world):
    fault = done(world, *ALL)
    started = [node for act, node in world.cluster.operations if act == "start"]
    assert started == [1, 2, 3, 1, 2, 3, 102, 103, 101], "the active controller comes last"
    proof = fault.proof(world)
    assert "ZooKeeper does not answer, controller 101 logged the state POST_MIGRATION" in proof
    assert "every broker returns metadata.version 21 as final" in proof
    assert [step["mode"] for step in fault.evidence["steps"]] == ["kraft"] * 3
    assert fault.heal(world).endswith("there is no way back")


@pytest.mark.parametrize(
    ("kinds", "change"),
    [
        (ALL[:1], lambda c: setattr(c, "active", 0)),
        (ALL[:1], lambda c: c.znodes.update({"/controller": '{"brokerid":101}'})),
        (ALL[:2], lambda c: c.modes.update({2: "zookeeper"})),
        (ALL[:2], lambda c: c.znodes.update({"/controller": '{"brokerid":1}'})),
        (ALL[:2], lambda c: c.znodes.pop("/migration")),
        (ALL[:2], lambda c: c.znodes.update({"/migration": '{"kraft_metadata_offset":-1}'})),
        (ALL[:2], lambda c: c.znodes.update({STATE: '{"leader":1,"leader_epoch":1}'})),
        (ALL[:3], lambda c: c.modes.update({2: "migration"})),
        (ALL[:3], lambda c: c.znodes.update({STATE: '{"leader":1,"leader_epoch":1}'})),
        (ALL[:3], lambda c: c.down.add(3)),
        (ALL, lambda c: setattr(c, "answers", True)),
        (ALL, lambda c: c.logs.clear()),
        (ALL, lambda c: c.modes.update({2: "migration"})),
    ],
    ids=[
        "no controller is active",
        "ZooKeeper names a controller before the brokers are known",
        "a broker is not in migration mode",
        "ZooKeeper names a broker",
        "no progress in ZooKeeper",
        "controllers that wait for the brokers",
        "ZooKeeper has an old epoch",
        "a broker is not in KRaft mode",
        "ZooKeeper misses the changes of the restarts",
        "a broker is down",
        "ZooKeeper answers",
        "no log of the last state",
        "a broker uses ZooKeeper",
    ],
)
def test_a_step_without_its_effect_has_no_proof(world, kinds, change):
    fault = done(world, *kinds)
    change(world.cluster)
    assert fault.proof(world) is None


def test_a_final_migration_is_not_proven_by_a_cluster_that_stands_still(world, monkeypatch):
    fault = done(world, *ALL)
    monkeypatch.setattr("chaos.faults.migration.admin.accepts_changes", lambda kafka, timeout_s: False)
    assert fault.proof(world) is None


def test_metadata_that_is_not_copied_fails_the_step(world, monkeypatch):
    done(world, "provision")
    monkeypatch.setattr(world.cluster, "logged", lambda node, pattern: None)
    with pytest.raises(FaultError, match="no controller logs that the metadata is copied"):
        build("migration.enter").inject(world)


def test_a_broker_that_does_not_start_is_started_by_the_heal(world):
    done(world, "provision")
    world.cluster.fails = {(2, "migration")}
    fault = build("migration.enter")
    with pytest.raises(ClusterError):
        fault.inject(world)
    assert world.cluster.down == {2} and fault.proof(world) is None
    world.cluster.fails = set()
    fault.heal(world)
    assert world.cluster.down == set()


def acts(world: World) -> list[tuple[str, object]]:
    return [act for act in world.cluster.operations if act[0] in ("remove", "delete", "start")]


ROLL = [("start", 1), ("start", 2), ("start", 3)]
DELETED = [("remove", (101, 102, 103)), ("delete", "/controller"), ("delete", "/migration")]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (ALL[:1], [("remove", (101, 102, 103))]),
        (ALL[:2], [*ROLL, *DELETED, *ROLL]),
        (ALL[:3], [*ROLL, *ROLL, *ROLL, *DELETED, *ROLL]),
    ],
)
def test_the_way_back_takes_the_documented_steps_of_each_state(world, kinds, expected):
    done(world, *kinds)
    fault = build("migration.rollback")
    fault.inject(world)
    assert acts(world) == expected
    assert "every broker describes ZooKeeper and no migration" in fault.proof(world)
    assert set(world.cluster.modes[b] for b in world.cluster.broker_ids) == {"zookeeper"}
    world.cluster.znodes["/controller"] = '{"brokerid":101}'
    assert fault.proof(world) is None


def test_no_broker_ends_while_one_has_metadata_of_the_removed_controllers(world, monkeypatch):
    monkeypatch.setattr("chaos.faults.migration_rollback.COPY_TIMEOUT_S", 0.1)
    done(world, "provision", "enter")
    world.cluster.sender = {3: 101}
    before = len(acts(world))
    with pytest.raises(FaultError, match="not every broker has metadata of the new controller"):
        build("migration.rollback").inject(world)
    assert acts(world)[before:] == DELETED


def test_the_way_back_is_not_proven_while_a_migration_is_noted_or_a_broker_remains_in_it(world):
    done(world, "provision", "enter")
    fault = build("migration.rollback")
    fault.inject(world)
    world.cluster.znodes["/migration"] = "{}"
    world.cluster.znodes["/migration"] = '{"kraft_metadata_offset":9}'
    assert fault.proof(world) is None
    del world.cluster.znodes["/migration"]
    world.cluster.modes[3] = "migration"
    assert fault.proof(world) is None


REFUSAL = "Unable to register broker 1 because the controller returned error BROKER_ID_NOT_REGISTERED"


def test_a_refused_way_back_is_proven_while_the_broker_is_down_and_its_heal_starts_it(world):
    done(world, *ALL)
    cluster, killed = world.cluster, threading.Event()

    def start(brokers):
        if brokers == [1] and cluster.next_modes[1] == "migration":
            cluster.logs[1] = REFUSAL
            killed.wait(10)
            raise ClusterError("broker 1 ended")
        Cluster.start_brokers(cluster, brokers)

    cluster.start_brokers = start
    kill = cluster.kill_broker
    cluster.kill_broker = lambda broker: (kill(broker), killed.set())
    fault = build("migration.rollback", refused=True)
    fault.inject(world)
    assert cluster.answers, "ZooKeeper is there again"
    assert fault.proof(world) == f"the controllers refused broker 1, which is down: {REFUSAL}"
    fault.heal(world)
    assert cluster.modes[1] == "kraft" and cluster.down == set() and not cluster.answers
    assert fault.proof(world) is None, "it is up again"


def test_a_broker_that_ends_for_another_reason_is_no_refusal(world):
    done(world, *ALL)
    world.cluster.fails = {(1, "migration")}
    fault = build("migration.rollback", refused=True)
    fault.inject(world)
    assert fault.proof(world) is None, "no log names the reason"


def test_a_way_back_that_is_not_refused_fails(world):
    done(world, *ALL)
    with pytest.raises(FaultError, match="which should have been refused"):
        build("migration.rollback", refused=True).inject(world)
