"""Benchmark of the library that slows disks, while it slows none: writes of `dd`, with and without it, in turns.

`dd` does nothing else, so the ratio is the worst case: a broker spends a small part of its time on writes. The CPU time
counts, because the load of the machine changes it less than the duration.

Run: python -m tests.bench.bench_disk [ROUNDS]
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from chaos.preload import libraries

SIZES = {"1 byte": ("1", "2000000"), "16 KiB": ("16384", "60000")}
"""Size and number of the writes."""


def measure(rounds: int = 5) -> dict[str, Any]:
    """Return the CPU time of a write in us without and with the library, and the ratio of the medians, by size."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        libraries.create_disk(folder / "control")
        (folder / "data").mkdir()
        ways = {
            "without": dict(os.environ),
            "idle": {
                **os.environ,
                **libraries.environment(libraries.preload_disk(folder / "control", folder / "data")),
            },
        }
        found: dict[str, Any] = {}
        for size, (block, count) in SIZES.items():
            spent: dict[str, list[float]] = {way: [] for way in ways}
            for number in range(rounds):
                for way in list(ways) if number % 2 else list(reversed(ways)):
                    spent[way].append(_cpu_s(folder / "data" / "file", block, count, ways[way]) / int(count) * 1e6)
            medians = {way: statistics.median(values) for way, values in spent.items()}
            found[size] = {way: round(value, 3) for way, value in medians.items()}
            found[size]["ratio"] = round(medians["idle"] / medians["without"], 3)
        return found


def _cpu_s(file: Path, block: str, count: str, env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [str(shutil.which("dd")), "if=/dev/zero", f"of={file}", f"bs={block}", f"count={count}", "conv=notrunc"]
    subprocess.run(argv, env=env, check=True, capture_output=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:])), indent=1))
