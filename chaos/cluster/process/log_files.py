"""A partition's log as it lies on the disk of a broker that is down, and what a power failure leaves of it. Pure files.

A broker writes to the page cache; the disk has for sure only what was flushed, which is up to the partition's recovery
point (`recovery-point-offset-checkpoint`). After a SIGKILL the page cache survives, so the loss of power is played by
cutting the log off somewhere above that point. Nothing else needs to be cut: without the mark of a clean shutdown
(`.kafka_cleanshutdown`) Kafka reads every segment from the recovery point on anew, rebuilds its indexes, drops producer
snapshots and leader epochs that lie beyond its end, and lowers the high watermark to it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import ClusterError
from chaos.kafka.partition import TopicPartition

_LEAD, _LAST_DELTA = struct.Struct(">qi"), struct.Struct(">i")
_LAST_DELTA_AT, _SHORTEST = 23, 61
"""Of a record batch: base offset and length, then at 23 the last offset's delta; its header has 61 bytes."""
_OF_SEGMENT = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@dataclass(frozen=True)
class Tail:
    """What was cut off: the offsets from `start` up to, not including, `end`; nothing where they are equal."""

    start: int
    end: int


def log_dir(data: Path, partition: TopicPartition) -> Path:
    """The folder of a partition. Raises `ClusterError` where the broker has no replica of it."""
    folder = data / f"{partition.topic}-{partition.number}"
    if not folder.is_dir():
        raise ClusterError(f"{folder} is not there: the broker has no replica of {partition}")
    return folder


def segments(folder: Path) -> list[Path]:
    """The segments of a partition by ascending base offset; the last one is the active one."""
    return sorted(folder.glob("*.log"))


def recovery_point(data: Path, partition: TopicPartition) -> int:
    """The offset up to which the partition was flushed for sure; 0 where nothing is on record."""
    path = data / "recovery-point-offset-checkpoint"
    for line in path.read_text(encoding="utf-8").splitlines()[2:] if path.exists() else []:
        name, number, offset = line.rsplit(" ", 2)
        if (name, int(number)) == (partition.topic, partition.number):
            return int(offset)
    return 0


def cut_tail(data: Path, partition: TopicPartition, records: int | None) -> Tail:
    """Cut off at least so many records (None: all that were not flushed), in whole batches, from the end of the log.

    Never below the recovery point. The broker must be down, and must not have shut down in order.
    """
    folder, flushed = log_dir(data, partition), recovery_point(data, partition)
    if (data / ".kafka_cleanshutdown").exists():
        raise ClusterError(f"{data} was shut down in order: everything in it is flushed, a power failure takes nothing")
    found = [(path, at, first, last) for path in segments(folder) for at, first, last in batches(path)]
    end = found[-1][3] + 1 if found else flushed
    wanted = flushed if records is None else max(flushed, end - records)
    lost = [(path, at, first) for path, at, first, last in found if last >= wanted and first >= flushed]
    if not lost:
        return Tail(end, end)
    path, at, start = lost[0]
    for later in (p for p in segments(folder) if p > path):
        for suffix in _OF_SEGMENT:
            later.with_suffix(suffix).unlink(missing_ok=True)
    with path.open("r+b") as f:
        f.truncate(at)
    return Tail(start, end)


def batches(segment: Path) -> Iterator[tuple[int, int, int]]:
    """Position, first and last offset of each whole record batch."""
    size = segment.stat().st_size
    with segment.open("rb") as f:
        at = 0
        while at + _SHORTEST <= size:
            f.seek(at)
            header = f.read(_SHORTEST)
            first, length = _LEAD.unpack_from(header)
            if length <= 0 or at + _LEAD.size + length > size:
                return
            yield at, first, first + _LAST_DELTA.unpack_from(header, _LAST_DELTA_AT)[0]
            at += _LEAD.size + length
