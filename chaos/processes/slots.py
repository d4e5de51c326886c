"""Places: how many clusters run at once, where something else (Airflow) starts them one by one.

A place is held for a cluster's whole life, from before its deployment until nothing of its run is left. Who holds one
is told by looking: a process that deploys, or whatever of the run still lives. So a place is free again when a cluster
was destroyed, when it died, when its reaper ended it and when the machine was started anew, and nobody has to give it
back. Taking one is atomic among all processes that use the same file.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from chaos.processes.process import ProcessId
from chaos.processes.process_table import find_marked


class Places:
    """So many places, as a file has it."""

    def __init__(self, file: Path, places: int) -> None:
        self._file, self._places = file, places

    def take(self, name: str) -> bool:
        """Take a place for what this process is about to deploy. Who holds it under that name already keeps it."""
        with self._held() as (held, file):
            if name not in held and len(held) >= self._places:
                return False
            held[name] = {"deploys": str(ProcessId.current()), "run_dir": ""}
            _write(file, held)
            return True

    def bind(self, name: str, run_dir: Path) -> None:
        """From now on the place is held by whatever lives of this run."""
        with self._held() as (held, file):
            held[name] = {"deploys": str(ProcessId.current()), "run_dir": str(run_dir)}
            _write(file, held)

    def leave(self, name: str) -> None:
        """Give a place back, where who held it goes on living without its cluster."""
        with self._held() as (held, file):
            held.pop(name, None)
            _write(file, held)

    @contextmanager
    def _held(self) -> Iterator[tuple[dict[str, Any], TextIO]]:
        """The places that are held, with the file locked."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            try:
                noted: dict[str, Any] = json.loads(file.read() or "{}")
            except ValueError:  # cut short by a full disk: what lives is found again when it binds
                noted = {}
            living = {str(m.run_dir) for m in find_marked()} if noted else set()
            yield {name: one for name, one in noted.items() if _lives(one, living)}, file


def _lives(one: dict[str, str], living: set[str]) -> bool:
    return one["run_dir"] in living or ProcessId.parse(one["deploys"]).alive()


def _write(file: TextIO, held: dict[str, Any]) -> None:
    file.truncate(0)
    file.write(json.dumps(held))
    file.flush()
