"""Seconds until the light commands have answered: the median and the fastest of several starts."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COMMANDS = {"help": ["--help"], "list": ["list"], "show": ["show", "leader-kill"], "schema": ["schema"]}
STARTS = 7
LIMIT_S = 0.5
ROOT = Path(__file__).parents[2]


def measure() -> dict[str, Any]:
    """Start each command several times; return its seconds, and whether the median keeps the limit."""
    return {name: _measure(arguments) for name, arguments in COMMANDS.items()}


def _measure(arguments: list[str]) -> dict[str, Any]:
    seconds = sorted(_once(arguments) for _ in range(STARTS))
    median = statistics.median(seconds)
    return {"median_s": round(median, 2), "fastest_s": round(seconds[0], 2), "within_limit": median <= LIMIT_S}


def _once(arguments: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "chaos", *arguments], cwd=folder, env=env, capture_output=True, check=True
        )
        return time.monotonic() - began
