"""The two policies of the relay: rules for the frames of clients, and cuts for whole connections."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from chaos.relay.cuts import CLIENTS, UNNAMED, Cut, Cuts, Source, identify
from chaos.relay.frames import Head, NotKafka, Piece, Splitter, request_head, response_head
from chaos.relay.pipe import Connection, Pipe, Port
from chaos.relay.rewrite import Addresses, holds_addresses, rewritten
from chaos.relay.roles import Active, Book, Endpoints, Role
from chaos.relay.rules import Rule, RuleBook, Side

FETCH = 1
"""API key of Fetch."""
MOST_UNANSWERED = 10_000
"""Requests that a connection remembers. One with acks=0 gets no answer; the next answer or this limit drops it."""


@dataclass
class Policy:
    """The rules or cuts in force, and the connections that apply them."""

    book: Book[Any]
    parse: Callable[[dict[str, Any]], Rule | Cut]
    """Read a rule or cut from an order. Raises `TypeError`, `ValueError`, `KeyError`."""
    open: Callable[[Port], Connection]
    """Make a connection for a client that connects to a port."""


def rules(brokers: Endpoints, own: Endpoints) -> Policy:
    """Return the policy of the proxy, given the addresses of the brokers and its own."""
    hosts = frozenset(host.encode() for listeners in brokers.values() for host, _ in listeners.values())
    addresses = Addresses({broker: listeners["clients"] for broker, listeners in own.items()}, hosts)
    book = RuleBook()
    parse = lambda item: Rule(**{**item, "brokers": tuple(item["brokers"])})  # noqa: E731
    return Policy(book, parse, lambda port: RuledConnection(port, book, addresses))


def cuts(brokers: Endpoints, own: Endpoints) -> Policy:
    """Return the policy of the switch."""
    book = Cuts()
    parse = lambda item: Cut(**{**item, "others": tuple(item["others"])})  # noqa: E731
    return Policy(book, parse, lambda port: CutConnection(port, book))


POLICIES: dict[Role, Callable[[Endpoints, Endpoints], Policy]] = {"proxy": rules, "switch": cuts}


class RuledConnection(Connection):
    """A connection of a client to a broker through the proxy."""

    def __init__(self, port: Port, book: RuleBook, addresses: Addresses) -> None:
        super().__init__(port)
        self.book, self.addresses = book, addresses
        self.unanswered: deque[Head] = deque(maxlen=MOST_UNANSWERED)
        self._filters = {
            self.requests: _FrameFilter(self, self.requests, request_head),
            self.responses: _FrameFilter(self, self.responses, response_head),
        }

    def accepted(self) -> None:
        """Connect to the broker."""
        self.connect()

    def received(self, pipe: Pipe, data: bytes) -> None:
        """Apply the rules to the frames in the data."""
        try:
            self._filters[pipe].feed(data)
        except (NotKafka, ValueError) as e:
            sys.stderr.write(f"connection to broker {self.port.broker} closed: {e}\n")
            self.close()

    def apply(self, removed: int | None) -> None:
        """Let the frames pass that a removed rule holds."""
        if removed is not None:
            for frames in self._filters.values():
                frames.release(removed)

    def request_of(self, correlation: int) -> Head | None:
        """Return the request of an answer. Brokers answer in order, and do not answer requests with acks=0."""
        while self.unanswered:
            head = self.unanswered.popleft()
            if head.correlation == correlation:
                return head
        return None


class _FrameFilter:
    """The rules, applied to the frames of one pipe."""

    def __init__(self, connection: RuledConnection, pipe: Pipe, head_of: Callable[[bytes, int], Head | None]) -> None:
        self._connection, self._pipe, self._book = connection, pipe, connection.book
        self._broker, self._side = connection.port.broker, pipe.side
        self._splitter = Splitter(head_of)
        self._hit: Active[Rule] | None = None
        self._request: Head | None = None
        self._answer: bytearray | None = None
        """The answer to rewrite, as far as it has arrived."""
        self._release, self._rule = 0.0, 0
        """End of the latest delay, and the rule that delays."""

    def feed(self, data: bytes) -> None:
        """Apply the rules to the frames in the data. Raises `NotKafka`, and `ValueError` for an unknown answer."""
        self._filter(*self._splitter.feed(data))

    def release(self, rule: int) -> None:
        """Let everything pass that a rule holds."""
        if self._rule == rule:
            self._release, self._rule = 0.0, 0
        self._pipe.release(rule)

    def _filter(self, data: bytes, pieces: Iterator[Piece]) -> None:
        """Send the data in runs as long as possible, interrupted only where a frame may not pass as it is."""
        view = memoryview(data)
        begin = end = 0
        for piece in pieces:
            if piece.first and not self._passes(piece.head):
                self._send(view[begin:end])
                begin = end = piece.begin
                if self._hit and self._hit.item.act == "delay":
                    self._release = asyncio.get_running_loop().time() + self._hit.item.delay_s
                    self._rule = self._hit.id
            if self._hit and self._hit.item.act == "cut":
                self._connection.close()
                return
            if self._hit and self._hit.item.act == "drop":
                begin = end = piece.end
            elif self._answer is not None:
                self._answer += view[piece.begin : piece.end]
                begin = end = piece.end
                if piece.last:
                    self._send(self._rewritten(bytes(self._answer)))
            else:
                end = piece.end
        self._send(view[begin:end])

    def _passes(self, head: Head) -> bool:
        """Decide about a frame. Returns whether it passes as it is."""
        request: Head | None = head
        self._answer = None
        if self._side == "response":
            request = self._request = self._connection.request_of(head.correlation)
            if request and holds_addresses(request.api, request.version):
                self._answer = bytearray()
        api, client = (request.api, request.client) if request else (-1, "")
        self._hit = self._book.hit(self._broker, self._side, api, client)
        if self._side == "request" and head.api == FETCH:
            self._connection.port.fetches[head.client] += 1
        if self._side == "request" and (self._hit is None or self._hit.item.act == "delay"):
            self._connection.unanswered.append(head)
        return self._hit is None and self._answer is None

    def _rewritten(self, frame: bytes) -> bytes:
        assert self._request is not None
        return rewritten(frame, self._request.api, self._request.version, self._connection.addresses)

    def _send(self, data: bytes | memoryview) -> None:
        """Send data over the link, behind the delay of this pipe."""
        if not data:
            return
        release, rule = self._release, self._rule
        if self._book.active:
            begin = max(release, asyncio.get_running_loop().time())
            release, slowed_by = self._book.transit(self._broker, self._side, len(data), begin)
            rule = slowed_by or rule
        self._pipe.send(data, release, rule)


class CutConnection(Connection):
    """A connection to a broker through the switch. Clients need no identification; brokers name themselves."""

    def __init__(self, port: Port, cuts: Cuts) -> None:
        super().__init__(port)
        self._cuts = cuts
        self._source: Source | None = CLIENTS if port.listener == "clients" else None
        self._severing: dict[Side, list[Active[Cut]]] = {"request": [], "response": []}

    def accepted(self) -> None:
        """Connect a client, if no cut forbids it. A broker has to name itself first."""
        self.apply(None)

    def received(self, pipe: Pipe, data: bytes) -> None:
        """Pass the data on, or hold it."""
        pipe.send(data)
        for active in self._severing[pipe.side]:
            active.hits += 1
        if self._source is None and pipe is self.requests:
            self._identify(b"".join(pipe.queued()))

    def _identify(self, data: bytes) -> None:
        """Identify the broker that connects, as soon as the header of its first request is complete."""
        where = f"{self.port.listener} of broker {self.port.broker}"
        try:
            head = request_head(data, 0)
        except NotKafka as e:
            sys.stderr.write(f"connection to {where} closed: {e}\n")
            self.close()
            return
        if head is None:
            return
        self._source = identify(head.client)
        self.port.clients.add(head.client)
        if self._source == UNNAMED:
            sys.stderr.write(f"{head.client!r} at {where} names no broker: every cut of that broker holds it\n")
        self.apply(None)

    def apply(self, removed: int | None) -> None:
        """Hold or pass each direction. A new connection needs both, for its handshake."""
        if self._source is None:
            return
        requests = self._cuts.severing(self.port.broker, self._source, "request")
        responses = self._cuts.severing(self.port.broker, self._source, "response")
        if not self.connecting:
            requests = responses = [*requests, *(active for active in responses if active not in requests)]
            if not requests:
                self.connect()
        self._hold(self.requests, requests)
        self._hold(self.responses, responses)

    def _hold(self, pipe: Pipe, severing: list[Active[Cut]]) -> None:
        if severing and not self._severing[pipe.side]:
            for active in severing:
                active.hits += len(pipe.queued())
        self._severing[pipe.side] = severing
        if severing:
            pipe.block()
        else:
            pipe.unblock()
