"""One connection of a client to a broker: a pipe for requests, one for answers, and what they know together."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from chaos.relay.frames import Head, NotKafka, Piece, Splitter, request_head, response_head
from chaos.relay.half import Half
from chaos.relay.rewrite import Addresses, holds_addresses, rewritten
from chaos.relay.rules import Active, RuleBook, Side

QUEUE_BYTES = 2**20
"""So much may be held back on a connection before no more is read from its sender."""

MOST_UNANSWERED = 10_000
"""So many requests are remembered: one that wants no answer (acks=0) is forgotten at the next answer, or like this."""


@dataclass
class Front:
    """What all connections to one broker share."""

    broker: int
    host: str
    port: int
    book: RuleBook
    addresses: Addresses
    relays: set[Relay] = field(default_factory=set)
    busy_until: dict[tuple[int, Side], float] = field(default_factory=dict)
    """When the last byte is through that a link of limited bandwidth was given, by rule and direction."""

    def through_link(self, side: Side, size: int, begin: float) -> tuple[float, int]:
        """When bytes that are given to the link at `begin` come out of it, and the rule that makes it slow (or 0)."""
        slowed_by = 0
        for one in self.book.slowing(self.broker):
            one.matches += 1
            slowed_by = one.id
            if one.rule.bandwidth:
                begin = max(begin, self.busy_until.get((one.id, side), 0.0)) + size / one.rule.bandwidth
                self.busy_until[one.id, side] = begin
            begin += one.rule.latency_s / 2
        return begin, slowed_by


@dataclass
class _Held:
    release: float
    data: bytes | memoryview
    rule: int


class Pipe(Half):
    """One direction: reads from `source`, writes to the other pipe's."""

    source: asyncio.Transport
    other: Pipe

    def __init__(self, relay: Relay, side: Side, head_of: Callable[[bytes, int], Head | None]) -> None:
        super().__init__()
        self.relay, self.side = relay, side
        self._splitter = Splitter(head_of)
        self._loop = asyncio.get_running_loop()
        self._hit: Active | None = None
        self._asked: Head | None = None
        self._whole: bytearray | None = None
        self._release, self._rule = 0.0, 0
        self._queue: deque[_Held] = deque()
        self._queued_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection that it reads from is there."""
        self.source = cast(asyncio.Transport, transport)
        self.relay.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more comes; what is held back still goes out in its time."""
        self._ended = True
        if not self._queue:
            self.relay.close()

    def readable(self) -> asyncio.Transport | None:
        """Its source, until that ends."""
        return None if self._ended else self.source

    def data_received(self, data: bytes) -> None:
        """Pass on what may pass."""
        if not hasattr(self.other, "source"):  # uvloop may have read before it was told to stop
            self._early += data
            return
        try:
            self._pass_on(*self._splitter.feed(data))
        except (NotKafka, ValueError) as e:
            sys.stderr.write(f"connection to broker {self.relay.front.broker} closed: {e}\n")
            self.relay.close()

    def _pass_on(self, data: bytes, pieces: Iterator[Piece]) -> None:
        """Send on what may pass, in runs as long as they are; stop for what may not."""
        view = memoryview(data)
        begin = end = 0
        for piece in pieces:
            if piece.first and self._begin(piece.head):
                self._send(view[begin:end])
                begin = end = piece.begin
                if self._hit and self._hit.rule.act == "delay":
                    self._release, self._rule = self._loop.time() + self._hit.rule.delay_s, self._hit.id
            if self._hit and self._hit.rule.act == "cut":
                self.relay.close()
                return
            if self._hit and self._hit.rule.act == "drop":
                begin = end = piece.end
            elif self._whole is not None:
                self._whole += view[piece.begin : piece.end]
                begin = end = piece.end
                if piece.last:
                    self._send(self._rewritten(bytes(self._whole)))
            else:
                end = piece.end
        self._send(view[begin:end])

    def _begin(self, head: Head) -> bool:
        """Decide about a frame; whether it does not just pass."""
        asked: Head | None = head
        self._whole = None
        if self.side == "response":
            asked = self._asked = self.relay.asked(head.correlation)
            if asked and holds_addresses(asked.api, asked.version):
                self._whole = bytearray()
        api, client = (asked.api, asked.client) if asked else (-1, "")
        self._hit = self.relay.front.book.hit(self.relay.front.broker, self.side, api, client)
        if self.side == "request" and (self._hit is None or self._hit.rule.act == "delay"):
            self.relay.unanswered.append(head)
        return self._hit is not None or self._whole is not None

    def _rewritten(self, frame: bytes) -> bytes:
        assert self._asked is not None
        return rewritten(frame, self._asked.api, self._asked.version, self.relay.front.addresses)

    def _send(self, data: bytes | memoryview) -> None:
        """Pass bytes on: at once, or when what holds them lets them go."""
        if not data:
            return
        now = self._loop.time()
        release, rule = self._release, self._rule
        if self.relay.front.book.slowing(self.relay.front.broker):
            release, rule = self.relay.front.through_link(self.side, len(data), max(now, release))
        if release <= now and not self._queue:
            self.other.source.write(data)
            return
        self._queue.append(_Held(release, data, rule))
        self._queued_bytes += len(data)
        if self._queued_bytes > QUEUE_BYTES:
            self.stop_reading("much is held back")
        self._drain()

    def broker_is_there(self) -> None:
        """The other end is connected: pass on what the client could not wait to send."""
        early, self._early = self._early, b""
        if early:
            self.data_received(early)
        self.go_on_reading("the broker is not there yet")

    def let_go(self, rule: int) -> None:
        """A rule is no more: what it holds may pass."""
        if self._rule == rule:
            self._release, self._rule = 0.0, 0
        for held in self._queue:
            if held.rule == rule:
                held.release = 0.0
        self._drain()

    def _drain(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        now = self._loop.time()
        while self._queue and self._queue[0].release <= now:
            held = self._queue.popleft()
            self._queued_bytes -= len(held.data)
            if not self.other.source.is_closing():
                self.other.source.write(held.data)
        if self._queued_bytes <= QUEUE_BYTES:
            self.go_on_reading("much is held back")
        if self._queue:
            self._timer = self._loop.call_at(self._queue[0].release, self._drain)
        elif self._ended:
            self.relay.close()

    def forget(self) -> None:
        """Whoever was to get what is held back is gone."""
        self._queue.clear()
        self._queued_bytes = 0
        if self._timer:
            self._timer.cancel()
            self._timer = None


class Relay:
    """A client's connection, and the one to the broker that was made for it."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.unanswered: deque[Head] = deque(maxlen=MOST_UNANSWERED)
        self.requests = Pipe(self, "request", request_head)
        self.responses = Pipe(self, "response", response_head)
        self.requests.other, self.responses.other = self.responses, self.requests
        self._connecting: asyncio.Task[None] | None = None

    def connected(self, pipe: Pipe) -> None:
        """One end is there: the client's first."""
        if pipe is self.responses:
            self.requests.broker_is_there()
            return
        self.front.relays.add(self)
        self.requests.stop_reading("the broker is not there yet")
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.responses, self.front.host, self.front.port)
        except OSError:
            self.requests.source.abort()  # a reset: as near as one comes to a connection that is refused
            return
        if self.requests.source.is_closing():
            self.responses.source.abort()

    def asked(self, correlation: int) -> Head | None:
        """The request that this answers. Brokers answer in order, and leave out what wants no answer (acks=0)."""
        while self.unanswered:
            head = self.unanswered.popleft()
            if head.correlation == correlation:
                return head
        return None

    def close(self) -> None:
        """End both connections, after what was passed on already."""
        self.front.relays.discard(self)
        for pipe in (self.requests, self.responses):
            pipe.forget()
            if (source := getattr(pipe, "source", None)) is not None:
                source.close()

    def let_go(self, rule: int) -> None:
        """A rule is no more."""
        self.requests.let_go(rule)
        self.responses.let_go(rule)
