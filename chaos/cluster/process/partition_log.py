"""The log files of a partition on the disk of a broker that is down, and the effect of a power failure on them.

A broker writes to the page cache. Only records up to the recovery point of the partition
(`recovery-point-offset-checkpoint`) are flushed to disk for certain. The page cache survives SIGKILL, so a power
failure is simulated by cutting the log above that point. No other file must change: without the marker of a clean
shutdown (`.kafka_cleanshutdown`), Kafka scans every segment from the recovery point on, rebuilds its indexes, drops
producer snapshots and leader epochs beyond the end of the log, and lowers the high watermark.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from chaos.cluster.api import LogTail
from chaos.errors import ClusterError
from chaos.kafka.partition import TopicPartition

_BASE_OFFSET_AND_LENGTH, _LAST_DELTA = struct.Struct(">qi"), struct.Struct(">i")
_LAST_DELTA_AT, _HEADER_BYTES = 23, 61
"""The header of a record batch: base offset and length, at byte 23 the delta of the last offset, 61 bytes in total."""
_SEGMENT_FILES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def log_dir(data: Path, partition: TopicPartition) -> Path:
    """Return the directory of a partition. Raises `ClusterError` if the broker has no replica."""
    name = f"{partition.topic}-{partition.number}"
    for directory in (data / name, *data.glob(f"*/{name}")):  # of a broker with one data folder, or with several
        if directory.is_dir():
            return directory
    raise ClusterError(f"{data / name} does not exist: the broker has no replica of {partition}")


def segments(directory: Path) -> list[Path]:
    """Return the segments of a partition by ascending base offset; the last one is active."""
    return sorted(directory.glob("*.log"))


def recovery_point(data: Path, partition: TopicPartition) -> int:
    """Return the offset up to which the partition is flushed for certain; 0 if the broker recorded none."""
    path = log_dir(data, partition).parent / "recovery-point-offset-checkpoint"
    for line in path.read_text(encoding="utf-8").splitlines()[2:] if path.exists() else []:
        topic, number, offset = line.rsplit(" ", 2)
        if (topic, int(number)) == (partition.topic, partition.number):
            return int(offset)
    return 0


def cut_tail(data: Path, partition: TopicPartition, records: int | None) -> LogTail:
    """Cut whole batches off the end of the log, at least `records` records (None: all that were not flushed).

    Never cuts below the recovery point. Raises `ClusterError` after a clean shutdown. The broker must be down.
    """
    directory, flushed = log_dir(data, partition), recovery_point(data, partition)
    if (directory.parent / ".kafka_cleanshutdown").exists():
        raise ClusterError(
            f"{directory.parent} had a clean shutdown: everything in it is flushed, a power failure loses nothing"
        )
    present = [(path, at, first, last) for path in segments(directory) for at, first, last in batches(path)]
    end = present[-1][3] + 1 if present else flushed
    keep = flushed if records is None else max(flushed, end - records)
    lost = [(path, at, first) for path, at, first, last in present if last >= keep and first >= flushed]
    if not lost:
        return LogTail(end, end)
    path, at, start = lost[0]
    for later in (p for p in segments(directory) if p > path):
        for suffix in _SEGMENT_FILES:
            later.with_suffix(suffix).unlink(missing_ok=True)
    with path.open("r+b") as f:
        f.truncate(at)
    return LogTail(start, end)


def batches(segment: Path) -> Iterator[tuple[int, int, int]]:
    """Yield the position, first offset and last offset of each complete record batch."""
    size = segment.stat().st_size
    with segment.open("rb") as f:
        at = 0
        while at + _HEADER_BYTES <= size:
            f.seek(at)
            header = f.read(_HEADER_BYTES)
            first, length = _BASE_OFFSET_AND_LENGTH.unpack_from(header)
            if length <= 0 or at + _BASE_OFFSET_AND_LENGTH.size + length > size:
                return
            yield at, first, first + _LAST_DELTA.unpack_from(header, _LAST_DELTA_AT)[0]
            at += _BASE_OFFSET_AND_LENGTH.size + length
