"""`ps`: what is in use, left behind, or kept, and how each ends."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chaos.cli import app
from chaos.processes.process import MarkedProcess, ProcessId


@pytest.fixture
def listed(monkeypatch):
    def process(run_id: str, owner: ProcessId | None, state: str = "sleeping") -> MarkedProcess:
        return MarkedProcess(ProcessId(7, 1.0), 0.0, "broker-1", run_id, Path("/runs") / run_id, owner, state, 2**20)

    found = [
        process("used", ProcessId.current(), "stopped"),
        process("left", ProcessId(2**22 + 1, 1.0)),
        process("lasting", None),
    ]
    monkeypatch.setattr("chaos.processes.process.find_marked", lambda: found)
    monkeypatch.setattr("chaos.cluster.docker.engine.find_everywhere", list)


def test_ps_says_who_uses_what_and_how_it_ends(listed) -> None:
    *table, kept, left, used = sorted(
        CliRunner().invoke(app, ["ps"]).output.splitlines(),
        key=lambda line: [line.startswith(word) for word in ("in use by", "left behind", "kept")],
    )
    assert len(table) == 4 and "broker-1 (paused)" in " ".join(table)
    assert used.startswith(f"in use by pid {os.getpid()} (") and used.endswith(f"`kill {os.getpid()}`: used")
    assert left == "left behind by a command that is gone; `python -m chaos gc` ends it: left"
    assert kept == "kept until its time is over; ends it now: python -m chaos down /runs/lasting"


def test_the_owner_is_in_the_json(listed) -> None:
    rows = json.loads(CliRunner().invoke(app, ["ps", "--json"]).output)
    assert {row["run_id"]: row["owner"] for row in rows} == {"used": "alive", "left": "gone", "lasting": "none"}
    assert rows[0]["owner_pid"] == os.getpid() and rows[2]["owner_pid"] is None
