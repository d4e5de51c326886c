"""Brokers that keep their metadata in ZooKeeper: deployment, operations, and removal in every case."""

from __future__ import annotations

import socket

import pytest

from chaos.cluster import deployment
from chaos.cluster.process import zookeeper
from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.errors import ClusterError
from chaos.faults import targets
from chaos.kafka.client import Kafka
from chaos.kafka.metadata import PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.chaos.cluster.test_process import create_topic, listed
from tests.chaos.conftest import roles

pytestmark = pytest.mark.kafka
LIFE = "chaos/cluster/test_zookeeper.py::test_the_life_of_a_cluster_with_zookeeper"

SHORT_SESSION = {"zookeeper.session.timeout.ms": 3000}

PARTITION = TopicPartition("orders", 0)


def state_of(kafka: Kafka, partition: TopicPartition) -> PartitionState:
    metadata = kafka.metadata()
    assert metadata is not None
    return metadata.partitions[partition]


@pytest.mark.landing
def test_the_life_of_a_cluster_with_zookeeper(run: Run) -> None:
    messages: list[str] = []
    spec = ClusterSpec(3, "2.8.2", config=SHORT_SESSION)
    deployed = ProcessCluster.deploy(run, spec, ProcessId.current(), 600, messages.append)
    assert messages[-1] == "starting 3 brokers of Kafka 2.8.2 with ZooKeeper"
    assert roles(run) == ["broker-1", "broker-2", "broker-3", "reaper", "zookeeper"]
    assert listed(deployed) == {1, 2, 3}

    cluster = ProcessCluster.attach(run)
    server = cluster.state.zookeeper
    assert server is not None and server.alive
    assert zookeeper.registered(server) == {1, 2, 3}
    create_topic(cluster, "orders")
    kafka = Kafka(cluster.bootstrap)
    wait_until(lambda: not kafka.lacking(["orders"]), 60, lambda: f"{kafka.lacking(['orders'])}")
    wait_until(lambda: not kafka.unhealthy([PARTITION]), 60, lambda: f"{kafka.unhealthy([PARTITION])}")

    before = state_of(kafka, PARTITION)
    cluster.kill_broker(before.leader)
    cluster.start_broker(before.leader)
    after = state_of(kafka, PARTITION)
    assert after.leader != before.leader and after.leader_epoch > before.leader_epoch
    wait_until(lambda: not kafka.unhealthy([PARTITION]), 60, lambda: f"{kafka.unhealthy([PARTITION])}")

    cluster.pause_broker(2)
    with pytest.raises(TimeoutError):
        targets.answer_s(*cluster.address(2), 0.5)
    wait_until(lambda: listed(cluster) == {1, 3}, 60, "the paused broker is still listed")
    cluster.resume_broker(2)
    wait_until(lambda: listed(cluster) == {1, 2, 3}, 60, "the resumed broker is not back")

    cluster.stop_broker(3)
    assert "shut down completed" in (run.logs / "broker-3.log").read_text()
    cluster.start_broker(3)

    for broker in cluster.broker_ids:
        cluster.kill_broker(broker)
    cluster.start_brokers(cluster.broker_ids)
    create_topic(cluster, "after-all-were-killed")

    cluster.destroy()
    assert roles(run) == [] and not run.brokers.exists() and not server.alive
    kafka.close()


@pytest.mark.nightly(twin=LIFE)
def test_a_killed_broker_starts_after_the_end_of_its_session_and_not_without_its_zookeeper(run: Run) -> None:
    long = {"zookeeper.session.timeout.ms": 20_000}  # longer than a JVM takes to register
    cluster = ProcessCluster.deploy(run, ClusterSpec(1, "2.8.2", config=long), ProcessId.current(), 600)
    server = cluster.state.zookeeper
    assert server is not None
    cluster.kill_broker(1)
    assert zookeeper.registered(server) == {1}
    cluster.start_broker(1)
    assert zookeeper.registered(server) == {1}
    assert "NodeExists" not in (run.logs / "broker-1.log").read_text()
    cluster.kill_broker(1)
    assert server.process is not None
    server.process.signal(9)
    wait_until(lambda: not server.alive, 10, "it does not end")
    with pytest.raises(ClusterError, match="the run's ZooKeeper is gone"):
        cluster.start_broker(1)


@pytest.mark.nightly(twin="chaos/cluster/test_process.py::test_a_port_taken_by_another_program_is_replaced")
def test_a_zookeeper_port_taken_by_another_program_is_replaced_and_the_cluster_id_is_in_the_state(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = deployment.choose_ports
    with socket.create_server(("127.0.0.1", 0)) as other_server:
        taken = other_server.getsockname()[1]
        ports = iter([[choose(ClusterSpec(1), 0)[0], taken]])
        monkeypatch.setattr(deployment, "choose_ports", lambda spec, more: next(ports, None) or choose(spec, more))
        cluster = ProcessCluster.deploy(run, ClusterSpec(1, "2.8.2"), ProcessId.current(), 600)
    assert cluster.state.zookeeper is not None and cluster.state.zookeeper.port != taken
    assert roles(run) == ["broker-1", "reaper", "zookeeper"]
    assert len(cluster.state.cluster_id) == 22
    assert ProcessCluster.attach(run).state == cluster.state
    assert cluster.state.cluster_id in (run.logs / "broker-1.log").read_text()
    cluster.end_brokers()
    assert roles(run) == ["reaper"] and not run.brokers.exists()


@pytest.mark.nightly(twin=LIFE)
def test_a_release_with_kraft_runs_with_zookeeper_on_request(run: Run) -> None:
    spec = ClusterSpec(1, "3.9.2", metadata="zookeeper")
    cluster = ProcessCluster.deploy(run, spec, ProcessId.current(), 600)
    assert "version: 3.9.2" in (run.logs / "broker-1.log").read_text()
    assert roles(run) == ["broker-1", "reaper", "zookeeper"]
    create_topic(cluster, "orders")
