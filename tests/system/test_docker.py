"""The docker driver from outside: scenarios, faults that need containers, user mistakes, and leftovers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from chaos.cluster.docker.engine import connect, find_labelled
from chaos.wait import wait_until
from tests.support.engines import needs_engine
from tests.support.platform import HELD, ROOT, chaos, left_running, start

pytestmark = pytest.mark.kafka

QUICK = {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 500, "replica.lag.time.max.ms": 4000}
TARGET = {"leader_of": "orders/0"}
FAULTS = [
    {"kind": "broker.kill"},
    {"kind": "broker.stop"},
    {"kind": "broker.isolate", "cut": "peers"},
    {"kind": "broker.isolate", "cut": "clients", "name": "deaf"},
    {"kind": "link.cut", "other": {"follower_of": "orders/0"}},
    {"kind": "broker.disconnect"},
    {"kind": "broker.pause"},
    {"kind": "broker.throttle", "cpus": 0.1},
    {"kind": "broker.oom"},
    {"kind": "disk.fill"},
]


def everything() -> str:
    """Return a scenario with one fault after the other; each begins 6 s after the heal of the one before."""
    faults = []
    for fault in FAULTS:
        name = fault.get("name", fault["kind"].replace(".", "-"))
        when = {"after": f"{faults[-1]['name']}.healed + 6s"} if faults else {"acked": 500}
        heal = {"when": {"after": f"{name}.proven + 1s"}}
        faults.append({**fault, "name": name, "target": TARGET, "when": when, "heal": heal})
    limits = {"driver": "docker", "cpus": 1.5, "memory": "640MiB", "disk": "256MiB"}
    return yaml.safe_dump(
        {
            "title": "Everything that can happen to a container",
            "cluster": {**limits, "config": QUICK},
            "topics": [{"name": "orders", "partitions": 3, "config": {"min.insync.replicas": 2}}],
            "producers": [
                {"name": "shop", "topic": "orders", "rate": "200/s", "records": 2000, "outlast_faults": True}
            ],
            "consumers": [
                {"mode": "assign", "name": "replay", "topics": ["orders"]},
            ],
            "faults": faults,
            "limits": {"drive": "10m", "proof": "60s", "drain": "90s"},
        }
    )


SMALL = """
title: One container, records until the platform ends, and a fault
cluster: {driver: docker, brokers: 1}
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders, rate: 200/s, records: 100000}]
faults: [{name: pause, kind: broker.pause, target: {broker: 1}, when: {acked: 100}, heal: {after: 10m}}]
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return the file of a scenario with one broker, which is paused."""
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


def left(runs_dir: Path) -> list[str]:
    """Return the processes, containers, networks and volumes of all runs below a directory."""
    found = [one for one in find_labelled(connect()) if runs_dir in one.run_dir.parents]
    return left_running(runs_dir) + [f"{one.kind} {one.name}" for one in found]


def run(runs_dir: Path, *arguments: object) -> dict:
    ended = chaos("run", *arguments, "--json", "--seed", 7, "--runs-dir", runs_dir, timeout_s=590)
    assert left(runs_dir) == []
    unmet = [(e["name"], e["seen"], e["why"]) for e in ended.result["expectations"] if e["verdict"] not in HELD]
    assert (ended.code, ended.result["verdict"], unmet) == (0, "pass", []), ended.result["sentence"]
    return ended.result


@pytest.mark.nightly(twin="system/test_docker.py::test_every_fault_of_containers_is_proven_and_healed")
@needs_engine
@pytest.mark.parametrize("name", ["leader-kill"])  # others show nothing more
def test_a_shipped_scenario_runs_on_containers_as_it_does_on_processes(tmp_path: Path, name: str) -> None:
    result = run(tmp_path, name, "--driver", "docker")
    assert result["faults"] and all(f["proven_us"] for f in result["faults"])
    assert "--driver docker" in result["command"]
    (directory,) = (path for path in tmp_path.iterdir() if path.is_dir())  # the history is beside it
    assert "KafkaRaftServer" in (directory / "logs" / "broker-1.log").read_text()


@needs_engine
@pytest.mark.landing
def test_every_fault_of_containers_is_proven_and_healed(tmp_path: Path) -> None:
    file = tmp_path / "everything.yaml"
    file.write_text(everything())
    result = run(tmp_path / "runs", file)
    assert [(f["name"], bool(f["proven_us"]), bool(f["healed_us"])) for f in result["faults"]] == [
        (f.get("name", f["kind"].replace(".", "-")), True, True) for f in FAULTS
    ]


@needs_engine
@pytest.mark.nightly(
    twin="system/test_interrupted.py::test_sigkill_of_the_platform_leaves_nothing_and_its_run_is_judged_inconclusive_never_green"
)
def test_a_killed_platform_leaves_nothing_not_even_a_paused_container(tmp_path: Path, small: Path) -> None:
    platform = start("run", small, "--runs-dir", tmp_path / "runs")
    try:
        # the first run on an engine makes the image of its brokers, which takes a minute or two
        wait_until(lambda: any(c.status == "paused" for c in _containers(tmp_path)), 400, "no broker was paused")
    finally:
        platform.kill()
        platform.communicate()
    wait_until(lambda: not left(tmp_path / "runs"), 60, lambda: f"left: {left(tmp_path / 'runs')}")


def _containers(below: Path) -> list:
    return [o.thing for o in find_labelled(connect()) if o.kind == "container" and below in o.run_dir.parents]


@needs_engine
@pytest.mark.nightly(twin="system/test_interrupted.py::test_ctrl_c_ends_everything")
def test_ctrl_c_removes_everything(tmp_path: Path) -> None:
    platform = start("run", "clean-run", "--driver", "docker", "--runs-dir", tmp_path)
    wait_until(lambda: len(_containers(tmp_path)) == 3, 120, "no containers")
    platform.send_signal(2)
    platform.communicate(timeout=60)
    assert platform.returncode == 130
    assert left(tmp_path) == []


def refused(tmp_path: Path, env: dict[str, str], *more: object) -> str:
    ended = chaos("run", "clean-run", "--driver", "docker", "--runs-dir", tmp_path, *more, env={**os.environ, **env})
    assert ended.code == 2, ended.err
    assert "Traceback" not in ended.err
    assert left_running(tmp_path) == []
    return " ".join(ended.err.split())


def test_no_engine_is_one_line(tmp_path: Path) -> None:
    said = refused(tmp_path, {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    assert "no Docker engine answers at" in said and "--driver process" in said


@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv to give up root's right to open anything")
def test_no_permission_on_its_socket_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        path.chmod(0)
        os.chown(path, 65534, 65534)
        argv = [sys.executable, "-m", "chaos", "run", "clean-run", "--driver", "docker", "--runs-dir", str(tmp_path)]
        unprivileged = ["setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override"]
        env = {**os.environ, "DOCKER_HOST": f"unix://{path}"}
        done = subprocess.run(
            [*unprivileged, *argv], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "no permission on the Docker engine's socket" in " ".join(done.stderr.split())


@needs_engine
def test_an_unavailable_base_image_is_one_line(tmp_path: Path) -> None:
    said = refused(tmp_path, {"AFTERSHOCK_BASE_IMAGE": "aftershock.invalid/none:1"})
    assert "cannot be pulled" in said and "docker/base-image" in said


@needs_engine
def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(tmp_path, {}, "--set", f"cluster.config.listeners=PLAINTEXT://127.0.0.1:{port}")
    assert f"port {port} on 127.0.0.1 is taken" in said
    assert left(tmp_path) == []


FORWARD = """
import shutil, socket, sys, threading
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print("ready", flush=True)
def copy(source, sink):
    while data := source.recv(1 << 16):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)
while True:
    one, _ = listening.accept()
    other = socket.socket(socket.AF_UNIX)
    other.connect("/var/run/docker.sock")
    for ends in ((one, other), (other, one)):
        threading.Thread(target=copy, args=ends, daemon=True).start()
"""


@needs_engine
@pytest.mark.landing
def test_a_lost_engine_ends_the_run_and_gc_removes_the_rest(tmp_path: Path, small: Path) -> None:
    path, runs = tmp_path / "engine.sock", tmp_path / "runs"
    forward = subprocess.Popen([sys.executable, "-c", FORWARD, str(path)], stdout=subprocess.PIPE)
    assert forward.stdout is not None and forward.stdout.readline() == b"ready\n"
    # without its fault, the drive ends when its limit comes
    limit = ["--set", "limits.drive=20s", "--set", "producers.shop.records=3000"]
    argv = [sys.executable, "-m", "chaos", "run", str(small), *limit, "--runs-dir", str(runs)]
    env = {**os.environ, "DOCKER_HOST": f"unix://{path}"}
    with subprocess.Popen(argv, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True) as platform:
        try:
            wait_until(lambda: any(runs.glob("*/ledger/sends")), 180, "no load")
        finally:
            forward.kill()
            forward.wait()
        _, said = platform.communicate(timeout=300)
    assert platform.returncode == 3, said
    assert "Traceback" not in said and "python -m chaos gc --run" in " ".join(said.split())
    # the reaper takes over, and gives up too
    wait_until(lambda: not left_running(runs), 60, lambda: f"left: {left_running(runs)}")
    (directory,) = (path for path in runs.iterdir() if path.is_dir())  # the history is beside it
    chaos("gc", "--run", directory)
    assert left(runs) == []
