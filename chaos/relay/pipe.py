"""Connections through the relay: two pipes, one for each direction, with a queue for the data that may not pass yet."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from chaos.relay.roles import Listener
from chaos.relay.rules import Side

QUEUE_BYTES = 2**20
"""Bytes that a pipe queues, or that its receiver has not taken yet, before the pipe stops reading."""
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER without a time


@dataclass
class Port:
    """A port of the relay, and the listener of the broker behind it."""

    broker: int
    listener: Listener
    host: str
    port: int
    front: str = ""
    """The instance that connects here; empty for all others."""
    opened: int = 0
    """The connections that were accepted so far."""
    connections: set[Connection] = field(default_factory=set)
    clients: set[str] = field(default_factory=set)
    """Client ids of brokers that connected."""
    refused: Callable[[], None] = lambda: None
    """Called when the broker refuses a connection."""
    fetches: Counter[str] = field(default_factory=Counter)
    """Fetch requests by client id, if the proxy is in front of the broker."""
    tls: ssl.SSLContext | None = None
    """Encrypts the connections to the broker; None: they are in the clear, or what passes is encrypted already."""


@dataclass(slots=True)
class _Held:
    """Queued data, which passes at `release` (event loop time) or when the rule with the id `rule` is removed."""

    release: float
    data: bytes | memoryview
    rule: int
    then: Callable[[], None] | None = None
    """Called when the data has passed."""


class Pipe(asyncio.Protocol):
    """One direction of a connection. It reads from `source` and writes to the source of the opposite pipe."""

    opposite: Pipe

    def __init__(self, connection: Connection, side: Side) -> None:
        self.side: Side = side
        self.source: asyncio.Transport | None = None
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._ended = False
        self._blocked = False
        self._queue: deque[_Held] = deque()
        self._queued_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._paused_by: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the source."""
        self.source = cast(asyncio.Transport, transport)
        self.source.set_write_buffer_limits(QUEUE_BYTES)
        if self._paused_by:
            self.source.pause_reading()
        self._connection.connected(self)

    def data_received(self, data: bytes) -> None:
        """Let the policy decide about the data."""
        self._connection.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection, but after everything that this pipe still holds for the broker or the client."""
        self._ended = True
        self._connection.ended_by = self._connection.ended_by or ("client" if self.side == "request" else "broker")
        if not self._connection.connecting or not (self._blocked or self._queue):
            self._connection.close()

    def send(self, data: bytes | memoryview, release: float = 0.0, rule: int = 0) -> None:
        """Write data to the receiver: at `release` (event loop time), and behind everything that is queued."""
        receiver = self.opposite.source
        if receiver and not self._queue and not self._blocked and (not release or release <= self._loop.time()):
            if not receiver.is_closing():
                receiver.write(data)
            return
        self._queue.append(_Held(release, data, rule))
        self._queued_bytes += len(data)
        if self._queued_bytes > QUEUE_BYTES:
            self._pause_reading("queue")
        self.drain()

    def after(self, then: Callable[[], None]) -> None:
        """Call a function as soon as everything that was sent so far has passed."""
        if self._queue:
            self._queue.append(_Held(0.0, b"", 0, then))
        else:
            then()

    def block(self) -> None:
        """Queue everything until `unblock`."""
        self._blocked = True

    def unblock(self) -> None:
        """Write what is queued, and everything from now on."""
        self._blocked = False
        self.drain()

    def release(self, rule: int) -> bool:
        """Write what a rule holds. Returns whether there was anything."""
        found = [held for held in self._queue if held.rule == rule]
        for held in found:
            held.release = 0.0
        self.drain()
        return bool(found)

    def holds(self, rule: int) -> bool:
        """Return whether the pipe holds something for a rule."""
        return any(held.rule == rule for held in self._queue)

    def drain(self) -> None:
        """Write the queued data that may pass now. Close the connection behind the last data of an ended source."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        receiver, now = self.opposite.source, self._loop.time()
        if self._blocked or receiver is None:
            return
        while self._queue and self._queue[0].release <= now:
            held = self._queue.popleft()
            self._queued_bytes -= len(held.data)
            if held.then:
                held.then()
            elif not receiver.is_closing():
                receiver.write(held.data)
                if self._ended and held.rule:
                    self._connection.outlived(self, held.rule)
        if self._queued_bytes <= QUEUE_BYTES:
            self._resume_reading("queue")
        if self._queue:
            self._timer = self._loop.call_at(self._queue[0].release, self.drain)
        elif self._ended:
            self._connection.drained(self)

    @property
    def passes(self) -> bool:
        """Whether everything that was sent has passed."""
        return not self._queue

    def queued(self) -> list[bytes | memoryview]:
        """Return the queued pieces of data."""
        return [held.data for held in self._queue]

    def discard(self) -> None:
        """Empty the queue: there is no receiver any more."""
        self._queue.clear()
        self._queued_bytes = 0
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def pause_writing(self) -> None:
        """Stop reading what is written to this source, which takes it too slowly."""
        self.opposite._pause_reading("receiver")

    def resume_writing(self) -> None:
        """Read again what is written to this source."""
        self.opposite._resume_reading("receiver")

    def _pause_reading(self, reason: str) -> None:
        if not self._paused_by and self.source is not None and not self._ended:
            self.source.pause_reading()
        self._paused_by.add(reason)

    def _resume_reading(self, reason: str) -> None:
        if reason not in self._paused_by:
            return
        self._paused_by.discard(reason)
        if not self._paused_by and self.source is not None and not self._ended and not self.source.is_closing():
            self.source.resume_reading()


class Connection:
    """An accepted connection, and the connection to the broker. Subclasses are the policies."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.requests, self.responses = Pipe(self, "request"), Pipe(self, "response")
        self.requests.opposite, self.responses.opposite = self.responses, self.requests
        self.connecting: asyncio.Task[None] | None = None
        """The task that connects to the broker, from its start on."""
        self.ended_by = ""
        """The side that closed first: client or broker; empty if the relay closes."""
        self._closed = False

    def accepted(self) -> None:
        """Decide whether to `connect` to the broker now."""
        raise NotImplementedError

    def received(self, pipe: Pipe, data: bytes) -> None:
        """Decide about data from one side."""
        raise NotImplementedError

    def apply(self, removed: int | None) -> None:
        """Apply a change of the rules or cuts in force. `removed` is the id of the one that ended, if any."""
        raise NotImplementedError

    def lose(self, rule: int) -> None:
        """Lose what a rule holds on the connection."""

    def outlived(self, pipe: Pipe, rule: int) -> None:
        """Note that data which a rule held was passed on after its sender had closed the connection."""

    def drained(self, pipe: Pipe) -> None:
        """Continue when everything has passed that a side sent before it closed the connection."""
        self.close()

    def connected(self, pipe: Pipe) -> None:
        """Continue when a side is connected; the client's is the first."""
        if pipe is self.requests:
            self.port.connections.add(self)
            self.accepted()
        elif self._closed:
            cast(asyncio.Transport, pipe.source).abort()
        else:
            self.responses.drain()
            self.requests.drain()

    def connect(self) -> None:
        """Connect to the broker."""
        self.connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        port, loop = self.port, asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self.responses, port.host, port.port, ssl=port.tls)
        except OSError as e:
            self.close(reset=True)  # the client is connected already: a reset is nearest to a refused connection
            if isinstance(e, ssl.SSLError):  # the broker accepts connections
                sys.stderr.write(f"broker {port.broker}: the TLS handshake failed: {e}\n")
            else:
                port.refused()

    def close(self, reset: bool = False) -> None:
        """Close both sides behind what is written already, or reset them."""
        self._closed = True
        self.port.connections.discard(self)
        for pipe in (self.requests, self.responses):
            pipe.discard()
            if pipe.source is not None and reset:
                pipe.source.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                pipe.source.abort()
            elif pipe.source is not None:
                pipe.source.close()
