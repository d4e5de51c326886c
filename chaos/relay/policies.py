"""The two policies of the relay: rules for the frames of clients, and cuts for whole connections."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.relay.capture import Recorder
from chaos.relay.contents import TopicIds
from chaos.relay.cuts import CLIENTS, UNNAMED, Cut, Cuts, Source, identify
from chaos.relay.frames import NotKafka, request_head
from chaos.relay.pipe import Connection, Pipe, Port
from chaos.relay.rewrite import Addresses
from chaos.relay.roles import Active, Address, Book, Endpoints, Role
from chaos.relay.ruled import RuledConnection
from chaos.relay.rules import Rule, RuleBook, Side


@dataclass
class Policy:
    """The rules or cuts in force, and the connections that apply them."""

    book: Book[Any]
    parse: Callable[[dict[str, Any]], Rule | Cut]
    """Read a rule or cut from an order. Raises `TypeError`, `ValueError`, `KeyError`."""
    open: Callable[[Port], Connection]
    """Make a connection for a client that connects to a port."""
    learn: Callable[[Address], None] = lambda address: None
    """Take the address of a broker that was not known when the policy was made."""


Fronts = Mapping[str, Mapping[int, Address]]
"""The proxy's own address for each broker, by the name of the instance that connects there (empty: all others)."""


def rules(brokers: Endpoints, fronts: Fronts, sessions: bool, recorder: Recorder | None) -> Policy:
    """Return the policy of the proxy, given the addresses of the brokers and its own.

    sessions: whether it reads every Fetch request for its partitions. recorder: writes down what passes the fronts.
    """
    hosts = {host.encode() for listeners in brokers.values() for host, _ in listeners.values()}
    book, ids = RuleBook(sessions=sessions), TopicIds()

    def opened(port: Port) -> Connection:
        addresses = Addresses(fronts[port.front], hosts, ids)
        return RuledConnection(port, book, addresses, recorder if port.front else None)

    return Policy(book, Rule.parse, opened, lambda address: hosts.add(address[0].encode()))


def cuts(brokers: Endpoints, fronts: Fronts, sessions: bool = False, recorder: Recorder | None = None) -> Policy:
    """Return the policy of the switch."""
    book = Cuts()
    parse = lambda item: Cut(**{**item, "others": tuple(item["others"])})  # noqa: E731
    return Policy(book, parse, lambda port: CutConnection(port, book))


POLICIES: dict[Role, Callable[[Endpoints, Fronts, bool, Recorder | None], Policy]] = {"proxy": rules, "switch": cuts}


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
