"""Changes of the release without a cluster: the proof, a proof that must be missing, and heals after half a change."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from chaos.errors import ClusterError, FaultError
from chaos.faults import FAULTS, SPECS, upgrades
from chaos.faults.base import World
from chaos.kafka import features
from chaos.kafka.features import Support
from tests.chaos.faults import test_brokers

LEVEL = {"3.9.1": 21, "3.9.2": 21, "4.0.2": 25}


class Cluster(test_brokers.Cluster):
    """Brokers that run a release, log it, and refuse the releases that a test names."""

    def __init__(self, refused=(), **kwargs):
        super().__init__(**kwargs)
        self.refused = set(refused)
        self.nodes = {b: SimpleNamespace(id=b, kafka="3.9.2") for b in self.broker_ids}
        self.state = SimpleNamespace(driver="process", node=self.nodes.__getitem__, zookeeper=None)
        self.running = dict.fromkeys(self.broker_ids, "3.9.2")
        self.controller_ids, self.node_ids = [], list(self.broker_ids)

    def dedicate(self, controllers):
        self.controller_ids, self.node_ids = controllers, [*controllers, *self.broker_ids]
        for node in controllers:
            self.nodes[node], self.running[node] = SimpleNamespace(id=node, kafka="3.9.2"), "3.9.2"

    def prepare_release(self, release, on_progress):
        pass

    def set_settings(self, broker, settings):
        self.operations.append((settings, broker))

    def set_release(self, broker, release):
        self.state.node(broker).kafka = release

    def start_brokers(self, brokers):
        for broker in brokers:
            if (release := self.state.node(broker).kafka) in self.refused:
                raise ClusterError(f"broker {broker} ended: unknown metadata.version")
            self.running[broker] = release
        super().start_brokers(brokers)

    def logged_release(self, broker):
        return self.running[broker]

    def logged_errors(self, broker):
        return "unknown metadata.version"

    def note_refinalized(self):
        pass


@pytest.fixture
def world(monkeypatch) -> World:
    """A world whose cluster is healthy while all brokers run; ApiVersions follows the release that they run."""
    cluster = Cluster()
    world = test_brokers.world_of(cluster)
    whole = world.kafka.metadata()

    def metadata():
        listed = {b: address for b, address in whole.brokers.items() if b not in cluster.down}
        return test_brokers.Metadata(listed, whole.partitions)

    world.kafka.metadata = metadata
    world.kafka.unhealthy = lambda partitions: [f"broker {b} is down" for b in cluster.down]
    monkeypatch.setattr("chaos.faults.upgrades.stop_controlled", lambda broker, world: cluster.stop_broker(broker))
    monkeypatch.setattr("chaos.faults.upgrades.supported", lambda node, world: level_of(cluster.running[node]))
    return world


def level_of(release: str) -> Support:
    return Support({0: (0, 9)}, {"metadata.version": (1, LEVEL[release])}, {})


def build(kind: str = "cluster.upgrade", **settings):
    values = {"name": "u", "kind": kind, "target": {"all_brokers": True}, "when": {"at": "1s"}, **settings}
    spec = SPECS[kind].model_validate(values)
    return FAULTS[kind](spec)


def test_an_upgrade_restarts_each_broker_and_is_proven_by_logs_and_versions(world):
    fault = build(to="4.0.2")
    fault.inject(world)
    assert world.cluster.operations == [(act, broker) for broker in (1, 2, 3) for act in ("stop", "start")]
    assert fault.proof(world) == (
        "broker 1, 2, 3 logged Kafka 4.0.2, and ApiVersions went from metadata.version 21 to metadata.version 25"
    )
    assert [step["node"] for step in fault.evidence["steps"]] == ["broker 1", "broker 2", "broker 3"]
    assert fault.heal(world) == "broker 1, 2, 3 runs 4.0.2"


def test_dedicated_controllers_come_before_the_brokers_and_go_back_after_them(world):
    world.kafka.quorum = lambda: SimpleNamespace(leader=101, ends={101: 90, 102: 88})
    world.cluster.dedicate([101, 102])
    build(to="4.0.2").inject(world)
    assert [node for act, node in world.cluster.operations if act == "start"] == [101, 102, 1, 2, 3]
    world.cluster.operations.clear()
    fault = build("cluster.downgrade", to="3.9.2")
    assert fault.inject(world).startswith("controller 101, 102 and broker 1, 2, 3 from 4.0.2 to 3.9.2")
    assert [node for act, node in world.cluster.operations if act == "start"] == [1, 2, 3, 101, 102]
    assert fault.proof(world) is not None


def test_a_voter_that_is_behind_is_no_proof(world):
    world.kafka.quorum = lambda: SimpleNamespace(leader=101, ends={101: 90, 102: 88})
    world.cluster.dedicate([101, 102])
    fault = build(to="4.0.2")
    fault.inject(world)
    world.kafka.quorum = lambda: SimpleNamespace(leader=101, ends={101: 90, 102: 20})
    assert fault.proof(world) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda cluster: cluster.running.update({2: "3.9.2"}),
        lambda cluster: cluster.running.update(dict.fromkeys((1, 2, 3), "3.9.2")),
        lambda cluster: cluster.down.add(3),
    ],
    ids=["one broker reports the former release", "all do", "one is down"],
)
def test_an_upgrade_without_its_effect_has_no_proof(world, change):
    fault = build(to="4.0.2")
    fault.inject(world)
    change(world.cluster)
    assert fault.proof(world) is None


def test_versions_that_did_not_change_are_no_proof_although_the_log_says_so(world, monkeypatch):
    fault = build(to="4.0.2")
    monkeypatch.setattr("chaos.faults.upgrades.supported", lambda node, world: level_of("3.9.2"))
    fault.inject(world)
    assert fault.proof(world) is None


def test_within_a_line_versions_need_not_change(world):
    for broker in (1, 2, 3):
        world.cluster.state.node(broker).kafka = world.cluster.running[broker] = "3.9.1"
    fault = build(to="3.9.2")
    fault.inject(world)
    assert fault.proof(world) is not None


def test_a_broker_that_was_killed_meanwhile_is_only_started(world):
    fault = build(to="4.0.2", target={"broker": 2})
    in_sync = fault._wait_in_sync
    fault._wait_in_sync = lambda when, world: world.cluster.down.add(2) if "before" in when else in_sync(when, world)
    fault.inject(world)
    assert world.cluster.operations == [("start", 2)]
    assert fault.proof(world) is not None


def test_a_broker_that_does_not_start_with_the_new_release_gets_its_former_one_back(world):
    world.cluster.refused = {"4.0.2"}
    fault = build(to="4.0.2")
    with pytest.raises(ClusterError, match="unknown metadata"):
        fault.inject(world)
    assert fault.proof(world) is None
    fault.heal(world)
    assert world.cluster.running == {1: "3.9.2", 2: "3.9.2", 3: "3.9.2"}
    assert world.cluster.down == set()


def test_brokers_that_run_the_release_already_are_refused(world):
    with pytest.raises(FaultError, match="already"):
        build(to="3.9.2").inject(world)


def test_a_refused_downgrade_is_proven_while_the_broker_is_down_and_its_heal_starts_it(world):
    world.cluster.refused = {"3.9.1"}
    fault = build("cluster.downgrade", to="3.9.1", refused=True)
    fault.inject(world)
    assert fault.proof(world) == "broker 1 did not start: unknown metadata.version"
    fault.heal(world)
    assert world.cluster.running[1] == "3.9.2"
    assert world.cluster.down == set()
    assert fault.proof(world) is None, "it is up again"


def test_a_broker_that_ends_for_another_reason_is_no_refusal(world):
    world.cluster.refused, world.cluster.logged_errors = {"3.9.1"}, lambda broker: "no space left on device"
    fault = build("cluster.downgrade", to="3.9.1", refused=True)
    fault.inject(world)
    assert fault.proof(world) is None


def test_a_downgrade_that_is_not_refused_fails(world):
    fault = build("cluster.downgrade", to="3.9.1", refused=True)
    with pytest.raises(FaultError, match="which should have been refused"):
        fault.inject(world)
    assert fault.proof(world) is None


@pytest.fixture
def finalized(world, monkeypatch) -> list[dict[str, int]]:
    """The requests to finalize levels; all brokers learn of them."""
    requests: list[dict[str, int]] = []
    levels = {"metadata.version": 21}

    def update(kafka, changes, current):
        requests.append(dict(changes))
        levels.update(changes)

    offered = {"metadata.version": (7, 25), "group.version": (0, 1), "kraft.version": (0, 1)}
    monkeypatch.setattr("chaos.faults.upgrades.supported", lambda node, world: Support({}, offered, dict(levels)))
    monkeypatch.setattr(features, "update", update)
    world.cluster.note_refinalized = lambda: requests.append({})
    return requests


def test_features_go_to_the_levels_of_the_release_except_that_of_the_quorum(world, finalized):
    fault = build("cluster.finalize")
    fault.inject(world)
    assert finalized == [{}, {"group.version": 1, "metadata.version": 25}], "noted before, so that nothing is lent on"
    assert fault.proof(world) == "every broker returns as final: group.version 1, metadata.version 25"
    assert fault.heal(world) == "the features of the cluster: they stay"


def test_one_broker_without_the_new_level_is_no_proof(world, finalized, monkeypatch):
    fault = build("cluster.finalize", features={"group.version": 1})
    fault.inject(world)
    real, behind = upgrades.supported, Support({}, {}, {"metadata.version": 21})
    for found in (behind, None):
        monkeypatch.setattr(upgrades, "supported", lambda n, world, found=found: found if n == 3 else real(n, world))
        assert fault.proof(world) is None


def test_features_that_are_final_already_are_refused(world, finalized):
    with pytest.raises(FaultError, match="final already"):
        build("cluster.finalize", features={"metadata.version": 21}).inject(world)
    assert finalized == []
