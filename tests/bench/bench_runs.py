"""Seconds from the command to the verdict, as a user waits for them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def measure(scenarios: tuple[str, ...] = ("clean-run", "resilience-demo")) -> dict[str, Any]:
    """Run each scenario once; its seconds in all and by stage."""
    return {name: _run(name) for name in scenarios}


def _run(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as runs_dir:
        began = time.monotonic()
        argv = [sys.executable, "-m", "chaos", "run", name, "--seed", "7", "--json", "--runs-dir", runs_dir]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        if done.returncode != 0:
            raise SystemExit(f"{name} did not pass, so its time means nothing:\n{done.stderr[-2000:]}")
        stages = _stages(Path(json.loads(done.stdout)["run_dir"]) / "events.jsonl")
    return {"seconds": round(seconds, 1), "stages": stages}


def _stages(events: Path) -> dict[str, float]:
    found = [json.loads(line) for line in events.read_text().splitlines()]
    return {e["stage"]: e["seconds"] for e in found if e["kind"] == "stage" and e["state"] == "end"}
