"""Tests of the switch between real brokers: all their traffic passes through it, and identifies its source."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.errors import ClusterError, UsageError
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.processes.process import ProcessId, end_run, find_marked
from chaos.relay.control import Switch
from chaos.relay.cuts import UNNAMED, Cut, identify
from chaos.run.directory import Run
from chaos.wait import wait_until

pytestmark = pytest.mark.kafka

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
QUICK = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 300}


OLDER = pytest.mark.nightly(twin="chaos/relay/test_switch.py")


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.2", marks=OLDER)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    run = Run.create(tmp_path_factory.mktemp("runs"), f"switch-{request.param}")
    spec = ClusterSpec(3, request.param, config=QUICK, switch=True)
    try:
        deployed = ProcessCluster.deploy(run, spec, ProcessId.current(), 900)
        admin = AdminClient({"bootstrap.servers": deployed.bootstrap})
        admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(30)
        yield deployed
    finally:
        end_run(run.path)


def wait_healthy(cluster: ProcessCluster) -> None:
    kafka = Kafka(cluster.bootstrap)
    try:
        wait_until(lambda: not kafka.unhealthy(PARTITIONS), 60, lambda: f"not healthy: {kafka.unhealthy(PARTITIONS)}")
    finally:
        kafka.close()


def test_all_traffic_between_brokers_passes_and_names_its_source(cluster):
    wait_healthy(cluster)
    sending = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "shop"})
    sending.init_transactions(30)
    for _ in range(2):
        sending.begin_transaction()
        for number in range(30):
            sending.produce("orders", b"x", partition=number % 3)
        sending.commit_transaction(30)
    with Switch(cluster.run) as switch:
        ports = switch.status()["ports"]
    of_brokers = {client for port in ports if port["listener"] != "clients" for client in port["clients"]}
    assert {client for client in of_brokers if identify(client) == UNNAMED} == set()
    kinds = {client.replace(str(identify(client)), "N", 1) for client in of_brokers}
    assert {"N", "raft-client-N", "broker-N-fetcher-0", "broker-N-txn-marker-sender"} <= kinds, kinds
    assert {identify(client) for client in of_brokers} == {1, 2, 3}
    assert direct(cluster) == set()


def direct(cluster: ProcessCluster) -> set[tuple[int, int]]:
    """Return the connections of brokers to ports that only the switch may use, as broker and port."""
    behind = {port for broker in cluster.state.brokers for port in broker.behind}
    assert len(behind) == 9
    found = set()
    for broker in cluster.state.brokers:
        for one in psutil.Process(broker.process.pid).net_connections("tcp"):
            if one.raddr and one.raddr.port in behind:
                found.add((broker.id, one.raddr.port))
    return found


def test_a_cut_ends_with_the_process_that_added_it(cluster):
    wait_healthy(cluster)
    mine = ProcessCluster.attach(cluster.run)
    cut = Cut(1, (2, 3))
    mine.cut_network(cut)
    wait_until(lambda: mine.dropped_packets(cut) > 0, 20, "the cut held nothing")
    with Switch(cluster.run) as switch:
        assert len(switch.status()["active"]) == 1
        mine._switch.close()  # as when its process is killed
        wait_until(lambda: not switch.status()["active"], 5, "the cut is still there")
    wait_healthy(cluster)


def test_a_switch_that_ends_is_reported_and_nothing_bypasses_it(cluster):
    cluster.check()
    (process,) = [m for m in find_marked() if m.run_dir == cluster.run.path and m.role == "switch"]
    process.identity.signal(signal.SIGKILL)
    wait_until(lambda: not process.identity.alive(), 10, "the switch still runs")
    with pytest.raises(ClusterError, match=r"switch between the brokers ended in the middle of the run.*switch\.log"):
        cluster.check()
    kafka = Kafka(cluster.bootstrap)
    assert kafka.metadata() is None
    kafka.close()
    with pytest.raises(ClusterError):
        ProcessCluster.attach(cluster.run).cut_network(Cut(1, (2,)))


def test_links_cannot_be_cut_without_a_switch_and_some_clusters_cannot_have_one(cluster):
    other = ProcessCluster(cluster.run, cluster.state.model_copy(update={"switch": None}))
    with pytest.raises(ClusterError, match="made without a switch"):
        other.cut_network(Cut(1, (2,)))
    with pytest.raises(UsageError, match="ZooKeeper"):
        ClusterSpec(3, "2.8.2", switch=True).check()
    with pytest.raises(UsageError, match="listeners cannot be fixed"):
        ClusterSpec(3, config={"listeners": "PLAINTEXT://127.0.0.1:19092"}, switch=True).check()
