"""The addresses of the nodes of a cluster, and the settings with which they find the KRaft quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.kafka.settings import Scalar
from chaos.processes.ports import HOST

FIRST_CONTROLLER = 101
"""Node ID of the first dedicated controller of a started cluster; the brokers are numbered from 1."""
LISTENER = "CONTROLLER"
"""The name of the listener of controllers."""


@dataclass(frozen=True)
class BrokerEndpoints:
    """The addresses of one broker: `host` and `port` for clients, `controller` for the quorum, `peers` for brokers.

    `controller` and `peers` are `host:port`. `controller` is empty if the broker is no controller. Without `peers`,
    brokers use the clients' listener. `bind` is the address that the broker binds for clients. If a switch is in front
    of the broker, `behind` maps the name of each listener to the address that the broker really binds.
    """

    host: str
    port: int
    controller: str
    peers: str | None = None
    bind: str = HOST
    behind: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ControllerEndpoints:
    """The addresses of one dedicated controller: `host` and `port` for the platform, `quorum` for all other nodes.

    `quorum` and `bind` are `host:port`; the controller binds `bind`.
    """

    host: str
    port: int
    quorum: str
    bind: str


def on_this_host(
    ports: Sequence[int], controller_ports: Sequence[int] = (), peer_ports: Sequence[int] = ()
) -> list[BrokerEndpoints]:
    """Return the endpoints of brokers on the loopback address of this machine, by node ID from 1."""
    controllers = [f"{HOST}:{port}" for port in controller_ports] or [""] * len(ports)
    peers: list[str | None] = [f"{HOST}:{port}" for port in peer_ports]
    peers = peers or [None] * len(ports)
    together = zip(ports, controllers, peers, strict=True)
    return [BrokerEndpoints(HOST, port, controller, between) for port, controller, between in together]


def combined_settings(broker: int, endpoints: Sequence[BrokerEndpoints]) -> dict[str, Scalar]:
    """Return the settings that make a broker a controller too."""
    voters = (f"{i}@{e.controller}" for i, e in enumerate(endpoints, start=1))
    return {"process.roles": "broker,controller", "node.id": broker, **_quorum_of("voters", voters)}


def quorum_settings(controllers: Mapping[int, ControllerEndpoints], dynamic: bool = False) -> dict[str, Scalar]:
    """Return the settings with which a node finds the dedicated controllers.

    dynamic: the voters are in the metadata log, and the settings only name nodes to ask (KIP-853).
    """
    if dynamic:
        return _quorum_of("bootstrap.servers", (at.quorum for at in controllers.values()))
    return _quorum_of("voters", (f"{node}@{at.quorum}" for node, at in controllers.items()))


def _quorum_of(setting: str, nodes: Iterable[str]) -> dict[str, Scalar]:
    return {f"controller.quorum.{setting}": ",".join(nodes), "controller.listener.names": LISTENER}
