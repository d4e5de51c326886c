"""The reaper: a process that ends what a run left behind when nothing else can.

    python -m chaos.cluster.lifecycle.reaper RUN_DIR --deadline SECONDS [--owner PID:STARTED]

It starts before the first broker. When the owner is gone or the deadline has passed, it ends everything marked with
this run, removes the data of the brokers, writes the reason to `logs/reaper.log`, and exits. A run that ends normally
also ends its reaper. The reaper may live for days beside the brokers, so its imports are few.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from chaos.cluster.lifecycle.gc import end_all
from chaos.errors import AftershockError
from chaos.processes.process import ProcessId
from chaos.processes.process_table import MarkedProcess

CHECK_EVERY_S = 0.5


def wait_for_end(owner: ProcessId | None, deadline_s: float) -> str:
    """Wait until the run must end, and return the reason. `deadline_s` counts from now."""
    deadline = time.monotonic() + deadline_s
    while True:
        if owner is not None and not owner.alive():
            return f"its owner, process {owner.pid}, is gone"
        left = deadline - time.monotonic()
        if left <= 0:
            return f"its deadline of {deadline_s:g} s has passed"
        time.sleep(min(CHECK_EVERY_S, left))


def main(argv: list[str] | None = None) -> int:
    """Run the reaper; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m chaos.cluster.lifecycle.reaper", description="End what a run left behind."
    )
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--deadline", type=float, required=True, help="seconds from now")
    parser.add_argument("--owner", type=ProcessId.parse, help="PID:STARTED of the owner of the run")
    args = parser.parse_args(argv)

    run_dir: Path = args.run_dir
    _log(f"watching {run_dir.name}: owner {args.owner or 'none'}, deadline in {args.deadline:g} s")
    _log(f"ending {run_dir.name}: {wait_for_end(args.owner, args.deadline)}")
    ended = _end(run_dir)
    time.sleep(CHECK_EVERY_S)  # the owner may have been killed while it started a process
    ended += _end(run_dir)
    _log(f"ended {', '.join(f'{p.role} ({p.identity.pid})' for p in ended) or 'nothing: everything was gone'}")
    return 0


def _end(run_dir: Path) -> list[MarkedProcess]:
    try:
        return end_all(run_dir)
    except AftershockError as e:
        _log(f"something is left of {run_dir.name}: {e}; end it with: python -m chaos gc --run {run_dir.name}")
        return []


def _log(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main())
