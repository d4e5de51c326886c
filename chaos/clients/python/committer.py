"""Offset commits: when they are due, and their ledger rows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, cast

from chaos.clients.protocol import CommitSpec, Config, Outcome, Partition
from chaos.clients.python.assignments import ReaderKey
from chaos.clients.python.library import ConsumerAdapter, Library
from chaos.clients.python.program import log
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

Requests = Mapping[Partition, "CommitRequest"]


class CommitRequest(NamedTuple):
    """The time and the assignment of a commit request: the answer may arrive under a later assignment."""

    at_us: int
    assignment: int | None


class Committer:
    """Commits as the commit setting says, and writes `commits` for one incarnation of a consumer.

    The methods get the consumer of the library. Answers to asynchronous and automatic commits wait until `serve`; a
    commit without an answer is written as unknown on `close`.

    unusable: the error of a commit after which the consumer cannot continue; else None.
    """

    def __init__(
        self,
        writer: TableWriter,
        key: ReaderKey,
        commit: CommitSpec,
        config: Config,
        assignments: Mapping[Partition, int],
        library: Library,
    ) -> None:
        """config: the settings of the scenario. assignments: the last number of each partition."""
        self._writer, self._key, self._commit, self._assignments = writer, asdict(key), commit, assignments
        self._config, self._library = config, library
        self._due: dict[Partition, int] = {}
        """Processed offsets to commit at the next interval."""
        self._unconfirmed: dict[Partition, int] = {}
        """Processed offsets without a positive answer, to commit on revocation."""
        self._next = time.monotonic() + (commit.every_s or 0.0)
        self._number = 0
        self._sent: dict[int, tuple[dict[Partition, int], dict[Partition, CommitRequest]]] = {}
        """Asynchronous commits without an answer, by their numbers."""
        self._arrivals: deque[Callable[[], object]] = deque()
        self.unusable: BaseException | None = None

    def _request(self, consumer: ConsumerAdapter, ends: Mapping[Partition, int], kind: str = "") -> bool:
        """Request a commit, of the kind of the setting unless `kind` is given. Returns whether it is done for sure."""
        kind = kind or self._commit.kind
        if kind == "auto":
            consumer.store(ends)
            return False
        requests = self.requests(ends)
        if kind == "async":
            self._number += 1
            self._sent[self._number] = dict(ends), requests
            consumer.commit_later(ends, partial(self._arrived, self._number))
            return False
        error: BaseException | None = None
        errors: Mapping[Partition, BaseException] = {}
        try:
            errors = consumer.commit(ends)
        except self._library.Error as e:
            error = e
        return self.answered("sync", ends, requests, error, errors)

    def requests(self, ends: Mapping[Partition, int]) -> dict[Partition, CommitRequest]:
        """Return the requests of a commit that is made now."""
        return {partition: self._asked(partition) for partition in ends}

    def answered(
        self,
        kind: str,
        ends: Mapping[Partition, int],
        requests: Requests,
        error: BaseException | None,
        errors: Mapping[Partition, BaseException] = MappingProxyType({}),
        at_us: int | None = None,
    ) -> bool:
        """Write the answer to a commit. Returns whether it is known to be done.

        error: of the whole commit. errors: of single partitions. at_us: when the answer arrived, if not now.
        """
        at_us = at_us or now_us()
        rows = []
        for partition, offset in ends.items():
            request, found = requests.get(partition), errors.get(partition, error)
            took_s = None if request is None else (at_us - request.at_us) / 1e6
            only = self._library.is_only_attempt(kind == "async" and request is not None, took_s, self._config)
            outcome = self._library.commit_outcome(found, partition in errors or len(ends) == 1, only)
            name = None if found is None else self._library.error_name(found)
            rows.append(self._row(kind, partition, offset, outcome, name, request, at_us))
        for found in {id(e): e for e in (error, *errors.values()) if e is not None}.values():
            log(f"commit: {self._library.describe(found)}")
            self.unusable = found if self._library.fatal(found) else self.unusable
        return self._write(rows)

    def _arrived(self, number: int, error: BaseException | None, partitions: Collection[Partition] | None) -> None:
        """Keep the answer to an asynchronous commit, from any thread, until `serve`."""
        self._arrivals.append(partial(self._late, number, error, partitions, now_us()))

    def _late(
        self, number: int, error: BaseException | None, partitions: Collection[Partition] | None, at_us: int
    ) -> None:
        ends, requests = self._sent[number]
        answered = {p: ends.pop(p) for p in (list(ends) if partitions is None else partitions)}
        if not ends:
            del self._sent[number]
        errors = {} if partitions is None or error is None else dict.fromkeys(partitions, error)
        self.answered("async", answered, requests, error, errors, at_us)

    def unasked(self, ends: Mapping[Partition, int], error: Exception | None) -> None:
        """Keep the answer to a commit that the library made by itself until `serve`."""
        kind = "auto" if self._commit.kind == "auto" else "async"
        errors = {} if error is None else dict.fromkeys(ends, error)
        self._arrivals.append(partial(self.answered, kind, ends, {}, None, errors, now_us()))

    def serve(self) -> None:
        """Write the answers that have arrived."""
        while self._arrivals:
            self._arrivals.popleft()()

    def transaction_ended(
        self, ends: Mapping[Partition, int], outcome: Outcome, error: str | None, requested_us: int
    ) -> None:
        """Write offsets that were committed in a transaction, with its outcome."""
        made = [(p, end, CommitRequest(requested_us, self._assignments.get(p))) for p, end in ends.items()]
        self._write([self._row("transaction", p, end, outcome, error, request, now_us()) for p, end, request in made])

    def before_processing(self, consumer: ConsumerAdapter, ends: Mapping[Partition, int]) -> None:
        """Commit a batch before it is processed. With kind auto, the library took its offsets at the poll."""
        if self._commit.kind != "auto":
            self._request(consumer, ends)

    def after_record(self, consumer: ConsumerAdapter, ends: Mapping[Partition, int]) -> None:
        """Commit after a processed record, if the setting says so."""
        self._keep(ends)
        if self._commit.when == "after_record":
            self._request(consumer, ends)
        else:
            self._later(consumer, ends)

    def at_once(self, consumer: ConsumerAdapter, ends: Mapping[Partition, int]) -> bool:
        """Commit and wait for the answer. Returns whether every offset was committed."""
        return self._request(consumer, ends, kind="sync")

    def after_batch(self, consumer: ConsumerAdapter, ends: Mapping[Partition, int]) -> None:
        """Commit after the processed part of a batch, if the setting says so."""
        self._keep(ends)
        if self._commit.when != "after_batch":
            self._later(consumer, ends)
        elif ends:
            self._request(consumer, ends)

    def revoked(self, consumer: ConsumerAdapter, partitions: Iterable[Partition]) -> None:
        """Commit processed offsets of partitions that are being revoked, if the setting says so.

        An earlier commit of them may be without an answer, or refused: while a cooperative group rebalances, a commit
        of the former generation gets ILLEGAL_GENERATION.
        """
        if ends := self.take_unconfirmed(partitions):
            self._request(consumer, ends, kind="sync")

    def take_unconfirmed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offsets to commit of partitions that are being revoked, and forget them."""
        self.serve()
        ends = {p: self._unconfirmed[p] for p in partitions if p in self._unconfirmed}
        self.forget(ends)
        return ends

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Drop offsets that are due of partitions that are lost or read from another position."""
        self.serve()  # before a row of the next assignment
        for partition in partitions:
            self._due.pop(partition, None)
            self._unconfirmed.pop(partition, None)

    def close(self) -> None:
        """Write the requests without an answer. Call it after the consumer was closed."""
        self.serve()
        for ends, requests in self._sent.values():
            lost, at_us = "no answer before the end", now_us()
            rows = [self._row("async", p, end, "unknown", lost, requests[p], at_us) for p, end in ends.items()]
            self._write(rows)
        self._sent.clear()

    def _keep(self, ends: Mapping[Partition, int]) -> None:
        if self._commit.on_revoke:
            self._unconfirmed |= ends

    def _later(self, consumer: ConsumerAdapter, ends: Mapping[Partition, int]) -> None:
        if self._commit.when == "periodic" and self._commit.every_s:
            self._due |= ends
        if self._commit.every_s and self._due and time.monotonic() >= self._next:
            due, self._due = self._due, {}
            self._next = time.monotonic() + self._commit.every_s
            self._request(consumer, due)

    def _asked(self, partition: Partition) -> CommitRequest:
        """Return the request of a commit that is made now."""
        return CommitRequest(now_us(), self._assignments.get(partition))

    def _write(self, rows: list[dict[str, object]]) -> bool:
        """Write rows. Returns whether all commits are done."""
        for row in rows:
            partition = str(row["topic"]), cast(int, row["partition"])
            if row["outcome"] == "ok" and self._unconfirmed.get(partition) == row["offset"]:
                del self._unconfirmed[partition]
        self._writer.append_rows(rows)
        return all(row["outcome"] == "ok" for row in rows)

    def _row(
        self,
        kind: str,
        partition: Partition,
        offset: int,
        outcome: Outcome,
        error: str | None,
        request: CommitRequest | None,
        at_us: int,
    ) -> dict[str, object]:
        request = request or self._asked(partition)  # the library made an automatic commit
        return {
            **self._key,
            "assignment": request.assignment,
            "topic": partition[0],
            "partition": partition[1],
            "offset": offset,
            "kind": kind,
            "outcome": outcome,
            "error": error,
            "requested_us": min(request.at_us, at_us),
            "completed_us": at_us,
        }
