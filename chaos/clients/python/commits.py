"""Offset commits through a library in Python, with a ledger row for each partition and its outcome."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any

from chaos.clients import committer
from chaos.clients.committer import CommitAnswer, CommitRequest
from chaos.clients.program import log
from chaos.clients.protocol import Partition
from chaos.clients.python.library import ConsumerAdapter, Library
from chaos.clients.python.outcomes import commit_outcome, describe, error_name
from chaos.run.events import now_us

FENCED = "FENCED_INSTANCE_ID"
"""Answer to a static member of which another process has the place (KIP-345)."""
BACKOFF_MS = 100
"""Default of retry_backoff_ms in both libraries: the time before they repeat a commit."""

Ends = dict[Partition, int]


class Committer(committer.Committer):
    """Commits through a library. With kind auto, the library commits by itself and says nothing.

    fenced: the answer to a commit that another process has the place of this static member; else None.
    """

    library: Library

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.fenced: BaseException | None = None
        self._backoff_us = 1000 * float(self._config.get("retry_backoff_ms", BACKOFF_MS))
        self._sent: dict[int, tuple[Ends, dict[Partition, CommitRequest]]] = {}
        """Asynchronous commits without an answer, by their numbers."""
        self._answers: deque[tuple[int, BaseException | None]] = deque()
        self._number = 0

    def _request(self, consumer: ConsumerAdapter, ends: Mapping[Partition, int], kind: str = "") -> bool:
        kind = kind or self._commit.kind
        if kind == "auto":
            return False
        requests = self.requests(ends)
        if kind == "async":
            self._number += 1
            self._sent[self._number] = dict(ends), requests
            consumer.commit_later(ends, partial(self._arrived, self._number))
            return False
        error: BaseException | None = None
        try:
            consumer.commit(ends)
        except self.library.Error as e:
            error = e
        return self.answered("sync", ends, requests, error)

    def requests(self, ends: Mapping[Partition, int]) -> dict[Partition, CommitRequest]:
        """Return the requests of a commit that is made now."""
        return {partition: self._asked(partition) for partition in ends}

    def answered(
        self,
        kind: str,
        ends: Mapping[Partition, int],
        requests: Mapping[Partition, CommitRequest],
        error: BaseException | None,
    ) -> bool:
        """Record the answer to a commit. Returns whether it is known to be done."""
        if error is not None:
            log(f"commit: {describe(error)}")
            if error_name(error) == FENCED:
                self.fenced = error
        answers = []
        for partition, offset in ends.items():
            only = kind == "async" or now_us() - requests[partition].at_us < self._backoff_us
            outcome = commit_outcome(error, len(ends), only, self.library.traits.commits)
            name = None if error is None else error_name(error)
            answers.append(CommitAnswer(partition, offset, outcome, name, requests[partition]))
        return self._write(kind, answers)

    def _arrived(self, number: int, error: BaseException | None) -> None:
        """Keep an answer, from any thread, until `serve`."""
        self._answers.append((number, error))

    def serve(self) -> None:
        """Record the answers to asynchronous commits that have arrived."""
        while self._answers:
            number, error = self._answers.popleft()
            ends, requests = self._sent.pop(number)
            self.answered("async", ends, requests, error)

    def close(self) -> None:
        """Write the requests without an answer. Call it after the consumer was closed."""
        self.serve()
        for ends, requests in self._sent.values():
            rows = [CommitAnswer(p, end, "unknown", "no answer before the end", requests[p]) for p, end in ends.items()]
            self._write("async", rows)
        self._sent.clear()
