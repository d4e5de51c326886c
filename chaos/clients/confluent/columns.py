"""librdkafka's messages as columns, read in one pass while they are in the processor's cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from confluent_kafka import Message

from chaos.clients.columns import MISSING, Columns
from chaos.ledger.record import in_headers
from chaos.ledger.record_columns import Ints, headers_of, own_headers

HAS_EPOCHS = hasattr(Message, "leader_epoch")
"""Whether records carry their leader epoch: from confluent-kafka 2.1.0 on."""


def sent(messages: Sequence[Message], tombstones: Mapping[int, bytes]) -> Columns:
    """Return the columns of acknowledged sends. tombstones: identities of the messages without a value, by index."""
    values = list(map(Message.value, messages))
    for index, identity in tombstones.items():
        values[index] = identity
    headers = headers_of(values)
    return Columns(headers, _mostly_same(Message.partition, messages), _numbers(Message.offset, messages))


def consumed(messages: Sequence[Message], topics: bool) -> Columns | None:
    """Return the columns of consumed records; None if one of the messages is an error."""
    values = list(map(Message.value, messages))
    headers = own_headers(values)
    if headers is None:  # the value of an error is its text: if all values are ours, none is an error
        if any(map(Message.error, messages)):
            return None
        headers = headers_of(
            [in_headers(m.headers()) if v is None else v for m, v in zip(messages, values, strict=True)]
        )
    partitions = _mostly_same(Message.partition, messages)
    names = list(map(Message.topic, messages)) if topics else None
    epochs = _epochs(messages, partitions, names)
    return Columns(headers, partitions, _numbers(Message.offset, messages), epochs, names)


Getter = Callable[[Message], int | None]


def _mostly_same(getter: Getter, messages: Sequence[Message]) -> Ints:
    """Return numbers that are usually all the same: to detect that costs less than to convert each."""
    distinct = set(map(getter, messages))
    if len(distinct) > 1:
        return _numbers(getter, messages)
    return _repeated(distinct.pop(), len(messages))


def _repeated(number: int | None, times: int) -> Ints:
    return np.full(times, MISSING if number is None else number, np.int64)


def _epochs(messages: Sequence[Message], partitions: Ints, topics: list[str] | None) -> Ints:
    """Return leader epochs. They never decrease along a partition (KIP-101): if both ends agree, all do."""
    if not HAS_EPOCHS:
        return _repeated(None, len(messages))
    epoch = messages[0].leader_epoch()
    if epoch == messages[-1].leader_epoch() and (partitions == partitions[0]).all() and len(set(topics or ())) < 2:
        return _repeated(epoch, len(messages))
    return _numbers(Message.leader_epoch, messages)


def _numbers(getter: Getter, messages: Sequence[Message]) -> Ints:
    try:
        return np.fromiter(map(getter, messages), np.int64, len(messages))
    except TypeError:  # one is None
        return np.array([MISSING if number is None else number for number in map(getter, messages)], np.int64)
