"""Records of `__consumer_offsets`: the offset commits among them, parsed from key and value.

The log also holds members and other state of groups, under keys of other versions. The formats are those of
`OffsetCommitKey` (versions 0 and 1) and `OffsetCommitValue` (0 to 4) of Kafka's group coordinator.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

COMMIT_KEYS = (0, 1)
"""Versions of the keys of offset commits; other versions are keys of other records."""
NEWEST_VALUE = 4
_FIRST_WITH_EPOCH, _FIRST_FLEXIBLE = 3, 4


@dataclass(frozen=True)
class CommitKey:
    """The key of an offset commit."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True)
class CommitValue:
    """The value of an offset commit. commit_ms: the coordinator's time of the commit, in ms."""

    offset: int
    metadata: str
    commit_ms: int


def parse_key(key: bytes | None) -> CommitKey | None:
    """Return the key of an offset commit; None for another record. Raises `ValueError` if it is damaged."""
    if key is None or len(key) < 2 or struct.unpack_from(">h", key)[0] not in COMMIT_KEYS:
        return None
    group, at = _text(key, 2)
    topic, at = _text(key, at)
    (partition,) = _unpack(">i", key, at)
    return CommitKey(group, topic, partition)


def parse_value(value: bytes) -> CommitValue:
    """Return the value of an offset commit. Raises `ValueError` if it is damaged, or newer than `NEWEST_VALUE`."""
    (version,) = _unpack(">h", value, 0)
    if not 0 <= version <= NEWEST_VALUE:
        raise ValueError(f"offset commits of version {version} are unknown, the newest known one is {NEWEST_VALUE}")
    (offset,) = _unpack(">q", value, 2)
    at = 14 if version >= _FIRST_WITH_EPOCH else 10
    metadata, at = _compact_text(value, at) if version >= _FIRST_FLEXIBLE else _text(value, at)
    (commit_ms,) = _unpack(">q", value, at)
    return CommitValue(offset, metadata, commit_ms)


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Return a text with a length of 16 bits, and the position behind it."""
    (length,) = _unpack(">h", data, at)
    return _decoded(data, at + 2, max(length, 0))


def _compact_text(data: bytes, at: int) -> tuple[str, int]:
    """Return a text with a variable length plus one, and the position behind it."""
    length = shift = 0
    while True:
        (byte,) = _unpack(">B", data, at)
        length, at, shift = length | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return _decoded(data, at, max(length - 1, 0))


def _decoded(data: bytes, at: int, length: int) -> tuple[str, int]:
    if at + length > len(data):
        raise ValueError(f"an offset commit of {len(data)} bytes ends within a text")
    return data[at : at + length].decode("utf-8", "replace"), at + length


def _unpack(form: str, data: bytes, at: int) -> tuple[int]:
    try:
        found: tuple[int] = struct.unpack_from(form, data, at)
    except struct.error:
        raise ValueError(f"an offset commit of {len(data)} bytes ends too early") from None
    return found
