"""`break` on a cluster of `up`: the fault, its proof and its heal; Ctrl-C and SIGKILL heal, too."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.cluster import state
from chaos.cluster.process.driver import ProcessCluster
from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.wait import wait_until
from tests.support.platform import ROOT, chaos

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    runs = tmp_path_factory.mktemp("runs")
    began = chaos("up", "--brokers", "3", "--runs-dir", runs)
    (run_dir,) = runs.glob("up-*")
    for broker in (1, 2, 3):
        assert re.search(rf"broker {broker} at 127.0.0.1:\d+, pid \d+", began.err), began.err
    assert f"python -m chaos break {run_dir}" in began.err
    admin = AdminClient({"bootstrap.servers": began.out.strip()})
    admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(30)
    yield Run(run_dir)
    chaos("down", run_dir)


def alive(up: Run) -> list[bool]:
    cluster = ProcessCluster.attach(up)
    return [cluster.broker_alive(broker) for broker in cluster.broker_ids]


@pytest.mark.landing
def test_a_leader_is_killed_by_its_address_and_comes_back(up: Run, tmp_path: Path) -> None:
    bootstrap = state.load(up).bootstrap
    ended = chaos("break", "--bootstrap", bootstrap, "leader_of=orders/0", "--for", "10s", "--runs-dir", tmp_path)
    assert ended.code == 0, ended.err
    said = ended.err
    order = ["broker.kill of leader of orders/0: broker", "injected", "healing", "healed", "no leader answered for"]
    assert [said.index(text) for text in order] == sorted(said.index(text) for text in order)
    assert "◆ proven break: orders/0 went from leader" in said and "proven; broker" in said
    assert alive(up) == [True] * 3
    refused = chaos("break", up.path, "leader_of=ordres/0", "--runs-dir", tmp_path)
    assert (refused.code, refused.err.splitlines()[-1]) == (
        2,
        "error: the cluster has no topic 'ordres'; did you mean orders?",
    )
    listed = json.loads(chaos("ps", "--json").out)
    addresses = {row["address"] for row in listed if row["run_dir"] == str(up.path) and row["role"] != "reaper"}
    assert addresses == set(bootstrap.split(","))


@pytest.mark.landing
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(
            signal.SIGINT,
            id="ctrl-c",
            marks=pytest.mark.nightly(twin="system/test_break.py::test_a_break_that_is_ended_half_way_heals[sigkill]"),
        ),
        pytest.param(signal.SIGKILL, id="sigkill"),
    ],
)
def test_a_break_that_is_ended_half_way_heals(up: Run, tmp_path: Path, end: signal.Signals) -> None:
    argv = [
        sys.executable,
        "-m",
        "chaos",
        "break",
        str(up.path),
        "broker=2",
        "--for",
        "5m",
        "--runs-dir",
        str(tmp_path),
    ]
    command = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.DEVNULL)

    def phases() -> set[str]:
        return {e["phase"] for at in tmp_path.glob("break-*") for e in read_events(Run(at)) if e["kind"] == "fault"}

    wait_until(lambda: "injected" in phases(), 90, "nothing was injected")
    assert alive(up) == [True, False, True]
    command.send_signal(end)
    assert command.wait(120) == (130 if end == signal.SIGINT else -signal.SIGKILL)
    wait_until(lambda: "healed" in phases(), 120, "not healed")
    assert alive(up) == [True] * 3
