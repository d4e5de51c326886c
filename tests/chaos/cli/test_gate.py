"""`gate` on the command line: its files, interruption, continuation, single cells, and bad input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from chaos.campaign.engine import Trial
from chaos.campaign.gate import matrix
from chaos.cli import app
from chaos.errors import AftershockError, RunDirError, ScenarioError, UsageError
from tests.support.labs import FakeLab

GATE = {"title": "t", "scenarios": ["leader-kill"], "kafka": ["3.9.2", "4.3.1"], "repeat": 2}
FILES = {"campaign.json", "junit.xml", "report.html", "summary.md", "plan.json", "runs.jsonl"}


class Bench:
    """A gate file, a folder, and a lab that returns the verdicts in `answers`."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self.folder, self.home = tmp_path / "g.yaml", tmp_path / "out", tmp_path
        self.answers: dict[int, str] = {}
        self.breaks: dict[str, BaseException] = {}
        self.lab = FakeLab(self._rule)
        self.write()
        monkeypatch.setattr("chaos.campaign.engine.TrialLab", self.lab)
        monkeypatch.setattr(matrix, "fetch_releases", lambda cells, say: None)
        self.draws, self._run = False, subprocess.run
        monkeypatch.setattr(subprocess, "run", self._drawn)

    def _drawn(self, argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Skip the process that draws the pages unless a test needs them."""
        return self._run(argv, **options) if self.draws else subprocess.CompletedProcess(argv, 0, "", "")

    def write(self, **changes: Any) -> None:
        self.file.write_text(yaml.safe_dump({**GATE, **changes}))

    def _rule(self, trial: Trial) -> str:
        if trial.run_id in self.breaks:
            raise self.breaks[trial.run_id]
        return self.answers.get(int(trial.part.split("-")[1]), "pass")

    @property
    def asked(self) -> list[str]:
        return self.lab.asked

    def run(self, *options: str) -> Any:
        """Run the gate in its folder: a new one, or what it lacks."""
        where = "--resume" if (self.folder / "plan.json").exists() else "--into"
        return CliRunner().invoke(app, ["gate", str(self.file), where, str(self.folder), *options])

    @property
    def verdict(self) -> str:
        return str(json.loads((self.folder / "campaign.json").read_text())["verdict"])

    def refused(self, error: type[AftershockError], said: str, *options: str) -> None:
        found = self.run(*options)
        assert isinstance(found.exception, error) and found.exception.exit_code == 2
        assert said in str(found.exception), str(found.exception)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("answers", "code", "verdict"),
    [
        ({}, 0, "pass"),
        ({2: "fail"}, 1, "fail"),
        ({1: "inconclusive"}, 3, "inconclusive"),
        ({1: "inconclusive", 2: "fail"}, 1, "fail"),
    ],
)
def test_one_exit_code_and_all_files(bench: Bench, answers: dict[int, str], code: int, verdict: str) -> None:
    bench.answers = answers
    found = bench.run("--json")
    assert (found.exit_code, bench.verdict) == (code, verdict)
    assert json.loads(found.stdout)["verdict"] == verdict


def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on_with_the_same_seed(bench: Bench) -> None:
    bench.breaks, bench.draws = {"cell-02-2": KeyboardInterrupt()}, True
    stopped = bench.run()
    assert stopped.exit_code != 0 and bench.verdict == "inconclusive"
    assert {path.name for path in bench.folder.iterdir()} >= FILES
    summary = (bench.folder / "summary.md").read_text()
    assert "1 of 2 runs are missing" in summary
    bench.breaks, bench.draws = {}, False
    done, before = bench.run(), len(bench.asked)
    assert done.exit_code == 0 and bench.verdict == "pass"
    runs = [json.loads(line) for line in (bench.folder / "runs.jsonl").read_text().splitlines()]
    assert all(len({run["seed"] for run in runs if run["n"] == n}) == 1 for n in (1, 2)), "the seed that was noted"
    assert bench.run().exit_code == 0 and len(bench.asked) == before, "nothing is run twice"


def test_cells_that_are_run_one_by_one_are_judged_together(bench: Bench) -> None:
    assert bench.run("--plan", "--json").exit_code == 0 and bench.asked == []
    bench.answers = {2: "fail"}
    assert bench.run("--cell", "1").exit_code == 0
    assert bench.run("--judge").exit_code == 3, "a cell that was not run is missing"
    assert bench.run("--cell", "2").exit_code == 1
    assert len(bench.asked) == 4
    assert bench.run("--judge").exit_code == 1 and bench.verdict == "fail"


def test_the_result_is_the_next_baseline(bench: Bench) -> None:
    bench.run()
    stored = bench.folder / "campaign.json"
    bench.folder = bench.home / "again"
    found = bench.run("--baseline", str(stored))
    assert (
        found.exit_code == 3 and "no time was measured in the baseline" in (bench.folder / "campaign.json").read_text()
    )
    assert "too few to show of any time that it is slower, which takes 4 at least" in found.output
    bench.write(baseline="out/campaign.json")
    bench.folder = bench.home / "third"
    assert bench.run().exit_code == 3, "a baseline is looked for beside the gate file"


def test_nonsense_is_refused_before_anything_is_run(bench: Bench) -> None:
    bench.refused(UsageError, "--judge needs --resume FOLDER", "--judge")
    bench.refused(UsageError, "there is no cell 9; the gate has 2", "--cell", "9")
    bench.refused(UsageError, "there is no baseline", "--baseline", "none.json")
    (bench.folder).mkdir()
    (bench.folder / "mine.txt").touch()
    bench.refused(UsageError, "is not empty")
    (bench.folder / "mine.txt").unlink()
    bench.run("--plan", "--seed", "1")
    bench.refused(UsageError, "or with another seed", "--seed", "2")
    bench.write(kafka=["4.3.1"])
    bench.refused(UsageError, "was begun with other content")
    bench.write(kafka=[])
    bench.refused(UsageError, "the gate has no cells: kafka is empty")
    bench.write(title="")
    bench.refused(ScenarioError, "is not a valid gate")
    bench.write()
    (bench.folder / "plan.json").write_text("{")
    bench.refused(RunDirError, "plan.json is damaged")
    assert bench.asked == []


def test_foreign_text_cannot_reach_the_terminal_as_markup_or_control(bench: Bench) -> None:
    bench.write(title="[red]x[/] \x1b[2J")
    assert "\x1b[2J" not in bench.run().output
    assert "[red]x[/]" in bench.run().output
