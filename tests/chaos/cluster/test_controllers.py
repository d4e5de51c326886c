"""Dedicated controllers and racks: their settings, and on real processes their start, end and removal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import lending
from chaos.cluster.drivers import driver
from chaos.cluster.settings import (
    BrokerEndpoints,
    ClusterSpec,
    ControllerEndpoints,
    broker_settings,
    controller_settings,
    on_this_host,
)
from chaos.errors import ClusterError, UsageError
from chaos.install.cache import silent
from chaos.kafka.client import Kafka
from chaos.processes.process import ProcessId
from chaos.relay.cuts import Cut
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.chaos.conftest import roles
from tests.support.engines import needs_engine

TWO = {
    101: ControllerEndpoints("127.0.0.1", 31, "127.0.0.1:31", "127.0.0.1:31"),
    102: ControllerEndpoints("127.0.0.1", 32, "127.0.0.1:32", "127.0.0.1:32"),
}


def test_a_broker_beside_dedicated_controllers_has_no_listener_for_them() -> None:
    found = broker_settings(ClusterSpec(2, controllers=2), 2, on_this_host([11, 12]), controllers=TWO)
    assert (found["process.roles"], found["node.id"]) == ("broker", "2")
    assert found["controller.quorum.voters"] == "101@127.0.0.1:31,102@127.0.0.1:32"
    assert found["listeners"] == found["advertised.listeners"] == "CLIENT://127.0.0.1:12"
    assert found["listener.security.protocol.map"] == "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"


def test_a_controller_takes_the_settings_of_the_user_but_no_clients() -> None:
    spec = ClusterSpec(1, config={"min.insync.replicas": 2, "listeners": "PLAINTEXT://127.0.0.1:19092"}, controllers=2)
    found = controller_settings(spec, 102, TWO)
    assert (found["process.roles"], found["node.id"], found["min.insync.replicas"]) == ("controller", "102", "2")
    assert found["listeners"] == "CONTROLLER://127.0.0.1:32"
    assert "advertised.listeners" not in found


def test_brokers_get_racks_in_turn_and_let_consumers_read_from_followers() -> None:
    spec = ClusterSpec(3, racks=("a", "b"))
    settings = [broker_settings(spec, broker, on_this_host([11, 12, 13], [21, 22, 23])) for broker in (1, 2, 3)]
    assert [found["broker.rack"] for found in settings] == ["a", "b", "a"]
    assert settings[0]["replica.selector.class"].endswith(".RackAwareReplicaSelector")
    assert "replica.selector.class" not in broker_settings(ClusterSpec(1), 1, on_this_host([11], [21]))


@pytest.mark.parametrize(("kafka", "advertised"), [("4.3.1", "CONTROLLER://h:41"), ("3.8.1", None)])
def test_behind_a_switch_a_controller_advertises_the_address_of_the_switch(kafka: str, advertised: str | None) -> None:
    behind = {101: ControllerEndpoints("127.0.0.1", 31, "h:41", "127.0.0.1:31")}
    found = controller_settings(ClusterSpec(1, kafka, controllers=1), 101, behind)
    assert (found["listeners"], found.get("advertised.listeners")) == ("CONTROLLER://127.0.0.1:31", advertised)
    own = {"CLIENT": "127.0.0.1:1", "PEERS": "127.0.0.1:2"}
    broker = BrokerEndpoints("h", 21, "", "h:22", behind=own)
    found = broker_settings(ClusterSpec(1, kafka, controllers=1), 1, [broker], controllers=behind)
    assert (found["controller.quorum.voters"], found["advertised.listeners"]) == (
        "101@h:41",
        "CLIENT://h:21,PEERS://h:22",
    )


@pytest.mark.parametrize(("kafka", "metadata"), [("2.8.2", None), ("3.9.2", "zookeeper")])
def test_controllers_beside_zookeeper_are_refused(kafka: str, metadata: str | None) -> None:
    with pytest.raises(UsageError, match=r"has no KRaft controllers; leave cluster\.controllers out"):
        ClusterSpec(3, kafka, metadata=metadata, controllers=3).check()  # type: ignore[arg-type]


def test_nodes_of_a_dynamic_quorum_know_addresses_and_no_voters() -> None:
    spec = ClusterSpec(1, controllers=2, voters=1)
    for found in (controller_settings(spec, 101, TWO), broker_settings(spec, 1, on_this_host([11]), controllers=TWO)):
        assert found["controller.quorum.bootstrap.servers"] == "127.0.0.1:31,127.0.0.1:32"
        assert "controller.quorum.voters" not in found


@pytest.mark.parametrize(
    ("kafka", "controllers", "message"),
    [
        ("3.8.1", 3, "Kafka 3.8.1 has static quorums only"),
        ("4.3.1", 0, "a dynamic quorum needs dedicated controllers"),
        ("4.3.1", 1, "2 voters do not fit 1 controllers"),
    ],
)
def test_a_dynamic_quorum_that_is_not_possible_is_refused(kafka: str, controllers: int, message: str) -> None:
    with pytest.raises(UsageError, match=f"cluster.voters: {message}"):
        ClusterSpec(3, kafka, controllers=controllers, voters=2).check()


OTHER = pytest.mark.nightly(
    twin="chaos/cluster/test_controllers.py::test_controllers_start_end_and_return[process-4.3.1-1-3-True-0]"
)


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("name", "kafka", "brokers", "controllers", "switch", "voters"),
    [
        ("process", "4.3.1", 1, 3, True, 0),
        pytest.param("process", "3.3.2", 1, 3, True, 0, marks=OTHER),
        pytest.param("process", "3.9.2", 3, 2, False, 0, marks=OTHER),
        pytest.param("process", "3.9.2", 1, 3, True, 3, marks=OTHER),
        pytest.param("process", "3.6.2", 1, 1, False, 0, marks=OTHER),
        pytest.param("docker", "4.3.1", 1, 3, True, 0, marks=[needs_engine, OTHER]),
        pytest.param("docker", "4.3.1", 1, 4, True, 3, marks=[needs_engine, OTHER]),
    ],
)
def test_controllers_start_end_and_return(
    tmp_path: Path, name: str, kafka: str, brokers: int, controllers: int, switch: bool, voters: int
) -> None:
    run = Run.create(tmp_path, tmp_path.name)
    limits = {"disk_bytes": 128 * 2**20} if name == "docker" else {"switch": switch}
    spec = ClusterSpec(brokers, kafka, controllers=controllers, voters=voters, **limits)
    cluster: Any = driver(name).deploy(run, spec, ProcessId.current(), 300, silent)
    try:
        names = {f"controller-{node}" for node in cluster.controller_ids} | {f"broker-{b}" for b in cluster.broker_ids}
        assert names <= set(roles(run))
        client = Kafka(cluster.bootstrap)
        active, _ = wait_until(client.controller, 30, "no controller is active") or (0, 0)
        quorum = client.quorum()
        assert quorum is not None and list(quorum.ends) == cluster.controller_ids[: voters or controllers]
        assert active in quorum.ends
        if switch:
            others = tuple(node for node in cluster.controller_ids if node != active)
            cut = Cut(active, others)
            cluster.cut_network(cut)
            wait_until(lambda: cluster.dropped_packets(cut) > 0, 30, "nothing was held")
            cluster.mend_network(cut)
        cluster.pause_broker(active)
        cluster.resume_broker(active)
        cluster.kill_broker(active)
        with pytest.raises(ClusterError, match=f"controller {active} cannot be killed: it is not running"):
            cluster.kill_broker(active)
        with pytest.raises(ClusterError, match=f"controller {active} is down"):
            lending.check_healthy(cluster)
        cluster.start_broker(active)
        lending.check_healthy(cluster)
        for node in [*cluster.broker_ids, *cluster.controller_ids]:  # a broker asks a controller before it ends
            cluster.stop_broker(node)
        cluster.start_brokers(cluster.node_ids)
        lending.check_healthy(driver(name).attach(run))
    finally:
        cluster.destroy()
    assert not roles(run)
