"""Cuts of the switch: the links between brokers, and between brokers and clients, that pass no data.

The first request on a connection identifies the broker that opened it, because every client inside a broker has the
broker's number in its client id. Kafka 4.3.1 and 3.9.2 use `broker-2-fetcher-0` and `broker-2-txn-marker-sender` at
the listener for other brokers, `AddPartitionsManager-client-2`, `Persister-client-2` and others there too,
`raft-client-2` in the quorum, and `2` from a broker to the active controller (heartbeats, registration, ISR changes,
forwarded requests, producer ids).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from chaos.relay.roles import Active, Book
from chaos.relay.rules import Side

Direction = Literal["both", "in", "out"]


@dataclass(frozen=True)
class Cut:
    """Dropped packets between a broker and other brokers, its clients, or both.

    `direction` is from the point of view of the broker: `in` drops what it receives, `out` what it sends.
    """

    broker: int
    others: tuple[int, ...] = ()
    clients: bool = False
    direction: Direction = "both"


CLIENTS: Final = "clients"
UNNAMED: Final = "unnamed"
Source = int | Literal["clients", "unnamed"]
"""The side that opened a connection: a broker, a client of the cluster, or unknown at a listener for brokers."""

_BROKER = re.compile(r"(?:broker-(\d+)-.+|[A-Za-z]+-client-(\d+)|(\d+))")


def identify(client: str) -> Source:
    """Return the broker that a client id names at a listener for brokers, or `UNNAMED`."""
    match = _BROKER.fullmatch(client)
    return int(next(filter(None, match.groups()))) if match else UNNAMED


def severs(cut: Cut, broker: int, source: Source, side: Side) -> bool:
    """Return whether a cut holds the requests to a broker, or its responses, on a connection that `source` opened.

    An unnamed source may be any broker in the cut. Its connection is held, because one connection that is held by
    mistake does less harm than one that passes a cut.
    """
    if source == UNNAMED:
        return any(severs(cut, broker, suspect, side) for suspect in (cut.broker, *cut.others))
    if source == CLIENTS:
        inwards = side == "request"
        return cut.clients and broker == cut.broker and cut.direction in ("both", "in" if inwards else "out")
    assert isinstance(source, int)
    sender, receiver = (source, broker) if side == "request" else (broker, source)
    if receiver == cut.broker and sender in cut.others:
        return cut.direction in ("both", "in")
    return sender == cut.broker and receiver in cut.others and cut.direction in ("both", "out")


class Cuts(Book[Cut]):
    """The cuts in force."""

    def severing(self, broker: int, source: Source, side: Side) -> list[Active[Cut]]:
        """Return the cuts that hold this direction of a connection; see `severs`."""
        return [active for active in self.active.values() if severs(active.item, broker, source, side)]
