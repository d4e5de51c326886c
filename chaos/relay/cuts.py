"""The links between brokers, and between them and their clients: who is at their ends, and which are cut. Pure.

A connection says who made it in the first request on it: each client inside a broker puts the broker's number in its
client id. As seen with Kafka 4.3.1 and 3.9.2: `broker-2-fetcher-0` and `broker-2-txn-marker-sender` at other brokers'
listener, `AddPartitionsManager-client-2`, `Persister-client-2` and others there too; `raft-client-2` in the quorum; and
just `2` from a broker to the active controller (heartbeats, registration, changes of an ISR, requests of clients that
it forwards, new producer ids).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from chaos.relay.rules import Side

Direction = Literal["both", "in", "out"]


@dataclass(frozen=True)
class Cut:
    """Packets that are dropped at a broker: between it and other brokers, its clients, or both.

    `direction` is as the broker sees it: `in` drops what comes to it, `out` what it sends.
    """

    broker: int
    others: tuple[int, ...] = ()
    clients: bool = False
    direction: Direction = "both"


Listener = Literal["clients", "peers", "quorum"]
LISTENERS: tuple[Listener, ...] = ("clients", "peers", "quorum")

CLIENTS: Final = "clients"
UNNAMED: Final = "unnamed"
Source = int | Literal["clients", "unnamed"]
"""Who made a connection: a broker, a client of the cluster's, or somebody at a brokers' listener who does not say."""

_BROKER = re.compile(r"(?:broker-(\d+)-.+|[A-Za-z]+-client-(\d+)|(\d+))")


def named(client: str) -> Source:
    """The broker that a client id of the brokers' own clients names."""
    match = _BROKER.fullmatch(client)
    return int(next(filter(None, match.groups()))) if match else UNNAMED


def severs(cut: Cut, broker: int, source: Source, side: Side) -> bool:
    """Whether a cut is in the way of what goes to (`request`) or comes from a broker on a connection made by `source`.

    Who does not say who it is, may be anybody that the cut parts from this broker: better one that is held wrongly than
    one that passes wrongly.
    """
    if source == UNNAMED:
        return any(severs(cut, broker, one, side) for one in (cut.broker, *cut.others))
    if source == CLIENTS:
        inwards = side == "request"
        return cut.clients and broker == cut.broker and cut.direction in ("both", "in" if inwards else "out")
    assert isinstance(source, int)
    sender, receiver = (source, broker) if side == "request" else (broker, source)
    if receiver == cut.broker and sender in cut.others:
        return cut.direction in ("both", "in")
    return sender == cut.broker and receiver in cut.others and cut.direction in ("both", "out")


@dataclass
class Active:
    """A cut that is in force, and how many pieces of data it has held back."""

    id: int
    cut: Cut
    held: int = 0


@dataclass
class Cuts:
    """All cuts in force."""

    active: dict[int, Active] = field(default_factory=dict)
    _last_id: int = 0

    def add(self, cut: Cut) -> Active:
        """Put a cut in force."""
        self._last_id += 1
        self.active[self._last_id] = Active(self._last_id, cut)
        return self.active[self._last_id]

    def remove(self, cut_id: int) -> bool:
        """Take it out of force; whether it was in force."""
        return self.active.pop(cut_id, None) is not None

    def severing(self, broker: int, source: Source, side: Side) -> list[Active]:
        """Those that are in the way; empty where all may pass."""
        return [one for one in self.active.values() if severs(one.cut, broker, source, side)]
