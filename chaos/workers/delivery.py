"""The way of a worker's ledger and logs to the run: sealed and put by the worker, checked and added by the drive.

The large tables go into the `LedgerStore` of the run if it has one, all else into the run directory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from pydantic import BaseModel

from chaos.errors import RunDirError
from chaos.ledger.schemas import LARGE, TABLES
from chaos.ledger.seal import Seal, SealedTable, part_name, seal, stored_name
from chaos.ledger.store import LedgerStore, copied
from chaos.run.directory import Run
from chaos.workers.connection import folder


class Part(BaseModel):
    """A part of a table as the worker put it: its rows, size and SHA-256."""

    rows: int
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """What a worker put into the run directory and the store. parts: by table, in order."""

    seal: Seal
    parts: dict[str, list[Part]]


def put(work: Run, run: Run, worker: str, store: LedgerStore | None) -> Manifest:
    """Seal the ledger of a worker, and copy it with the logs to `workers/<worker>` of the run and of its store.

    The folder in the run has its name once everything is in it. Raises `OSError`, or `RunDirError` for the store.
    """
    sealed = seal(work.ledger)
    target, half = folder(run) / worker, folder(run) / f".{worker}.half"
    shutil.rmtree(half, ignore_errors=True)
    parts: dict[str, list[Part]] = {}
    for table, found in sealed.tables.items():
        (half / table).mkdir(parents=True)
        sources = [work.ledger / f"{table}.parquet" / part_name(i) for i in range(len(found.parts))]
        if store and table in LARGE:
            digests = [store.put(path, _put_name(worker, table, i)) for i, path in enumerate(sources)]
        else:
            digests = [_copy(path, half / table / path.name) for path in sources]
        parts[table] = [
            Part(rows=rows, bytes=path.stat().st_size, sha256=digest)
            for rows, path, digest in zip(found.parts, sources, digests, strict=True)
        ]
    (half / "logs").mkdir()
    for log in work.logs.iterdir():
        shutil.copy(log, half / "logs")
    half.rename(target)
    return Manifest(seal=sealed, parts=parts)


def _put_name(worker: str, table: str, index: int) -> str:
    """Return the name of a part in the store, until the drive adds it to the ledger."""
    return f"workers/{worker}/{table}/{part_name(index)}"


def _copy(source: Path, target: Path) -> str:
    """Copy a file to the disk, and return the SHA-256 of what was read."""
    with source.open("rb") as read, target.open("xb") as written:
        digest = copied(read, written.write)
        written.flush()
        os.fsync(written.fileno())
    return digest


class Delivery:
    """The sealed ledger that a worker put into the run directory and the store.

    Its constructor compares it with the manifest: of parts in the store the size, because the worker has read them back
    already. Raises `RunDirError` if a part is missing or different.
    """

    def __init__(self, run: Run, worker: str, manifest: Manifest, store: LedgerStore | None) -> None:
        self.worker, self._run, self._manifest, self._store = worker, run, manifest, store
        self._folder = folder(run) / worker
        for table in TABLES:
            sealed, parts = manifest.seal.tables.get(table), manifest.parts.get(table, [])
            if sealed is None or [part.rows for part in parts] != sealed.parts:
                raise RunDirError(f"the manifest of {worker} does not list the parts of table {table}")
            for i, part in enumerate(parts):
                if store and table in LARGE:
                    self._check_stored(store, _put_name(worker, table, i), part)
                else:
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

    def _check_stored(self, store: LedgerStore, name: str, part: Part) -> None:
        if (size := store.size(name)) != part.bytes:
            has = f"it has {size:,} of {part.bytes:,} bytes"
            raise RunDirError(f"{store.url}/{name} is not the file that {self.worker} put there: {has}")

    def add_to(self, tables: dict[str, SealedTable], folders: dict[str, Path]) -> None:
        """Move the parts behind those of a ledger. folders: that of each of its tables."""
        for table, own in self._manifest.seal.tables.items():
            sealed = tables[table]
            for i, rows in enumerate(own.parts):
                if self._store and table in LARGE:
                    self._store.move(_put_name(self.worker, table, i), stored_name(table, len(sealed.parts)))
                else:
                    (self._folder / table / part_name(i)).rename(folders[table] / part_name(len(sealed.parts)))
                sealed.parts.append(rows)
            sealed.rows += own.rows
            sealed.files += own.files
            sealed.torn += own.torn

    def move_logs(self) -> None:
        """Move the logs of the clients to those of the run, and remove the folders of the worker."""
        for log in (self._folder / "logs").iterdir():
            log.rename(self._run.logs / log.name)
        shutil.rmtree(self._folder)
        if self._store:
            self._store.remove(f"workers/{self.worker}")
