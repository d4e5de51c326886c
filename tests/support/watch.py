"""The search for secrets: in the arguments of processes while something runs, and in files afterwards."""

from __future__ import annotations

import threading
from pathlib import Path

from chaos.processes.scrub import Scrubber


def files_with(folder: Path, secret: str) -> list[Path]:
    """Return the files with a secret, or a line of it, in any form in which a program may write it."""
    scrubber = Scrubber([secret])
    return [path for path in folder.rglob("*") if path.is_file() and scrubber.raw(raw := path.read_bytes()) != raw]


class Watch:
    """Collects the arguments of every process until its context ends."""

    def __init__(self) -> None:
        self.arguments: set[bytes] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._over.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.arguments.add(path.read_bytes())
                except OSError:
                    continue

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
