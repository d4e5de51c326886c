"""The examples of a tap as a service: a systemd unit and a compose project, as their own tools read them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from chaos.cli import _load
from chaos.errors import ClusterError, UsageError
from tests.support.platform import ROOT

UNIT, COMPOSE = ROOT / "docker" / "tap" / "aftershock-tap.service", ROOT / "docker" / "tap" / "compose.yaml"


def options(command: list[str]) -> dict[str, object]:
    """Return the options of a command line of `tap`, as the command would get them."""
    made = _load("tap")
    with made.make_context("tap", command[command.index("tap") + 1 :]) as context:
        return dict(context.params)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    (tmp_path / UNIT.name).write_text(UNIT.read_text().replace("/opt/aftershock/bin/aftershock", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / UNIT.name], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def lines() -> dict[str, str]:
    return dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line and line[0] not in "#")


def test_the_unit_ends_the_recording_by_a_signal_to_the_command_alone_and_goes_on_after_a_crash(
    lines: dict[str, str],
) -> None:
    assert (lines["KillSignal"], lines["KillMode"], lines["Restart"]) == ("SIGINT", "mixed", "on-failure")
    given = options(shlex.split(lines["ExecStart"]))
    assert str(given["into"]) == "/var/lib/aftershock/tap" and given["listen"] == "0.0.0.0:9092"


def test_the_unit_begins_again_where_the_cluster_does_not_answer_and_not_where_its_options_are_wrong(
    lines: dict[str, str],
) -> None:
    assert lines["RestartForceExitStatus"].split() == [str(ClusterError.exit_code)]
    assert lines["RestartPreventExitStatus"].split() == [str(UsageError.exit_code)]


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="no docker-compose here")
def test_compose_takes_the_project_and_the_command_has_its_options(tmp_path: Path) -> None:
    env = os.environ | {"KAFKA": "kafka-1:9092,kafka-2:9092"}
    argv = ["docker-compose", "-f", str(COMPOSE), "config"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=120, cwd=tmp_path)
    tap = yaml.safe_load(done.stdout)["services"]["tap"]
    command = tap["command"] if isinstance(tap["command"], list) else shlex.split(tap["command"])
    given = options(command)
    assert given["bootstrap"] == env["KAFKA"] and given["advertise"] == "tap"
    assert tap["stop_signal"] == "SIGINT"
