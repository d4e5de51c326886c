"""One connection through the switch: it passes on whatever comes, or holds it while a cut is in the way.

Nothing but the first header of a connection is ever read, and of connections of clients not even that.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from chaos.relay.cuts import CLIENTS, UNNAMED, Active, Cuts, Listener, Source, named
from chaos.relay.frames import NotKafka, request_head
from chaos.relay.half import Half
from chaos.relay.rules import Side

WAITING_BYTES = 2**20
"""So much may wait, for a slow receiver or for the end of a cut, before no more is read."""


@dataclass
class Port:
    """What all connections to one listener of a broker share."""

    broker: int
    listener: Listener
    host: str
    port: int
    cuts: Cuts
    through: set[Through] = field(default_factory=set)
    clients: set[str] = field(default_factory=set)
    """The client ids that were seen."""


class Way(Half):
    """One direction: reads from `source`, writes to the other way's."""

    other: Way

    def __init__(self, through: Through, side: Side) -> None:
        super().__init__()
        self._through = through
        self.side: Side = side
        self.source: asyncio.Transport | None = None
        self._write: Callable[[bytes], None] | None = None
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._cuts: Sequence[Active] = ()
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection that it reads from is there."""
        self.source = cast(asyncio.Transport, transport)
        self.source.set_write_buffer_limits(WAITING_BYTES)
        if self._stopped_for:
            self.source.pause_reading()
        self._through.connected(self)

    def data_received(self, data: bytes) -> None:
        """Pass it on, if it may pass."""
        if self._write is not None:
            self._write(data)
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > WAITING_BYTES:
            self.stop_reading("much waits")
        for one in self._cuts:
            one.held += 1
        self._through.heard(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Its end is news too, and comes as late as what was sent before it."""
        self.ended = True
        if not self._through.made or not (self._cuts or self._waiting):
            self._through.close()

    def readable(self) -> asyncio.Transport | None:
        """Its source, until that ends."""
        return None if self.ended else self.source

    def first(self) -> bytes:
        """All that came and waits."""
        return b"".join(self._waiting)

    def hold(self, cuts: Sequence[Active]) -> None:
        """Pass nothing on while there is a cut; pass on what waits where there is none."""
        if cuts and not self._cuts:
            for one in cuts if self._waiting else ():
                one.held += len(self._waiting)
        self._cuts = cuts
        if cuts:
            self._write = None
        else:
            self.pass_on()

    def pass_on(self) -> None:
        """Pass on what waits, as soon as its receiver is there; whatever comes then goes straight through."""
        receiver = self.other.source
        if self._cuts or receiver is None or self._write is not None:
            return
        while self._waiting:
            data = self._waiting.popleft()
            if not receiver.is_closing():
                receiver.write(data)
        self._waiting_bytes = 0
        self._write = receiver.write
        self.go_on_reading("much waits")
        if self.ended:
            self._through.close()


class Through:
    """A connection to a broker's listener, and the one to the broker itself that was made for it."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.requests, self.responses = Way(self, "request"), Way(self, "response")
        self.requests.other, self.responses.other = self.responses, self.requests
        self._source: Source | None = CLIENTS if port.listener == "clients" else None
        self.made = False
        """Whether it came about: the broker is connected to, or about to be."""
        self._connecting: asyncio.Task[None] | None = None

    def connected(self, way: Way) -> None:
        """One end is there: the one that connects first."""
        if way is self.requests:
            self.port.through.add(self)
            self.judge()
        else:
            self.responses.pass_on()
            self.requests.pass_on()

    def heard(self, way: Way) -> None:
        """Something came that cannot go straight through. The first bytes of a broker's connection say whose it is."""
        if self._source is None and way is self.requests:
            try:
                head = request_head(way.first(), 0)
            except NotKafka as e:
                sys.stderr.write(f"connection to {self.port.listener} of broker {self.port.broker} closed: {e}\n")
                self.close()
                return
            if head is None:
                return
            self._source = named(head.client)
            self.port.clients.add(head.client)
            if self._source == UNNAMED:
                words = f"{head.client!r} at {self.port.listener} of broker {self.port.broker} names no broker"
                sys.stderr.write(f"{words}: it is held as long as anybody is cut off from there\n")
            self.judge()

    def judge(self) -> None:
        """Hold or pass, by the cuts that are in force now.

        A new connection needs both directions, for its handshake: while one of them is cut, none comes about.
        """
        if self._source is None:
            return
        cuts, broker = self.port.cuts, self.port.broker
        there = cuts.severing(broker, self._source, "request")
        back = cuts.severing(broker, self._source, "response")
        if not self.made:
            there = back = [*there, *(one for one in back if one not in there)]
        if not self.made and not there:
            self.made = True
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        self.requests.hold(there)
        self.responses.hold(back)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        source = self.requests.source
        assert source is not None
        try:
            await loop.create_connection(lambda: self.responses, self.port.host, self.port.port)
        except OSError:
            self.port.through.discard(self)
            source.abort()  # a reset: as near as one comes to a connection that is refused
            return
        if source.is_closing() and self.responses.source is not None:
            self.responses.source.abort()

    def close(self) -> None:
        """End both connections, after what was passed on already."""
        self.port.through.discard(self)
        for way in (self.requests, self.responses):
            if way.source is not None:
                way.source.close()
