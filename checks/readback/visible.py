"""Visibility of records to a read_committed reader, from a second consumer in parallel to the first.

The brokers' index of aborted transactions decides, as librdkafka applies it. Records at or above the last stable offset
are undecided, because a transaction is open.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from chaos.errors import ClusterError

ROWS_PER_BATCH = 4096
POLL_S = 0.1
SILENCE_S = 60.0

Offsets = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Visible:
    """Offsets that a read_committed reader gets, in ascending order; keeps one batch in memory."""

    def __init__(self, consumer: Consumer, topic: str, partition: int, start: int, stable: int) -> None:
        self._consumer, self._stable = consumer, stable
        self._where = f"{topic}/{partition}"
        consumer.assign([TopicPartition(topic, partition, start)])
        self._offsets: Offsets = np.zeros(0, np.int64)
        self._read_to = start
        self._batches = self._read()

    def of(self, offsets: Sequence[int]) -> tuple[Flags, Flags]:
        """Return, for records at ascending offsets, whether each is visible and whether that is decided."""
        requested = np.array(offsets, np.int64)
        last = min(int(requested[-1]), self._stable - 1) if len(requested) else -1
        kept = [self._offsets]
        while self._read_to <= last:
            kept.append(next(self._batches))
        visible = np.concatenate(kept)
        self._offsets = visible[visible > last]
        return np.isin(requested, visible), requested < self._stable

    def _read(self) -> Iterator[Offsets]:
        """Yield batches of offsets; an offset below `_read_to` that was in no batch is not visible."""
        last_answer = time.monotonic()
        while True:
            messages = self._consumer.consume(ROWS_PER_BATCH, POLL_S)
            if not messages:
                if time.monotonic() - last_answer > SILENCE_S:
                    raise ClusterError(
                        f"cannot read back the committed records of {self._where}: no answer for {SILENCE_S:g} s"
                    )
                continue
            last_answer = time.monotonic()
            ends = [self._end(m) for m in messages if m.error()]
            offsets = np.array([m.offset() for m in messages if not m.error()], np.int64)
            if len(offsets):
                self._read_to = max(self._read_to, int(offsets[-1]) + 1)
            self._read_to = max([self._read_to, *ends])
            yield offsets

    def _end(self, message: Message) -> int:
        """Return the offset up to which visibility is known, or 0 for a retriable error."""
        error: KafkaError = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            return int(max(message.offset(), self._stable))
        if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return 0  # librdkafka retries; if it cannot recover, `_read` raises after the silence
        raise KafkaException(error)
