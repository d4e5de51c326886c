"""The commands that are printed for a second run: each asks for the same again when it is pasted."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chaos.campaign.gate.gate import GateRequest, plan_gate
from chaos.campaign.repeat import _command as repeat_command
from chaos.campaign.subject import Request
from chaos.cli import app, tap
from chaos.kafka.security import Security
from chaos.run.directory import Run
from chaos.scenario.resolve import read, save
from chaos.tap.session import _resolved


@pytest.mark.parametrize(
    "words",
    [
        ["--bootstrap", "kafka:9092"],
        ["--bootstrap", "kafka:9092", "--listen", "127.0.0.1:9292", "--for", "10m", "--limit", "5GiB"],
        [
            "--cluster",
            "my cluster.yaml",
            "--listen",
            "0.0.0.0:9092",
            "--advertise",
            "tap.internal",
            "--payloads",
            "all",
        ],
    ],
)
def test_the_command_of_a_tap_asks_for_the_same_tap_again(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my cluster.yaml").write_text("bootstrap: 'kafka:9092'\nsecurity: {protocol: PLAINTEXT}\n")
    asked = []
    monkeypatch.setattr("chaos.cli.breaking._local", lambda bootstrap: None)
    monkeypatch.setattr(tap, "_tapped", lambda run, order, view, goes_on: asked.append((run, order)) or 0)
    monkeypatch.setattr(tap, "print_result", lambda run, as_json: None)
    topics = [{"name": "orders", "partitions": 3, "replication_factor": 3}]
    readers = [{"name": "billing", "external": True, "group": "billing", "reads": ["orders"]}]
    command = ["tap", *words]
    for _ in range(2):
        assert CliRunner().invoke(app, [*command, "--runs-dir", str(tmp_path / "runs")]).exit_code == 0
        run, order = asked[-1]
        save(run, _resolved(run, order, topics, readers))
        command = shlex.split(read(Run(run.path)).command())[3:]
    assert replace(asked[0][1], options=()) == replace(asked[1][1], options=())
    assert asked[0][1].security == Security()


def test_a_run_on_an_existing_cluster_is_repeated_with_its_permission():
    assert "--i-own-this-cluster" in repeat_command(
        Request(runs_dir=Path(), source="a.yaml", i_own_this_cluster=True, seed=1), 2
    )
    assert "--i-own-this-cluster" not in repeat_command(Request(runs_dir=Path(), source="a.yaml", seed=1), 2)


def test_the_command_of_a_gate_names_its_file_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gate.yaml").write_text("title: G\nscenarios: [clean-run]\n")
    given = GateRequest(runs_dir=tmp_path, gate="gate.yaml", seed=1)
    assert plan_gate(given)[0].command == f"python -m chaos gate {tmp_path}/gate.yaml --repeat 5 --seed 1"
