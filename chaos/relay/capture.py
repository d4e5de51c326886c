"""The capture of the wire ledger: what the proxy writes down of the frames on its fronts.

    <run>/wire/000001.wire, 000002.wire, …    segments of about 16 MiB, in the order of time
    <run>/wire/seal.json                      written last: the segments, entries, and why a capture ended early

A segment begins with `MAGIC`. Entries follow, each with the length of the rest first (big-endian, as in Kafka):

| field                 | bytes | meaning                                                                            |
|-----------------------|-------|------------------------------------------------------------------------------------|
| length                | 4     | bytes of the rest of the entry                                                     |
| kind                  | 1     | 1 connection accepted, 2 closed, 3 request, 4 answer                               |
| flags                 | 1     | 1: the proxy made or changed the frame; 2: the body was not kept; 4: the answer    |
|                       |       | before it, sent once more by a fault                                                |
| holes                 | 2     | number of holes                                                                    |
| connection            | 4     | number of the connection, from 1                                                   |
| number                | 4     | number of the request in its connection, from 1; an answer has its request's number |
| seen                  | 8     | time in us at which the frame arrived, by the clock of the proxy                   |
| passed                | 8     | time in us at which it was sent on; 0 if it never was                              |
| api, version          | 2 + 2 | of the request; an answer has its request's values                                 |
| correlation           | 4     | the correlation id                                                                 |
| size                  | 4     | bytes of the whole frame with its length field                                     |
| holes                 | 8 n   | begin in the frame, and length, of each run of bytes that was left out             |
| kept                  | rest  | the bytes of the frame without the holes                                           |

The first two kinds have JSON in place of kept bytes: `{"front", "broker", "peer"}`, and `{"by"}` with client, broker or
proxy.

Only the requests of `READ` and their answers are kept. Others may contain passwords: there is the entry alone.
Of the records in a Fetch or ShareFetch answer the header of each batch is kept (61 bytes; 26 of a message before Kafka
0.11), because the final log has the rest. `payloads` decides about the records in Produce requests: `none` keeps the
headers, `needed` keeps the whole batches of producers without an id, which have no other identity than their content,
and `all` keeps everything.

Entries are written at most `FLUSH_S` after their frame has passed, so a killed proxy loses no more; the last entry of
the last segment may then be torn.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka.protocol.api_key import ApiKey

from chaos.relay.frames import LENGTH_BYTES, Head
from chaos.relay.roles import Payloads
from chaos.run.directory import write_atomically
from chaos.run.events import now_us

MAGIC = b"ASWIRE1\n"
ACCEPTED, CLOSED, REQUEST, ANSWER = 1, 2, 3, 4
MADE, UNKEPT, AGAIN = 1, 2, 4
SEGMENT_BYTES = 16 * 2**20
BUFFER_BYTES = 2**18
FLUSH_S = 0.05
SESSION_BITS = 24
"""A session has so many bits of the numbers of connections: 128 sessions of 16 million connections."""
FOLDER, SEAL = "wire", "seal.json"

ENTRY = struct.Struct(">IBBHIIqqhhii")
HOLE = struct.Struct(">II")
_BATCH = struct.Struct(">qiib")  # base offset, length of the rest, leader epoch or CRC, magic
_OVERHEAD, _HEADER_V2, _HEADER_OLD = 12, 61, 26

_NEW_GROUPS = (76, 78, 79, 88)
"""ShareGroupHeartbeat, ShareFetch, ShareAcknowledge and StreamsGroupHeartbeat."""
READ = frozenset(
    {
        *map(
            int,
            (
                *(ApiKey.Produce, ApiKey.Fetch, ApiKey.ListOffsets, ApiKey.Metadata, ApiKey.OffsetCommit),
                *(ApiKey.OffsetFetch, ApiKey.FindCoordinator, ApiKey.JoinGroup, ApiKey.Heartbeat, ApiKey.LeaveGroup),
                *(ApiKey.SyncGroup, ApiKey.ApiVersions, ApiKey.InitProducerId, ApiKey.AddPartitionsToTxn),
                *(ApiKey.AddOffsetsToTxn, ApiKey.EndTxn, ApiKey.TxnOffsetCommit, ApiKey.ConsumerGroupHeartbeat),
            ),
        ),
        *_NEW_GROUPS,
    }
)
"""The requests with contents that are kept."""
_FLEXIBLE_PRODUCE, _FLEXIBLE_FETCH, _IDS = 9, 12, 13


@dataclass(slots=True)
class Entry:
    """A frame that has arrived."""

    kind: int
    number: int
    head: Head
    seen_us: int
    data: bytes | memoryview = b""
    flags: int = 0
    lost: bool = False
    """Whether it is certain not to pass."""


class Recorder:
    """Writes the segments of a capture. A failure to write ends the capture, not the traffic."""

    def __init__(
        self,
        folder: Path,
        payloads: Payloads,
        segment_bytes: int = SEGMENT_BYTES,
        fetched: Payloads = "none",
        session: int = 0,
    ) -> None:
        """Begin a capture. payloads: what is kept of the records that are sent; fetched: of those that are fetched.

        session: number of this recorder among those that wrote to the folder, one after the other. A later one goes on
        with the segments, and gives its connections other numbers.
        """
        folder.mkdir(mode=0o700, exist_ok=True)
        self.payloads: Payloads = payloads
        self.fetched: Payloads = fetched
        self.failure = ""
        self._folder, self._segment_bytes = folder, segment_bytes
        self._connections, self.entries = session << SESSION_BITS, 0
        self._segments: list[dict[str, Any]] = _left_in(folder) if session else []
        self._fd, self._size = -1, 0
        self._buffer: list[bytes | memoryview] = []
        self._buffered = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        with contextlib.suppress(RuntimeError):  # without a loop, full buffers are written
            self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.sealed = False

    def connection(self) -> int:
        """Return the number of a new connection."""
        self._connections += 1
        return self._connections

    def write(self, parts: Iterable[bytes | memoryview], size: int, entries: int = 1) -> None:
        """Append entries of `size` bytes in all."""
        if self.failure or self.sealed:
            return
        self._buffer.extend(parts)
        self._buffered += size
        self.entries += entries
        if self._buffered >= BUFFER_BYTES:
            self.flush()
        elif self._timer is None and self._loop:
            self._timer = self._loop.call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        """Write what is buffered."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        data, self._buffer, self._buffered = b"".join(self._buffer), [], 0
        if not data or self.failure:
            return
        try:
            if self._fd < 0 or self._size >= self._segment_bytes:
                self._rotate()
            view = memoryview(data)
            while view:
                written = os.write(self._fd, view)
                self._size += written
                view = view[written:]
        except OSError as e:
            self.failure = f"{self._folder}: {e.strerror or e}"

    def seal(self) -> dict[str, Any]:
        """End the capture, and return what `seal.json` has. More entries are dropped."""
        if not self.sealed:
            self.flush()
            self._end_segment()
            self.sealed = True
        seal = {"segments": self._segments, "entries": self.entries, "payloads": self.payloads, "failure": self.failure}
        write_atomically(self._folder / SEAL, json.dumps(seal, indent=1))
        return seal

    def _rotate(self) -> None:
        self._end_segment()
        name = f"{len(self._segments) + 1:06}.wire"
        self._fd = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self._segments.append({"file": name})
        self._size = os.write(self._fd, MAGIC)

    def _end_segment(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._segments[-1]["bytes"] = self._size


def _left_in(folder: Path) -> list[dict[str, Any]]:
    """Return the segments that sessions before left, without the torn entry of one that was killed."""
    (folder / SEAL).unlink(missing_ok=True)
    paths = sorted(folder.glob("*.wire"))
    if paths and (whole := whole_bytes(paths[-1])) < paths[-1].stat().st_size:
        os.truncate(paths[-1], whole)
    return [{"file": path.name, "bytes": path.stat().st_size} for path in paths]


def whole_bytes(segment: Path) -> int:
    """Return the bytes of a segment up to the end of its last complete entry."""
    content, at = segment.read_bytes(), len(MAGIC)
    while at + ENTRY.size <= len(content):
        end = at + LENGTH_BYTES + int.from_bytes(content[at : at + LENGTH_BYTES], "big")
        if end > len(content):
            break
        at = end
    return min(at, len(content))


class Tape:
    """The entries of one connection."""

    def __init__(self, recorder: Recorder, front: str, broker: int, peer: str) -> None:
        self._recorder, self.id = recorder, recorder.connection()
        self._waiting: dict[int, list[Entry]] = {}
        """Frames that have arrived and not passed, in the order of arrival, by the id of their list."""
        self._note(ACCEPTED, {"front": front, "broker": broker, "peer": peer})

    def hold(self, entries: list[Entry]) -> None:
        """Keep entries that `passed` will write."""
        self._waiting[id(entries)] = entries

    def passed(self, entries: list[Entry], at_us: int) -> None:
        """Write frames that have passed."""
        self._waiting.pop(id(entries), None)
        parts: list[bytes | memoryview] = []
        size = 0
        for entry in entries:
            size += self._append(parts, entry, 0 if entry.lost else at_us)
        self._recorder.write(parts, size, len(entries))

    def close(self, by: str) -> None:
        """Write the frames that did not pass, and that the connection is closed."""
        for entries in list(self._waiting.values()):
            for entry in entries:
                entry.lost = True
            self.passed(entries, 0)
        self._note(CLOSED, {"by": by})

    def _note(self, kind: int, content: dict[str, Any]) -> None:
        data, at_us = json.dumps(content).encode(), now_us()
        size = ENTRY.size + len(data)
        head = ENTRY.pack(size - LENGTH_BYTES, kind, 0, 0, self.id, 0, at_us, at_us, -1, -1, 0, len(data))
        self._recorder.write((head, data), size)

    def _append(self, parts: list[bytes | memoryview], entry: Entry, passed_us: int) -> int:
        """Append the bytes of an entry, and return their number."""
        head, data, flags = entry.head, entry.data, entry.flags
        holes = holes_of(entry.kind, head, data, self._recorder.payloads, self._recorder.fetched)
        if holes is None:
            flags, holes, data = flags | UNKEPT, [], b""
        size = ENTRY.size + len(holes) * HOLE.size + len(data) - sum(length for _, length in holes)
        parts.append(
            ENTRY.pack(
                *(size - LENGTH_BYTES, entry.kind, flags, len(holes), self.id, entry.number, entry.seen_us),
                *(passed_us, head.api, head.version, head.correlation, head.bytes),
            )
        )
        at = 0
        if holes:
            parts.append(b"".join([HOLE.pack(*hole) for hole in holes]))
            view = memoryview(data)
            for begin, length in holes:
                parts.append(bytes(view[at:begin]))
                at = begin + length
            data = view[at:]
        if data:
            parts.append(bytes(data))
        return size


def holes_of(
    kind: int, head: Head, data: bytes | memoryview, payloads: Payloads, fetched: Payloads = "none"
) -> list[tuple[int, int]] | None:
    """Return the runs of bytes of a frame that are left out; None if the frame is not kept at all."""
    if head.api not in READ:
        return None
    try:
        if kind == REQUEST and head.api == ApiKey.Produce and payloads != "all":
            return _produce_holes(head, data, keep_unidentified=payloads == "needed")
        if kind == ANSWER and head.api == ApiKey.Fetch:
            return [] if fetched == "all" else _fetch_holes(head, data, fetched == "needed")
        if kind == ANSWER and head.api == ApiKey.ShareFetch:
            return _share_fetch_holes(data)
    except (struct.error, IndexError, ValueError):
        return None  # it may hold records that must not be kept
    return []


class _Reader:
    """The fields of a frame, one after the other. Raises `IndexError`, `struct.error` at its end."""

    __slots__ = ("at", "data", "flexible")

    def __init__(self, data: bytes | memoryview, at: int, flexible: bool) -> None:
        self.data, self.at, self.flexible = data, at, flexible

    def skip(self, size: int) -> None:
        self.at += size

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def length(self, size: int = 4) -> int:
        """Return the length of an array, text or records, which is -1 for null; `size`: bytes if not flexible."""
        if self.flexible:
            return self.varint() - 1
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "big", signed=True)

    def text(self) -> None:
        self.skip(max(0, self.length(2)))

    def tags(self) -> None:
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self.skip(self.varint())


def _produce_holes(head: Head, data: bytes | memoryview, keep_unidentified: bool) -> list[tuple[int, int]]:
    flexible = head.version >= _FLEXIBLE_PRODUCE
    r = _Reader(data, 12, False)
    r.text()  # the client id, which is never compact
    r.flexible = flexible
    r.tags()
    if head.version >= 3:
        r.text()  # the transactional id
    r.skip(6)
    holes: list[tuple[int, int]] = []
    for _ in range(r.length()):
        r.skip(16) if head.version >= _IDS else r.text()
        for _ in range(r.length()):
            r.skip(4)
            _cut_records(r, holes, keep_unidentified)
            r.tags()
        r.tags()
    return holes


def _fetch_holes(head: Head, data: bytes | memoryview, keep_unidentified: bool) -> list[tuple[int, int]]:
    version = head.version
    r = _Reader(data, 8, version >= _FLEXIBLE_FETCH)
    r.tags()
    r.skip((4 if version >= 1 else 0) + (6 if version >= 7 else 0))
    fixed = 14 + (8 if version >= 4 else 0) + (8 if version >= 5 else 0)
    aborted = 17 if r.flexible else 16  # with an empty list of tags
    holes: list[tuple[int, int]] = []
    for _ in range(r.length()):
        r.skip(16) if version >= _IDS else r.text()
        for _ in range(r.length()):
            r.skip(fixed)
            if version >= 4:
                r.skip(max(0, r.length()) * aborted)
            if version >= 11:
                r.skip(4)
            _cut_records(r, holes, keep_unidentified)
            r.tags()
        r.tags()
    return holes


def _share_fetch_holes(data: bytes | memoryview) -> list[tuple[int, int]]:
    r = _Reader(data, 8, True)
    r.tags()
    r.skip(6)
    r.text()
    r.skip(4)
    holes: list[tuple[int, int]] = []
    for _ in range(r.length()):
        r.skip(16)
        for _ in range(r.length()):
            r.skip(6)
            r.text()
            r.skip(2)
            r.text()
            r.skip(8)
            r.tags()
            _cut_records(r, holes)
            r.skip(max(0, r.length()) * 19)  # two offsets, a delivery count, and an empty list of tags
            r.tags()
        r.tags()
    return holes


def _cut_records(r: _Reader, holes: list[tuple[int, int]], keep_unidentified: bool = False) -> None:
    """Leave out the records of each batch but its header; with `keep_unidentified`, only of batches with an id."""
    size = r.length()
    at, end, data = r.at, r.at + max(0, size), r.data
    if end > len(data):
        raise ValueError("the records reach beyond the frame")
    while at + _BATCH.size <= end:
        _, length, _, magic = _BATCH.unpack_from(data, at)
        following = min(end, at + _OVERHEAD + max(0, length))
        kept = at + (_HEADER_V2 if magic >= 2 else _HEADER_OLD)
        if kept < following and not (_is_kept(data, at, magic, keep_unidentified)):
            holes.append((kept, following - kept))
        if following <= at + _OVERHEAD:
            break
        at = following
    r.at = end


def _is_kept(data: bytes | memoryview, at: int, magic: int, keep_unidentified: bool) -> bool:
    """Return whether a whole batch is kept: a marker of a transaction, or the batch of a producer without an id."""
    if magic < 2:
        return keep_unidentified
    return bool(data[at + 22] & 0x20 or (keep_unidentified and data[at + 43] & 0x80))
