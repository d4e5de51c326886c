"""Kafka's framing: the boundaries of the frames on a connection, and their headers. Nothing else is read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_REQUEST = struct.Struct(">ihhih")  # length, api key, api version, correlation id, length of the client id
_RESPONSE = struct.Struct(">ii")  # length, correlation id
LENGTH_BYTES = 4
MOST_REQUEST_BYTES = 2**28
"""Limit for the length of a request. Brokers take 100 MiB (socket.request.max.bytes). The first bytes of TLS and HTTP,
read as a length, are greater."""


class NotKafka(Exception):
    """The bytes are no Kafka frames; probably TLS."""


@dataclass(frozen=True, slots=True)
class Head:
    """The header of a frame. The header of an answer contains only the correlation id."""

    bytes: int
    """Length of the whole frame, including the length field."""
    correlation: int
    api: int = -1
    version: int = -1
    client: str = ""


def request_head(data: bytes, at: int) -> Head | None:
    """Return the header of the request that begins at an index; None if it is incomplete. Raises `NotKafka`."""
    if len(data) - at < _REQUEST.size:
        return None
    length, api, version, correlation, client_bytes = _REQUEST.unpack_from(data, at)
    if not _REQUEST.size - LENGTH_BYTES <= length <= MOST_REQUEST_BYTES or api < 0 or version < 0:
        raise NotKafka(f"a request of {length} bytes, api key {api}, version {version}")
    begin = at + _REQUEST.size
    end = begin + max(0, client_bytes)
    if end - at > length + LENGTH_BYTES:
        raise NotKafka(f"a client id of {client_bytes} bytes in a request of {length}")
    if len(data) < end:
        return None
    client = data[begin:end].decode("utf-8", errors="replace")
    return Head(length + LENGTH_BYTES, correlation, api, version, client)


def response_head(data: bytes, at: int) -> Head | None:
    """Return the header of the answer that begins at an index; None if it is incomplete. Raises `NotKafka`."""
    if len(data) - at < _RESPONSE.size:
        return None
    length, correlation = _RESPONSE.unpack_from(data, at)
    if length < _RESPONSE.size - LENGTH_BYTES:
        raise NotKafka(f"an answer of {length} bytes")
    return Head(length + LENGTH_BYTES, correlation)


@dataclass(slots=True)
class Piece:
    """A part of a frame: `begin` to `end` in the bytes that `Splitter.feed` returned with it."""

    head: Head
    begin: int
    end: int
    first: bool
    last: bool


class Splitter:
    """The frames in one direction of a connection.

    The splitter waits for complete headers only. It returns the rest of a frame in the pieces in which it arrives.
    """

    def __init__(self, head_of: Callable[[bytes, int], Head | None]) -> None:
        self._head_of = head_of
        self._carried = b""
        self._head: Head | None = None
        self._left = 0

    def feed(self, data: bytes) -> tuple[bytes, Iterator[Piece]]:
        """Return the bytes that belong to known frames, and the pieces in them. The iterator raises `NotKafka`."""
        if self._carried:
            data, self._carried = self._carried + data, b""
        return data, self._pieces(data)

    def _pieces(self, data: bytes) -> Iterator[Piece]:
        at, size = 0, len(data)
        while at < size:
            first = self._head is None
            if self._head is None:
                self._head = self._head_of(data, at)
                if self._head is None:
                    self._carried = data[at:]
                    return
                self._left = self._head.bytes
            end = min(size, at + self._left)
            self._left -= end - at
            head, last = self._head, self._left == 0
            if last:
                self._head = None
            yield Piece(head, at, end, first, last)
            at = end
