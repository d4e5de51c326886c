"""Offset commits: when they are due, and their ledger rows. How a library commits is up to a subclass."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from chaos.clients.assignments import ReaderKey
from chaos.clients.protocol import CommitSpec, Config, Partition
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

Outcome = Literal["ok", "fail", "unknown"]


@dataclass(frozen=True)
class CommitRequest:
    """The time and the assignment of a commit request: the answer may arrive under a later assignment."""

    at_us: int
    assignment: int | None


@dataclass(frozen=True)
class CommitAnswer:
    """The answer to the commit of one partition. request: None if the library requested it by itself."""

    partition: Partition
    offset: int
    outcome: Outcome
    error: str | None
    request: CommitRequest | None


class Committer(ABC):
    """Commits as the commit setting says, and writes `commits` for one incarnation of a consumer.

    The methods get the consumer of the library. A subclass also may read `config`, the settings of the scenario.
    """

    def __init__(
        self,
        writer: TableWriter,
        key: ReaderKey,
        commit: CommitSpec,
        config: Config,
        assignments: Mapping[Partition, int],
    ) -> None:
        self._writer, self._key, self._commit, self._assignments = writer, asdict(key), commit, assignments
        self._config = config
        self._due: dict[Partition, int] = {}
        """Processed offsets to commit at the next interval."""
        self._unconfirmed: dict[Partition, int] = {}
        """Processed offsets without a positive answer, to commit on revocation."""
        self._next = time.monotonic() + (commit.every_s or 0.0)

    @abstractmethod
    def _request(self, consumer: Any, ends: Mapping[Partition, int], kind: str = "") -> bool:
        """Request a commit, of the kind of the setting unless `kind` is given. Returns whether it is known to be done.

        Its answers go to `_write`, now or later.
        """

    def before_processing(self, consumer: Any, ends: Mapping[Partition, int]) -> None:
        """Commit a batch before it is processed. With kind auto, the library took its offsets at the poll."""
        if self._commit.kind != "auto":
            self._request(consumer, ends)

    def after_record(self, consumer: Any, ends: Mapping[Partition, int]) -> None:
        """Commit after a processed record, if the setting says so."""
        self._keep(ends)
        if self._commit.when == "after_record":
            self._request(consumer, ends)
        else:
            self._later(consumer, ends)

    def at_once(self, consumer: Any, ends: Mapping[Partition, int]) -> bool:
        """Commit and wait for the answer. Returns whether every offset was committed."""
        return self._request(consumer, ends, kind="sync")

    def after_batch(self, consumer: Any, ends: Mapping[Partition, int]) -> None:
        """Commit after the processed part of a batch, if the setting says so."""
        self._keep(ends)
        if self._commit.when != "after_batch":
            self._later(consumer, ends)
        elif ends:
            self._request(consumer, ends)

    def revoked(self, consumer: Any, partitions: Iterable[Partition]) -> None:
        """Commit processed offsets of partitions that are being revoked, if the setting says so.

        An earlier commit of them may be without an answer, or refused: while a cooperative group rebalances, a commit
        of the former generation gets ILLEGAL_GENERATION.
        """
        if ends := self.take_unconfirmed(partitions):
            self._request(consumer, ends, kind="sync")

    def take_unconfirmed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offsets to commit of partitions that are being revoked, and forget them."""
        ends = {p: self._unconfirmed[p] for p in partitions if p in self._unconfirmed}
        self.forget(ends)
        return ends

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Drop offsets that are due of partitions that are lost or read from another position."""
        for partition in partitions:
            self._due.pop(partition, None)
            self._unconfirmed.pop(partition, None)

    @abstractmethod
    def close(self) -> None:
        """Write the requests that have no answer. Call it after the consumer was closed."""

    def _keep(self, ends: Mapping[Partition, int]) -> None:
        if self._commit.on_revoke:
            self._unconfirmed |= ends

    def _later(self, consumer: Any, ends: Mapping[Partition, int]) -> None:
        if self._commit.when == "periodic" and self._commit.every_s:
            self._due |= ends
        if self._commit.every_s and self._due and time.monotonic() >= self._next:
            due, self._due = self._due, {}
            self._next = time.monotonic() + self._commit.every_s
            self._request(consumer, due)

    def _asked(self, partition: Partition) -> CommitRequest:
        """Return the request of a commit that is made now."""
        return CommitRequest(now_us(), self._assignments.get(partition))

    def _write(self, kind: str, answers: Iterable[CommitAnswer]) -> bool:
        """Write a row for each answer. Returns whether all are ok."""
        rows = []
        for answer in answers:
            rows.append(self._row(kind, answer))
            if answer.outcome == "ok" and self._unconfirmed.get(answer.partition) == answer.offset:
                del self._unconfirmed[answer.partition]
        self._writer.append_rows(rows)
        return all(row["outcome"] == "ok" for row in rows)

    def _row(self, kind: str, answer: CommitAnswer) -> dict[str, object]:
        request = answer.request or self._asked(answer.partition)  # the library requested an automatic commit
        topic, partition = answer.partition
        return {
            **self._key,
            "assignment": request.assignment,
            "topic": topic,
            "partition": partition,
            "offset": answer.offset,
            "kind": kind,
            "outcome": answer.outcome,
            "error": answer.error,
            "requested_us": request.at_us,
            "completed_us": now_us(),
        }
