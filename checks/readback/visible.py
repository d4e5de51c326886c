"""Which records of a stretch of the log a read_committed reader is given: a second read, beside the first.

The brokers' index of aborted transactions, and librdkafka's reading of it, decide. Nothing at or above the last stable
offset is decided yet: a transaction is open there.
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
    """The offsets that a read_committed reader gets, asked for in ascending order; holds a batch at a time."""

    def __init__(self, consumer: Consumer, topic: str, partition: int, start: int, stable: int) -> None:
        self._consumer, self._stable = consumer, stable
        self._where = f"{topic}/{partition}"
        consumer.assign([TopicPartition(topic, partition, start)])
        self._offsets: Offsets = np.zeros(0, np.int64)
        self._known_to = start
        self._batches = self._read()

    def of(self, offsets: Sequence[int]) -> tuple[Flags, Flags]:
        """Of records at ascending offsets: whether each is seen, and whether that is decided."""
        asked = np.array(offsets, np.int64)
        last = min(int(asked[-1]), self._stable - 1) if len(asked) else -1
        kept = [self._offsets]
        while self._known_to <= last:
            kept.append(next(self._batches))
        seen = np.concatenate(kept)
        self._offsets = seen[seen > last]
        return np.isin(asked, seen), asked < self._stable

    def _read(self) -> Iterator[Offsets]:
        """Batches of offsets; what lies below `_known_to` and was in none is not seen."""
        heard = time.monotonic()
        while True:
            messages = self._consumer.consume(ROWS_PER_BATCH, POLL_S)
            if not messages:
                if time.monotonic() - heard > SILENCE_S:
                    raise ClusterError(
                        f"cannot read back what is committed of {self._where}: nothing for {SILENCE_S:g} s"
                    )
                continue
            heard = time.monotonic()
            ends = [self._end(m) for m in messages if m.error()]
            offsets = np.array([m.offset() for m in messages if not m.error()], np.int64)
            if len(offsets):
                self._known_to = max(self._known_to, int(offsets[-1]) + 1)
            self._known_to = max([self._known_to, *ends])
            yield offsets

    def _end(self, message: Message) -> int:
        """The offset up to which all is known now, for the end of what can be read is no error."""
        error: KafkaError = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            return int(max(message.offset(), self._stable))
        if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return 0  # librdkafka goes on by itself; if it cannot, the silence is noticed
        raise KafkaException(error)
