"""The shipped verbs for Kubernetes, with a stand-in for kubectl that drives brokers on this machine.

What a real Kubernetes does is not tested: see the docstring of `tests.support.kubectl` for what the stand-in does.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import chaos.cluster.attached
from chaos.cluster.drivers import driver
from chaos.cluster.settings import ClusterSpec, Verbs
from chaos.errors import ClusterError
from chaos.install.cache import silent
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.scenario.load import parse
from tests.support.attached import with_a_killed_broker
from tests.support.platform import ROOT, left_running
from tests.support.platform import chaos as run_chaos

EXAMPLES = sorted((Path(chaos.cluster.attached.__file__).parent / "examples").glob("kubernetes-*.yaml"))
EXAMPLE = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)


@EXAMPLE
def test_an_example_is_valid_and_has_every_verb(example: Path) -> None:
    scenario = parse(example.read_text(), str(example))
    assert set(scenario.cluster.verbs.commands()) == {"kill", "stop", "start", "pause", "resume"}
    assert {fault.kind for fault in scenario.faults} == {"broker.kill", "broker.pause", "cluster.rolling_restart"}


@EXAMPLE
@pytest.mark.parametrize(("verb", "signal"), [("kill", "KILL"), ("pause", "STOP"), ("resume", "CONT")])
def test_a_signal_reaches_the_jvm_of_the_broker_and_no_other_process(
    example: Path, verb: str, signal: str, tmp_path: Path
) -> None:
    """The script in the container, with another /proc: process 1 is an init, 7 the broker, 9 the script itself."""
    verbs = Verbs.model_validate(yaml.safe_load(example.read_text())["cluster"]["verbs"])
    words = shlex.split(verbs.commands()[verb].split(" || ")[0])
    script = words[words.index("--") + 1 :][2]
    lines = {1: "tini --\0/opt/kafka/bin/kafka-server-start.sh", 7: "java\0kafka.Kafka\0server.properties", 9: script}
    for pid, line in lines.items():
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "cmdline").write_text(line)
    assert "/proc/[0-9]*/cmdline | cut -d/ -f3" in script
    inside = script.replace("/proc/", "proc/").replace("-f3", "-f2").replace("kill ", "echo ", 1)
    done = subprocess.run(["/bin/sh", "-c", inside], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"-{signal}", "7"]


@pytest.mark.parametrize("answers", [(False, False, True), (False,) * 100])
def test_a_broker_that_a_supervisor_started_is_back_only_when_it_is_ready(
    answers: tuple[bool, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, given = with_a_killed_broker(tmp_path, Verbs(timeout=1)), iter(answers)
    (broker,) = cluster.state.brokers
    monkeypatch.setattr(cluster, "broker_alive", lambda number: True)
    monkeypatch.setattr(cluster, "_ready", lambda number: next(given))
    if True in answers:
        cluster.start_broker(1)
        assert broker.state == "running" and not list(given)
    else:
        with pytest.raises(ClusterError, match="broker 1 is not ready"):
            cluster.start_broker(1)
        assert broker.state == "killed"


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, dict[str, str]]]:
    """Deploy brokers, and yield their bootstrap servers, their run directory and an environment with the stand-in."""
    folder = tmp_path_factory.mktemp("pods")
    run = Run.create(folder, "theirs")
    sessions = {"broker.session.timeout.ms": 4000, "broker.heartbeat.interval.ms": 1000}
    cluster = driver("process").deploy(run, ClusterSpec(3, config=sessions), ProcessId.current(), 900, silent)
    kubectl = folder / "bin" / "kubectl"
    kubectl.parent.mkdir()
    command = shlex.join([sys.executable, "-m", "tests.support.kubectl", str(run.path)])
    kubectl.write_text(f'#!/bin/sh\ncd {shlex.quote(str(ROOT))} && exec {command} "$@"\n')
    kubectl.chmod(0o755)
    yield cluster.bootstrap, run.path, {**os.environ, "PATH": f"{kubectl.parent}:{os.environ['PATH']}"}
    cluster.destroy()


@pytest.mark.nightly(twin="chaos/cluster/test_attached.py::test_commands_break_and_restore_brokers")
@pytest.mark.kafka
@pytest.mark.timeout(900)
@EXAMPLE
def test_brokers_are_killed_paused_and_rolled_by_kubectl(
    example: Path, pods: tuple[str, Path, dict[str, str]], tmp_path: Path
) -> None:
    bootstrap, run_dir, env = pods
    calls = run_dir / "kubectl.log"
    calls.unlink(missing_ok=True)
    given = ("--bootstrap", bootstrap, "--i-own-this-cluster", "--json", "--runs-dir", tmp_path)
    ended = run_chaos("run", example, *given, env=env, timeout_s=800)
    assert ended.code == 0, ended.out + ended.err
    assert {fault["name"] for fault in ended.result["faults"]} == {"kill", "hang", "roll"}
    made = calls.read_text()
    stops = "annotate pod" if "strimzi" in example.name else "delete pod"
    assert made.count(stops) == 3 and all(f"kill -{signal} " in made for signal in ("KILL", "STOP", "CONT"))
    assert left_running(tmp_path) == []
