"""What librdkafka hands over, as columns: read from its messages at once, while the processor has them in its cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from chaos.ledger.record_columns import Headers, Ints, headers_of, own_headers
from chaos.ledger.runs import same

NONE = -1
"""What stands for a number that librdkafka does not tell."""


@dataclass
class Columns:
    """Some messages, in their order. Leader epochs and topics are read only where they are asked for."""

    headers: Headers
    partitions: Ints
    offsets: Ints
    epochs: Ints | None = None
    topics: list[str] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, first: int, count: int) -> Columns:
        """Up to `count` of them, from the `first` on."""
        rows = slice(first, first + count)
        return Columns(
            self.headers[rows],
            self.partitions[rows],
            self.offsets[rows],
            None if self.epochs is None else self.epochs[rows],
            None if self.topics is None else self.topics[rows],
        )


TELLS_EPOCHS = hasattr(Message, "leader_epoch")
"""Whether a record comes with its leader epoch: from confluent-kafka 2.1.0 on."""


def sent(messages: Sequence[Message]) -> Columns:
    """The columns of acknowledged sends."""
    headers = headers_of(list(map(Message.value, messages)))
    return Columns(headers, _mostly_same(Message.partition, messages), _numbers(Message.offset, messages))


def consumed(messages: Sequence[Message], topics: bool) -> Columns | None:
    """The columns of consumed records; None if there is an error among them."""
    values = list(map(Message.value, messages))
    headers = own_headers(values)
    if headers is None:  # the value of an error is its text: where all values are ours, there is none
        if any(map(Message.error, messages)):
            return None
        headers = headers_of(values)
    partitions = _mostly_same(Message.partition, messages)
    found = list(map(Message.topic, messages)) if topics else None
    epochs = _epochs(messages, partitions, found)
    return Columns(headers, partitions, _numbers(Message.offset, messages), epochs, found)


def joined(parts: Sequence[Columns]) -> Columns:
    """The columns of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Columns(
        np.concatenate([p.headers for p in parts]),
        np.concatenate([p.partitions for p in parts]),
        np.concatenate([p.offsets for p in parts]),
        np.concatenate([p.epochs for p in parts if p.epochs is not None]) if parts[0].epochs is not None else None,
        list(chain.from_iterable(p.topics or () for p in parts)) if parts[0].topics is not None else None,
    )


def nullable(numbers: Ints, kind: type[np.signedinteger[Any]]) -> pa.Array:
    """As an Arrow column, null where there is none."""
    missing = numbers == NONE
    return pa.array(numbers.astype(kind, copy=False), mask=missing if missing.any() else None)


def recurring(numbers: Ints | None) -> pa.Array:
    """As a column of int32, null where there is none; a run if all are the same."""
    assert numbers is not None  # asked for
    first = int(numbers[0])
    if (numbers == first).all():
        return same(None if first == NONE else first, pa.int32()).slice(0, len(numbers))
    return nullable(numbers, np.int32)


Ask = Callable[[Message], int | None]


def _mostly_same(ask: Ask, messages: Sequence[Message]) -> Ints:
    """For numbers that are mostly all the same: to see that costs less than to convert each."""
    found = set(map(ask, messages))
    if len(found) > 1:
        return _numbers(ask, messages)
    return _repeated(found.pop(), len(messages))


def _repeated(number: int | None, times: int) -> Ints:
    return np.full(times, NONE if number is None else number, np.int64)


def _epochs(messages: Sequence[Message], partitions: Ints, topics: list[str] | None) -> Ints:
    """Their leader epochs. Along a partition's log they never go down (KIP-101): where both ends agree, all do."""
    if not TELLS_EPOCHS:
        return _repeated(None, len(messages))
    epoch = messages[0].leader_epoch()
    if epoch == messages[-1].leader_epoch() and (partitions == partitions[0]).all() and len(set(topics or ())) < 2:
        return _repeated(epoch, len(messages))
    return _numbers(Message.leader_epoch, messages)


def _numbers(ask: Ask, messages: Sequence[Message]) -> Ints:
    try:
        return np.fromiter(map(ask, messages), np.int64, len(messages))
    except TypeError:  # one is None
        return np.array([NONE if number is None else number for number in map(ask, messages)], np.int64)
