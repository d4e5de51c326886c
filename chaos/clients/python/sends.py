"""Ledger rows of sends: one for each record handed to the library, from its report."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from chaos.clients.committer import Outcome
from chaos.clients.keys import Keys
from chaos.clients.protocol import WriterSpec
from chaos.ledger.stream import TableWriter

WRITE_EVERY_S = 0.1
WRITE_ROWS = 4096


class SendLog:
    """Writes `sends` for one incarnation of a producer; see `chaos.clients.sender.SendRows`."""

    def __init__(self, writer: TableWriter, spec: WriterSpec, keys: Keys | None) -> None:
        self._writer, self._spec, self._keys = writer, spec, keys
        self._rows: list[dict[str, Any]] = []
        self._next_write = 0.0
        self.acked = self.failed = self.unknown = 0
        self.txn: int | None = None

    @property
    def rows(self) -> int:
        """Records that have a row or get one with the next `write`."""
        return self.acked + self.failed + self.unknown

    def add(
        self,
        seq: int,
        invoked_us: int,
        completed_us: int,
        outcome: Outcome,
        partition: int | None = None,
        offset: int | None = None,
        error: str | None = None,
    ) -> None:
        """Keep the row of a record for the next `write`."""
        self.acked += outcome == "ok"
        self.failed += outcome == "fail"
        self.unknown += outcome == "unknown"
        self._rows.append(
            {
                "producer": self._spec.client,
                "incarnation": self._spec.incarnation,
                "seq": seq,
                "topic": self._spec.topic_of(seq),
                "partition": partition,
                "offset": offset,
                "outcome": outcome,
                "error": error,
                "txn": self.txn,
                "key": self._keys and self._keys.texts[int(self._keys.of(np.array([seq]))[0])],
                "invoked_us": invoked_us,
                "completed_us": completed_us,
            }
        )

    def served(self) -> None:
        """Nothing waits: `add` reads each report."""

    def write(self, *, now: bool = False) -> None:
        """Write the rows that wait, if there are many, if the last write is long ago, or if `now` is set."""
        if not now and len(self._rows) < WRITE_ROWS and time.monotonic() < self._next_write:
            return
        self._next_write = time.monotonic() + WRITE_EVERY_S
        if self._rows:
            self._writer.append_rows(self._rows)
            self._rows.clear()
