"""Offset commits by librdkafka, with a ledger row for each partition and its outcome."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from chaos.clients import committer
from chaos.clients.committer import CommitAnswer, CommitRequest, Outcome
from chaos.clients.confluent.outcomes import NOT_A_COMMIT, commit_outcome
from chaos.clients.program import log
from chaos.clients.protocol import Config, Partition
from chaos.run.events import now_us

BACKOFF_MS, MAX_BACKOFF_MS = 100, 1000
"""librdkafka's defaults of retry.backoff.ms and retry.backoff.max.ms."""


class Committer(committer.Committer):
    """Commits through librdkafka.

    It answers an asynchronous or automatic commit during a later poll: `completed_us` is that time. A commit without an
    answer is written as unknown on `close`.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        backoff_ms = float(self._config.get("retry.backoff.ms", BACKOFF_MS))
        self._backoff_s = min(backoff_ms, float(self._config.get("retry.backoff.max.ms", MAX_BACKOFF_MS))) / 1000
        self._pending: dict[tuple[str, int, int], deque[CommitRequest]] = defaultdict(deque)

    def settings(self) -> Config:
        """Return the librdkafka settings for the commit setting."""
        auto = self._commit.kind == "auto" and self._commit.when != "never"
        at_poll = self._commit.when == "before_processing"
        return {"enable.auto.commit": auto, "enable.auto.offset.store": auto and at_poll}

    def _request(self, consumer: Consumer, ends: Mapping[Partition, int], kind: str = "") -> bool:
        kind = kind or self._commit.kind
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
        requests = {partition: self._asked(partition) for partition in ends}
        try:
            if kind == "auto":
                consumer.store_offsets(offsets=offsets)
            elif kind == "async":
                for o in offsets:
                    self._pending[o.topic, o.partition, o.offset].append(requests[o.topic, o.partition])
                consumer.commit(offsets=offsets, asynchronous=True)
            else:
                answers = consumer.commit(offsets=offsets, asynchronous=False)
                return self._answered("sync", [(o, None, requests[o.topic, o.partition]) for o in answers])
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if kind == "auto":
                log(f"offsets not stored: {error.name()}: {error.str()}")
                return False
            for o in offsets:
                self._pop_request(o)
            self._answered(kind, [(o, error, requests[o.topic, o.partition]) for o in offsets])
        return False

    def transaction_ended(
        self, ends: Mapping[Partition, int], outcome: Outcome, error: str | None, requested_us: int
    ) -> None:
        """Record offsets that were committed in a transaction, with its outcome."""
        self._write(
            "transaction",
            [
                CommitAnswer(p, end, outcome, error, CommitRequest(requested_us, self._assignments.get(p)))
                for p, end in ends.items()
            ],
        )

    def on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """Record librdkafka's answer to an asynchronous or automatic commit."""
        if error is not None and error.code() in NOT_A_COMMIT:
            return
        kind = "auto" if self._commit.kind == "auto" else "async"
        self._answered(kind, [(o, error, self._pop_request(o)) for o in partitions if o.offset >= 0])

    def _pop_request(self, o: TopicPartition) -> CommitRequest | None:
        """Remove and return the oldest request for this offset."""
        key = o.topic, o.partition, o.offset
        requests = self._pending.get(key)
        if not requests:
            return None
        first = requests.popleft()
        if not requests:
            del self._pending[key]
        return first

    def close(self) -> None:
        """Write the requests without an answer. Call it after the consumer was closed."""
        self._write(
            "async",
            [
                CommitAnswer((topic, partition), offset, "unknown", "no answer before the end", request)
                for (topic, partition, offset), requests in self._pending.items()
                for request in requests
            ],
        )
        self._pending.clear()

    def _answered(
        self, kind: str, answers: Iterable[tuple[TopicPartition, KafkaError | None, CommitRequest | None]]
    ) -> bool:
        """Write a row for each partition, with its own error or else that of the commit. Returns whether all are ok."""
        found = []
        for o, error, request in answers:
            took_s = None if request is None else (now_us() - request.at_us) / 1e6
            error = o.error or error
            outcome = commit_outcome(error, took_s, self._backoff_s)
            found.append(CommitAnswer((o.topic, o.partition), o.offset, outcome, error and error.name(), request))
        return self._write(kind, found)
