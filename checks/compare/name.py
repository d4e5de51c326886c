"""The few records that a result names, read again: their keys, and what differs between A and B."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from confluent_kafka import KafkaException, Message

from chaos.compare.model import Comparison, Example, Pair
from chaos.errors import AftershockError
from checks.readback.source import OffsetRange, PartReader

THREADS = 8
MOST_KEY = 80
"""Characters of a key that are shown."""


def named(asked: Comparison, pair: Pair, examples: Sequence[Example]) -> list[Example]:
    """Return the examples with keys, timestamps and differences, as far as their records are still there."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda example: _named(asked, pair, example), examples))


def _named(asked: Comparison, pair: Pair, example: Example) -> Example:
    found: list[Message | None] = []
    for i, (side, topic) in enumerate(((asked.a, pair.a), (asked.b, pair.b))):
        partition, offset = example.partitions[i], example.offsets[i]
        if partition is None or offset is None:
            found.append(None)
            continue
        place = Path(), 0, side.security
        found.append(_record(OffsetRange(side.bootstrap, topic, partition, offset, offset + 1, *place)))
    record = found[0] or found[1]
    if record is None:
        return example.model_copy(update={"detail": "no longer in the log"})
    key = record.key()
    text = None if key is None else key.decode(errors="backslashreplace")
    shown = text if text is None or len(text) <= MOST_KEY else f"{text[:MOST_KEY]}…"
    details = [_times(example)]
    if found[0] and found[1]:
        details += _differences(found[0], found[1])
    return example.model_copy(update={"key": shown, "detail": "; ".join(filter(None, details))})


def _record(part: OffsetRange) -> Message | None:
    """Return the record at the start of a range; None if it is gone, or cannot be read."""
    try:
        with closing(PartReader(part, "read_committed")) as reader:
            while reader.reached < part.end:
                for message in reader.poll(1):
                    if message.offset() == part.start:
                        return message
    except (AftershockError, KafkaException):
        pass
    return None


def _times(example: Example) -> str:
    a, b = example.times_ms
    if a is None or b is None or a == b:
        at = a if a is not None else b
        return f"written at {_clock(at)}" if at is not None else ""
    return f"written at {_clock(a)} in A and {b - a:+,} ms in B"


def _clock(at_ms: int) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms / 1000)) if at_ms >= 0 else "no time"
    return f"{seconds}.{at_ms % 1000:03}Z" if at_ms >= 0 else seconds


def _differences(a: Message, b: Message) -> list[str]:
    """Return what differs, without values, which may be secret."""
    found = []
    if a.key() != b.key():
        there = "no key" if b.key() is None else repr(b.key().decode(errors="backslashreplace")[:MOST_KEY])
        found.append(f"its key in B is {there}" if b.key() is not None else "it has no key in B")
    if a.value() != b.value():
        found.append(f"value of {_size(a.value())} in A and {_size(b.value())} in B")
    own, other = a.headers() or [], b.headers() or []
    if own != other:
        names = sorted({h[0] for h in [*own, *other] if own.count(h) != other.count(h)})
        found.append(f"header {', '.join(names)} differs" if names else "its headers have another order")
    return found


def _size(value: bytes | None) -> str:
    return "null" if value is None else f"{len(value):,} bytes"
