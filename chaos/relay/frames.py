"""Kafka's framing: where a frame begins, how long it is, and what its header says; nothing further is looked at."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_REQUEST = struct.Struct(">ihhih")  # length, api key, api version, correlation id, length of the client id
_RESPONSE = struct.Struct(">ii")  # length, correlation id
LENGTH_BYTES = 4
MOST_REQUEST_BYTES = 2**28
"""Brokers take 100 MiB (socket.request.max.bytes); the first bytes of TLS or HTTP, read as a length, are above this."""


class NotKafka(Exception):
    """The bytes are no frames of Kafka's: TLS, most likely."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a frame's header says. Of an answer only the correlation id is known from itself."""

    bytes: int
    """The length of the whole frame, its length field included."""
    correlation: int
    api: int = -1
    version: int = -1
    client: str = ""


def request_head(data: bytes, at: int) -> Head | None:
    """The header of the request that begins there; None if not all of it is there yet. Raises `NotKafka`."""
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
    """The header of the answer that begins there; None if not all of it is there yet. Raises `NotKafka`."""
    if len(data) - at < _RESPONSE.size:
        return None
    length, correlation = _RESPONSE.unpack_from(data, at)
    if length < _RESPONSE.size - LENGTH_BYTES:
        raise NotKafka(f"an answer of {length} bytes")
    return Head(length + LENGTH_BYTES, correlation)


@dataclass(slots=True)
class Piece:
    """A part of a frame, `begin` to `end` of the bytes that `Splitter.feed` returned with it."""

    head: Head
    begin: int
    end: int
    first: bool
    last: bool


class Splitter:
    """Cuts one direction of a connection into frames, however its bytes arrive.

    Only a header is waited for; the rest of a frame is given on in the parts in which it comes.
    """

    def __init__(self, head_of: Callable[[bytes, int], Head | None]) -> None:
        self._head_of = head_of
        self._carried = b""
        self._head: Head | None = None
        self._left = 0

    def feed(self, data: bytes) -> tuple[bytes, Iterator[Piece]]:
        """The bytes that can be told now, and the parts of frames in them. Raises `NotKafka` while iterating."""
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
