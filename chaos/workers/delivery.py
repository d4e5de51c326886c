"""The way of a worker's ledger and logs into the run directory: sealed and put by the worker, checked and added by the
drive.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from chaos.errors import RunDirError
from chaos.ledger.schemas import TABLES
from chaos.ledger.seal import Seal, SealedTable, part_name, seal
from chaos.run.directory import Run
from chaos.workers.connection import folder

CHUNK = 1 << 20


class Part(BaseModel):
    """A part of a table as the worker put it: its rows, size and SHA-256."""

    rows: int
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """What a worker put into the run directory. parts: by table, in order."""

    seal: Seal
    parts: dict[str, list[Part]]


def put(work: Run, run: Run, worker: str) -> Manifest:
    """Seal the ledger of a worker, and copy it with the logs to `workers/<worker>` of the run. Raises `OSError`.

    The folder has its name once everything is in it.
    """
    sealed = seal(work.ledger)
    target, half = folder(run) / worker, folder(run) / f".{worker}.half"
    shutil.rmtree(half, ignore_errors=True)
    parts: dict[str, list[Part]] = {}
    for table, found in sealed.tables.items():
        (half / table).mkdir(parents=True)
        parts[table] = [
            _copy(work.ledger / f"{table}.parquet" / part_name(i), half / table / part_name(i), rows)
            for i, rows in enumerate(found.parts)
        ]
    (half / "logs").mkdir()
    for log in work.logs.iterdir():
        shutil.copy(log, half / "logs")
    half.rename(target)
    return Manifest(seal=sealed, parts=parts)


def _copy(source: Path, target: Path, rows: int) -> Part:
    """Copy a file to the disk, and return it as it was read."""
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as read, target.open("xb") as written:
        for chunk in iter(partial(read.read, CHUNK), b""):
            digest.update(chunk)
            size += len(chunk)
            written.write(chunk)
        written.flush()
        os.fsync(written.fileno())
    return Part(rows=rows, bytes=size, sha256=digest.hexdigest())


class Delivery:
    """The sealed ledger that a worker put into the run directory.

    Its constructor compares it with the manifest. Raises `RunDirError` if a part is missing or different.
    """

    def __init__(self, run: Run, worker: str, manifest: Manifest) -> None:
        self.worker, self._run, self._manifest = worker, run, manifest
        self._folder = folder(run) / worker
        for table in TABLES:
            sealed, parts = manifest.seal.tables.get(table), manifest.parts.get(table, [])
            if sealed is None or [part.rows for part in parts] != sealed.parts:
                raise RunDirError(f"the manifest of {worker} does not list the parts of table {table}")
            for i, part in enumerate(parts):
                self._check(self._folder / table / part_name(i), part)

    def _check(self, path: Path, part: Part) -> None:
        try:
            with path.open("rb") as f:
                found = hashlib.file_digest(f, "sha256").hexdigest()
        except OSError as e:
            raise RunDirError(f"{path}, which {self.worker} put there, cannot be read: {e.strerror}") from None
        if found != part.sha256:
            size = f"{path.stat().st_size:,} of {part.bytes:,} bytes"
            raise RunDirError(f"{path} is not the file that {self.worker} put there: it has {size}")

    def add_to(self, tables: dict[str, SealedTable], folders: dict[str, Path]) -> None:
        """Move the parts behind those of a ledger. folders: that of each of its tables."""
        for table, own in self._manifest.seal.tables.items():
            sealed = tables[table]
            for i, rows in enumerate(own.parts):
                (self._folder / table / part_name(i)).rename(folders[table] / part_name(len(sealed.parts)))
                sealed.parts.append(rows)
            sealed.rows += own.rows
            sealed.files += own.files
            sealed.torn += own.torn

    def move_logs(self) -> None:
        """Move the logs of the clients to those of the run, and remove the folder of the worker."""
        for log in (self._folder / "logs").iterdir():
            log.rename(self._run.logs / log.name)
        shutil.rmtree(self._folder)
