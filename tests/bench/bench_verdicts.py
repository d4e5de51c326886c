"""Verdicts per hour: the single faults of a proof on two lent clusters, and the same scenarios one by one.

The application is an ordinary one: acks=all, commits after processing. Its fault classes are faults of leaders,
coordinators, consumers and producers. `measure_alone` checks the lab: each scenario of the proof runs again as a single
run, with a cluster and a judge that nothing else uses, and no verdict may differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.chaos.campaign.prove.apps import APPS, write

ROOT = Path(__file__).parents[2]
SAMPLE = 30
"""Scenarios that run again alone, at most."""


def measure() -> dict[str, Any]:
    """Prove the application with single faults; verdicts per hour from the command to the last verdict."""
    with tempfile.TemporaryDirectory() as folder:
        return _proof(Path(folder))


def measure_alone() -> dict[str, Any]:
    """Prove the application, then run each of its scenarios alone; the verdicts that differ, by scenario."""
    with tempfile.TemporaryDirectory() as folder:
        proved = _proof(Path(folder))
        runs = [run for run in _runs(Path(folder)) if run["purpose"] == "first"][:SAMPLE]
        differ = {}
        for run in runs:
            file = Path(folder) / "proof" / f"{run['run_id']}.yaml"
            found = _alone(file, run["seed"], Path(folder) / "alone")
            if found != run["verdict"]:
                differ[run["set"]] = f"{run['verdict']} in the lab, {found} alone"
        return {**proved, "alone": len(runs), "differ": differ}


def _proof(folder: Path) -> dict[str, Any]:
    app = write(folder, APPS["reliable"])
    into = folder / "proof"
    argv = ["prove", str(app), "--most", "1", "--seed", "7", "--jobs", "2", "--into", str(into), "--json"]
    done = _chaos(argv)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"the proof did not run:\n{done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    runs = _runs(folder)
    unknown = [run["set"] for run in runs if run["verdict"] == "inconclusive"]
    return {
        "verdicts": len(runs),
        "seconds": round(result["seconds"], 1),
        "per_hour": round(3600 * len(runs) / result["seconds"]),
        "inconclusive": unknown,
    }


def _runs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "proof" / "runs.jsonl").read_text().splitlines()]


def _alone(file: Path, seed: int, runs_dir: Path) -> str:
    done = _chaos(["run", str(file), "--seed", str(seed), "--runs-dir", str(runs_dir), "--json"])
    try:
        return str(json.loads(done.stdout)["verdict"])
    except (ValueError, KeyError):
        raise SystemExit(f"{file.name} did not run alone:\n{done.stderr[-2000:]}") from None


def _chaos(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "chaos", *argv], cwd=ROOT, capture_output=True, text=True, check=False)
