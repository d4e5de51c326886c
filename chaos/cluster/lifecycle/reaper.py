"""Reaper: ends what a run left behind when nobody else can any more.

    python -m chaos.cluster.lifecycle.reaper RUN_DIR --deadline SECONDS [--owner PID:STARTED]

A process of its own, started before the first broker. It ends everything marked with this run once the owner is gone,
or once the deadline has passed, removes the brokers' data, writes the reason to `logs/reaper.log`, and exits. A run
that ends in good order ends its reaper too. It may live for days beside the brokers, so it imports next to nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from chaos.cluster.lifecycle.gc import end_all
from chaos.errors import AftershockError
from chaos.processes.process import ProcessId
from chaos.processes.process_table import Marked

LOOK_EVERY_S = 0.5


def reason_to_end(owner: ProcessId | None, deadline_s: float) -> str:
    """Wait until the run has to end, and say why. `deadline_s` counts from now."""
    deadline = time.monotonic() + deadline_s
    while True:
        if owner is not None and not owner.alive():
            return f"its owner, process {owner.pid}, is gone"
        left = deadline - time.monotonic()
        if left <= 0:
            return f"its deadline of {deadline_s:g} s has passed"
        time.sleep(min(LOOK_EVERY_S, left))


def main(argv: list[str] | None = None) -> int:
    """Run the reaper; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m chaos.cluster.lifecycle.reaper", description="End what a run left behind."
    )
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--deadline", type=float, required=True, help="seconds from now")
    parser.add_argument("--owner", type=ProcessId.parse, help="PID:STARTED of the process that answers for the run")
    args = parser.parse_args(argv)

    run_dir: Path = args.run_dir
    _log(f"watching {run_dir.name}: owner {args.owner or 'none'}, deadline in {args.deadline:g} s")
    _log(f"ending {run_dir.name}: {reason_to_end(args.owner, args.deadline)}")
    ended = _end(run_dir)
    time.sleep(LOOK_EVERY_S)  # the owner may have been killed with a process half started
    ended += _end(run_dir)
    _log(f"ended {', '.join(f'{m.role} ({m.identity.pid})' for m in ended) or 'nothing: all was gone'}")
    return 0


def _end(run_dir: Path) -> list[Marked]:
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
