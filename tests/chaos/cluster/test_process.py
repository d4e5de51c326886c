"""Real brokers: deployment, every operation of the driver, and removal in every case."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.cluster import deployment
from chaos.cluster.api import Pause
from chaos.cluster.brokers.release import Release
from chaos.cluster.process import driver
from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.reaper import end_all
from chaos.cluster.settings import ClusterSpec
from chaos.errors import ClusterError
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.chaos.conftest import roles

pytestmark = pytest.mark.kafka

# a killed broker is accepted again when its session has expired: shorter than the default of 9 s
SHORT_SESSION = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500}
DEPLOY_AND_STAY = """
import sys
from pathlib import Path
from chaos.cluster.process.driver import ProcessCluster
from chaos.processes.process import ProcessId
from chaos.cluster.settings import ClusterSpec
from chaos.run.directory import Run
owned = sys.argv[2] == "owned"
ProcessCluster.deploy(Run(Path(sys.argv[1])), ClusterSpec(1), ProcessId.current() if owned else None, 600)
print("ready", flush=True)
if owned:
    sys.stdin.read()
"""


def listed(cluster: ProcessCluster) -> set[int]:
    """Return the brokers in the metadata that clients get."""
    try:
        return set(AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0}).list_topics(timeout=2).brokers)
    except KafkaException:
        return set()


def create_topic(cluster: ProcessCluster, topic: str) -> None:
    """Create a topic with a replica on every broker, which requires a controller and all brokers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    new = NewTopic(topic, num_partitions=1, replication_factor=len(cluster.broker_ids))
    admin.create_topics([new], request_timeout=30)[topic].result(60)


def test_the_life_of_a_cluster_with_every_operation(run: Run) -> None:
    messages: list[str] = []
    deployed = ProcessCluster.deploy(
        run, ClusterSpec(3, config=SHORT_SESSION), ProcessId.current(), 600, messages.append
    )
    assert messages[-1] == "starting 3 brokers of Kafka 4.3.1"
    assert roles(run) == ["broker-1", "broker-2", "broker-3", "reaper"]
    assert listed(deployed) == {1, 2, 3}

    cluster = ProcessCluster.attach(run)
    assert cluster.bootstrap == deployed.bootstrap
    with pytest.raises(ClusterError, match="running cluster already"):
        ProcessCluster.deploy(run, ClusterSpec(1), ProcessId.current(), 600)

    cluster.kill_broker(1)
    assert not cluster.broker_alive(1) and cluster.broker_alive(2)
    with pytest.raises(ClusterError, match=r"broker 1 cannot be killed: it is not running; see .*broker-1\.log"):
        cluster.kill_broker(1)
    wait_until(lambda: listed(cluster) == {2, 3}, 60, "the killed broker is still listed")
    cluster.start_broker(1)
    create_topic(cluster, "after-kill")

    cluster.pause_broker(2)
    assert cluster.broker_alive(2) and cluster.state.node(2).state == "paused"
    wait_until(lambda: listed(cluster) == {1, 3}, 60, "the paused broker is still listed")
    cluster.resume_broker(2)
    wait_until(lambda: listed(cluster) == {1, 2, 3}, 60, "the resumed broker is not back")

    cluster.stop_broker(3)
    assert "shut down completed" in (run.logs / "broker-3.log").read_text()
    cluster.start_broker(3)
    before = cluster.state.node(3).process
    cluster.start_broker(3)  # no effect: it runs
    assert cluster.state.node(3).process == before

    for broker in cluster.broker_ids:
        cluster.kill_broker(broker)
    cluster.start_brokers(cluster.broker_ids)
    create_topic(cluster, "after-all-were-killed")

    cluster.destroy()
    assert roles(run) == [] and not run.brokers.exists()
    assert {b.state for b in ProcessCluster.attach(run).state.brokers} == {"ended"}
    assert (run.logs / "broker-1.log").stat().st_size > 0
    cluster.destroy()
    deployed.destroy()


@pytest.mark.nightly(twin="system/test_gate.py::test_a_gate_runs_every_cell_with_its_releases_and_bundles_each_failure")
def test_an_older_release_starts(run: Run) -> None:
    cluster = ProcessCluster.deploy(run, ClusterSpec(1, "3.9.2"), ProcessId.current(), 600)
    assert "version: 3.9.2" in (run.logs / "broker-1.log").read_text()
    create_topic(cluster, "orders")
    assert isinstance(cluster, Pause)


@pytest.mark.parametrize("how", ["owned", "free"])
def test_a_cluster_ends_with_its_owner_or_outlives_its_starter(run: Run, how: str) -> None:
    argv = [sys.executable, "-c", DEPLOY_AND_STAY, str(run.path), how]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None and starter.stdout.readline() == b"ready\n"
        if how == "owned":
            starter.kill()
    if how == "owned":
        wait_until(lambda: not roles(run) and not run.brokers.exists(), 60, lambda: f"left over: {roles(run)}")
        assert "is gone" in (run.logs / "reaper.log").read_text()
    else:
        cluster = ProcessCluster.attach(run)
        assert listed(cluster) == {1} and roles(run) == ["broker-1", "reaper"]
        cluster.destroy()
        assert roles(run) == []


def test_a_failed_start_shows_the_errors_of_the_broker_and_leaves_nothing(run: Run) -> None:
    spec = ClusterSpec(2, config={"num.network.threads": "many"})
    with pytest.raises(ClusterError) as error:
        ProcessCluster.deploy(run, spec, ProcessId.current(), 600)
    lines = str(error.value).splitlines()
    assert "did not start: it ended with exit code 1" in lines[0] and "/logs/broker-" in lines[0]
    assert any("Invalid value many for configuration num.network.threads" in line for line in lines[1:])
    assert not any(line.strip().startswith("at ") for line in lines) and len(lines) <= 11
    assert roles(run) == [] and not run.brokers.exists() and not run.cluster.exists()


def test_a_port_taken_by_another_program_is_replaced(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = deployment.choose_ports
    with socket.create_server(("127.0.0.1", 0)) as other_server:
        taken = other_server.getsockname()[1]
        ports = iter([[taken, choose(ClusterSpec(1), 1)[1]]])
        monkeypatch.setattr(deployment, "choose_ports", lambda spec, more: next(ports, None) or choose(spec, more))
        cluster = ProcessCluster.deploy(run, ClusterSpec(1), ProcessId.current(), 600)
    assert "Address already in use" in (run.logs / "broker-1.log").read_text()
    assert cluster.state.node(1).port != taken
    assert roles(run) == ["broker-1", "reaper"]


def test_a_damaged_class_archive_does_not_stop_a_broker(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = driver.prepare

    def damaged(*args: object) -> Release:
        release = prepare(*args)  # type: ignore[arg-type]
        assert release.archive is not None, "no archive was made"
        content = bytearray(release.archive.read_bytes())
        middle = len(content) // 2
        content[middle : middle + 65536] = bytes(65536)
        archive = tmp_path / "classes.jsa"
        archive.write_bytes(content)
        return dataclasses.replace(release, archive=archive)

    monkeypatch.setattr(driver, "prepare", damaged)
    cluster = ProcessCluster.deploy(run, ClusterSpec(1), ProcessId.current(), 600)
    assert "Unable to use shared archive" in (run.logs / "broker-1.log").read_text()
    assert cluster.broker_alive(1)
    end_all(run.path)
    assert not cluster.broker_alive(1)
