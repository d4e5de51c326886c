"""Slots: the limit on clusters that run at once, for callers such as Airflow that start them independently.

A cluster holds its slot from before its deployment until nothing of its run is left. The holder is detected, not
recorded: it is either the deploying process, or any live process of the run. So a slot becomes free when a cluster is
destroyed, when it dies, when its reaper ends it, or when the machine restarts. Taking a slot is atomic among all
processes that use the same file.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.processes.process import ProcessId, find_marked

Holders = dict[str, dict[str, str]]
"""The holders by name: the deploying process (`deploys`) and the run directory (`run_dir`, empty before it exists)."""


class Slots:
    """A number of slots, with their holders in a file."""

    def __init__(self, file: Path, slots: int) -> None:
        self._file, self._slots = file, slots

    def take(self, name: str) -> bool:
        """Take a slot for a deployment by this process; return whether one was free. A holder keeps its slot."""
        with self._holders() as holders:
            if name not in holders and len(holders) >= self._slots:
                return False
            holders[name] = {"deploys": str(ProcessId.current()), "run_dir": ""}
            return True

    def any_free(self) -> bool:
        """Return whether a slot is free now; another process may take it next."""
        with self._holders() as holders:
            return len(holders) < self._slots

    def bind(self, name: str, run_dir: Path) -> None:
        """Let any live process of a run hold the slot from now on."""
        with self._holders() as holders:
            holders[name] = {"deploys": str(ProcessId.current()), "run_dir": str(run_dir)}

    def hand_on(self, name: str, process: ProcessId) -> None:
        """Let another process hold the slot from now on: it deploys the clusters."""
        with self._holders() as holders:
            holders[name] = {"deploys": str(process), "run_dir": ""}

    @contextmanager
    def _holders(self) -> Iterator[Holders]:
        """Lock the file, yield the live holders, and write them back."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            try:
                recorded: Holders = json.loads(file.read() or "{}")
            except ValueError:  # truncated by a full disk: a live run is recorded again when it binds
                recorded = {}
            live_runs = {str(p.run_dir) for p in find_marked()} if recorded else set()
            holders = {name: holder for name, holder in recorded.items() if _alive(holder, live_runs)}
            yield holders
            file.truncate(0)
            file.write(json.dumps(holders))


def _alive(holder: dict[str, str], live_runs: set[str]) -> bool:
    return holder["run_dir"] in live_runs or ProcessId.parse(holder["deploys"]).alive()
