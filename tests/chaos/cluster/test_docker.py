"""The containers of a run: limits, marks, errors, and removal in every case."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.cluster.docker import engine
from chaos.cluster.docker.driver import DockerCluster
from chaos.cluster.docker.engine import connect, find_labelled
from chaos.cluster.settings import ClusterSpec
from chaos.errors import ClusterError
from chaos.processes.process import ProcessId, find_marked
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.support.engines import needs_engine
from tests.support.platform import chaos

pytestmark = [pytest.mark.kafka, needs_engine]

DEPLOY_AND_STAY = """
import sys
from pathlib import Path
from chaos.cluster.docker.driver import DockerCluster
from chaos.processes.process import ProcessId
from chaos.cluster.settings import ClusterSpec
from chaos.run.directory import Run
DockerCluster.deploy(Run(Path(sys.argv[1])), ClusterSpec(1), ProcessId.current(), 600)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run.create(tmp_path, tmp_path.name)
    yield run
    DockerCluster.clear(run)


def left(run: Run) -> list[str]:
    found = [m.role for m in find_marked() if m.run_dir == run.path]
    return found + [f"{one.kind} {one.name}" for one in find_labelled(connect(), run.path)]


def test_limits_marks_and_labels(run: Run) -> None:
    spec = ClusterSpec(1, cpus=0.5, memory_bytes=600 * 2**20, disk_bytes=100 * 2**20)
    cluster = DockerCluster.deploy(run, spec, ProcessId.current(), 600)
    container = connect().containers.get(cluster.state.node(1).container)
    limits = container.attrs["HostConfig"]
    assert (limits["CpuQuota"], limits["Memory"]) == (50_000, 600 * 2**20)
    published = container.attrs["NetworkSettings"]["Ports"]
    assert {at["HostIp"] for ats in published.values() for at in ats or ()} == {"127.0.0.1"}
    assert 0 < cluster.disk_room(1) <= 100 * 2**20
    assert {m.role for m in find_marked() if m.run_dir == run.path} == {"broker-1", "reaper"}
    kinds = [one.kind for one in find_labelled(connect(), run.path)]
    assert kinds == ["container", "container", "network", "volume"]
    assert DockerCluster.attach(run).bootstrap == cluster.bootstrap
    with pytest.raises(ClusterError, match="running cluster already"):
        DockerCluster.deploy(run, ClusterSpec(1), ProcessId.current(), 600)
    cluster.destroy()
    assert left(run) == [] and not run.brokers.exists()
    assert (run.logs / "broker-1.log").stat().st_size > 0
    cluster.destroy()


def test_a_failed_start_shows_the_errors_of_the_broker_and_leaves_nothing(run: Run) -> None:
    with pytest.raises(ClusterError) as error:
        DockerCluster.deploy(run, ClusterSpec(1, config={"num.network.threads": "many"}), ProcessId.current(), 600)
    assert "did not start: it ended with exit code 1" in str(error.value)
    assert "Invalid value many for configuration num.network.threads" in str(error.value)
    assert left(run) == [] and not run.cluster.exists()


def test_a_name_in_use_is_reported_with_the_reason_of_the_engine(run: Run) -> None:
    client = connect()
    other = client.containers.create(engine.LOCAL_BASE, "true", name=f"{run.run_id}-broker-1")
    try:
        with pytest.raises(ClusterError, match=r"the container of broker 1 cannot be made.*already in use"):
            DockerCluster.deploy(run, ClusterSpec(1), ProcessId.current(), 600)
        assert left(run) == []
        other.reload()
    finally:
        other.remove(force=True)


def test_the_cluster_ends_with_its_owner(run: Run) -> None:
    argv = [sys.executable, "-c", DEPLOY_AND_STAY, str(run.path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None and starter.stdout.readline() == b"ready\n"
        starter.kill()
    wait_until(lambda: not left(run), 60, lambda: f"left over: {left(run)}")
    assert "is gone" in (run.logs / "reaper.log").read_text()


def test_ps_shows_stopped_containers_and_gc_removes_them(run: Run) -> None:
    cluster = DockerCluster.deploy(run, ClusterSpec(1), None, 600)
    cluster.kill_broker(1)
    listed = {row["role"]: row for row in json.loads(chaos("ps", "--json").out) if row["run_dir"] == str(run.path)}
    assert listed[f"container {run.run_id}-broker-1"]["state"] == "exited"
    assert set(listed) == {"reaper", f"container {run.run_id}-broker-1", f"network aftershock-{run.run_id}"}
    output = chaos("gc", "--run", run.path).out
    assert f"ended container {run.run_id}-broker-1" in output and "ended reaper" in output
    assert left(run) == []
