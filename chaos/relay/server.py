"""The process of the relay: a port for each listener of each broker, and the control socket.

    python -m chaos.relay.server RUN_DIR ROLE '{"1": {"clients": ["127.0.0.1", 19092]}, …}' [sessions] [PAYLOADS] [TLS]
        [SESSION]

With `sessions`, the proxy reads every Fetch request, so that rules can select them by topic. With `none`, `needed` or
`all`, it captures what passes its fronts, with that much of the records (see `chaos.relay.capture`). TLS is an
`Encryption` in JSON. SESSION: number of the capture's session, from 0; each but the first goes on with the segments.
When it is ready, it writes its own addresses: `switch.json` in the same form, `proxy.json` as `{"1": [HOST, PORT], …}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast, get_args

import uvloop

from chaos.processes.ports import HOST
from chaos.relay.capture import FOLDER, Recorder
from chaos.relay.pipe import Port
from chaos.relay.policies import POLICIES
from chaos.relay.roles import (
    Active,
    Address,
    Encryption,
    Endpoints,
    Listener,
    Payloads,
    Role,
    address_name,
    socket_name,
)
from chaos.run.directory import write_atomically

BACKLOG = 512
REOPEN_S = 0.05
"""Interval at which a broker that refuses connections is tried again."""


class Server:
    """The ports of a relay, with the rules or cuts that its control connections add."""

    def __init__(
        self,
        role: Role,
        brokers: Endpoints,
        sessions: bool = False,
        recorder: Recorder | None = None,
        encryption: Encryption | None = None,
    ) -> None:
        """Open a port for each listener. Connections wait until `listen`."""
        self._tls: ssl.SSLContext | None = None
        to_brokers: ssl.SSLContext | None = None
        if encryption:
            self._tls, to_brokers = encryption.contexts()
        self.ports = [
            Port(b, name, *at, tls=to_brokers) for b, listeners in brokers.items() for name, at in listeners.items()
        ]
        self._sockets = [_reserved() for _ in self.ports]
        self.addresses: dict[int, dict[Listener, Address]] = {broker: {} for broker in brokers}
        for port, listening in zip(self.ports, self._sockets, strict=True):
            self.addresses[port.broker][port.listener] = (HOST, listening.getsockname()[1])
        self._fronts = {"": {b: of["clients"] for b, of in self.addresses.items() if "clients" in of}}
        self._reach: dict[str, tuple[str, str]] = {}
        """Where each front listens, and the host of its addresses."""
        self._recorder, self._brokers, self._role = recorder, dict(brokers), role
        self._policy = POLICIES[role](brokers, self._fronts, sessions, recorder)
        self._tasks: set[asyncio.Task[None]] = set()  # keeps them from the garbage collector

    async def listen(self) -> None:
        """Accept connections."""
        for port, reserved in zip(self.ports, self._sockets, strict=True):
            self._accept(port, reserved)

    def _accept(self, port: Port, reserved: socket.socket) -> None:
        """Accept the connections at a reserved port; connections wait until the loop runs."""
        task = asyncio.get_running_loop().create_task(self._serve(port, reserved, _listening(reserved)))
        self._tasks.add(task)

    async def _serve(self, port: Port, reserved: socket.socket, listening: socket.socket) -> None:
        """Accept connections while the broker does. A client of the proxy is refused where the broker refuses.

        An accepted connection that ends at once would be another fault: clients do not back off from it as they do from
        a refused one.
        """
        loop = asyncio.get_running_loop()

        def opened() -> asyncio.Protocol:
            port.opened += 1
            return self._policy.open(port).requests

        while True:
            refused = asyncio.Event()
            if self._role == "proxy":
                port.refused = refused.set
            server = await loop.create_server(opened, sock=listening, ssl=self._tls)
            await refused.wait()
            server.close()
            listening.close()
            while not await _accepts(port.host, port.port):
                await asyncio.sleep(REOPEN_S)
            listening = _listening(reserved)

    def front(
        self, name: str, listen: str = HOST, advertise: str = "", ports: Mapping[int, int] | None = None
    ) -> Mapping[int, Address]:
        """Return the addresses of a front, one for each broker. A new name opens it; connections wait in its sockets.

        listen: address of this machine. advertise: host of the addresses, `listen` if empty. ports: by broker, any if
        left out. Raises `ValueError` for the switch, for an empty name, and for an address at which this machine cannot
        listen.
        """
        if self._role != "proxy" or not name:
            raise ValueError("a front needs the proxy, and a name")
        if name not in self._fronts:
            sockets = [_at(listen, (ports or {}).get(broker, 0)) for broker in self._brokers]
            self._fronts[name] = {}
            self._reach[name] = (listen, advertise or listen)
            for broker, reserved in zip(list(self._brokers), sockets, strict=True):
                self._open(name, broker, reserved)
        return self._fronts[name]

    def broker(self, broker: int, address: Address, port: int = 0) -> Mapping[str, Address]:
        """Go on in front of a broker that has another address now, or that is new; return its addresses by front.

        port: at which each front listens for a new broker; 0: any. Raises `ValueError` as `front`.
        """
        if self._role != "proxy":
            raise ValueError("only the proxy learns of brokers")
        sockets = {} if broker in self._brokers else {name: _at(self._reach[name][0], port) for name in self._reach}
        self._brokers[broker] = {"clients": address}
        self._policy.learn(address)
        for known in self.ports:
            if known.broker == broker:
                known.host, known.port = address
        for name, reserved in sockets.items():
            self._open(name, broker, reserved)
        return {name: self._fronts[name][broker] for name in self._reach}

    def _open(self, front: str, broker: int, reserved: socket.socket) -> None:
        """Accept connections to a broker at a port of a front."""
        self._fronts[front][broker] = (self._reach[front][1], reserved.getsockname()[1])
        address, to_broker = self._brokers[broker]["clients"], self.ports[0].tls
        self.ports.append(Port(broker, "clients", *address, front=front, tls=to_broker))
        self._accept(self.ports[-1], reserved)

    def seal(self) -> dict[str, Any]:
        """End the capture, and return its seal. Raises `ValueError` without a capture, `OSError` without room."""
        if self._recorder is None:
            raise ValueError("the proxy captures nothing")
        return self._recorder.seal()

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a control connection. What it added ends with it, however it ends."""
        added: dict[int, Active[Any]] = {}
        try:
            while line := await reader.readline():
                try:
                    answer = self.obey(json.loads(line), added)
                except (ValueError, TypeError, KeyError, OSError) as e:  # a full disk ends no traffic
                    answer = {"error": f"{type(e).__name__}: {e}"}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        finally:
            self.remove(*added)
            writer.close()

    def obey(self, order: dict[str, Any], added: dict[int, Active[Any]]) -> dict[str, Any]:
        """Carry out an order and return the answer. `added` holds what the control connection added so far.

        Raises `ValueError`, `TypeError`, `KeyError` for an invalid order, `OSError` if there is no room for a seal.
        """
        if order["do"] == "add":
            active = self._policy.book.add(self._policy.parse(order["item"]))
            added[active.id] = active
            self._apply(None)
            return {"id": active.id}
        if order["do"] in ("hits", "remove"):
            active = added[order["id"]]
            if order["do"] == "remove":
                if order.get("lose"):
                    self._lose(active.id)
                self.remove(active.id)
            return {name: getattr(active, name) for name in ("hits", "released", "outlived", "front", "broker")}
        if order["do"] == "front":
            wanted = {int(broker): port for broker, port in order.get("ports", {}).items()}
            where = (order.get("listen", HOST), order.get("advertise", ""), wanted)
            return {"addresses": self.front(order["name"], *where)}
        if order["do"] == "broker":
            host, port = order["address"]
            return {"addresses": self.broker(order["broker"], (host, port), order.get("port", 0))}
        if order["do"] == "seal":
            return self.seal()
        if order["do"] == "status":
            ports = [
                {
                    **{"broker": p.broker, "listener": p.listener, "front": p.front, "opened": p.opened},
                    **{"clients": sorted(p.clients), "fetches": p.fetches},
                }
                for p in self.ports
            ]
            in_force = [asdict(active.item) for active in self._policy.book.active.values()]
            return {"active": in_force, "ports": ports, "failure": self._recorder.failure if self._recorder else ""}
        if order["do"] == "moments":
            moments = self._policy.book.moments
            return {front: [[*moment, count] for moment, count in of.items()] for front, of in moments.items()}
        if order["do"] == "steps":
            return dict(self._policy.book.steps)
        if order["do"] == "members":
            return {front: sorted(members) for front, members in self._policy.book.members.items()}
        if order["do"] == "begin":
            self._policy.book.begin(order["front"])
            return {}
        raise ValueError(f"unknown order {order['do']!r}")

    def remove(self, *ids: int) -> None:
        """Take rules or cuts out of force, if they are still in force."""
        for number in ids:
            if self._policy.book.remove(number):
                self._apply(number)

    def _lose(self, number: int) -> None:
        for port in self.ports:
            for connection in list(port.connections):
                connection.lose(number)

    def _apply(self, removed: int | None) -> None:
        for port in self.ports:
            for connection in list(port.connections):
                connection.apply(removed)


def _reserved(host: str = HOST, port: int = 0) -> socket.socket:
    """Return a socket that is bound and does not listen: it keeps a port, at which connections are refused."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind((host, port))
    return reserved


def _at(host: str, port: int) -> socket.socket:
    """Return a socket as `_reserved`. Raises `ValueError` if something listens there, or no address is such a one."""
    try:
        if port:  # the ports of the relay are shared ones, which two relays could have
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        return _reserved(host, port)
    except OSError as e:
        raise ValueError(f"this machine cannot listen at {host}{f':{port}' * bool(port)} ({e.strerror})") from None


def _listening(reserved: socket.socket) -> socket.socket:
    """Return a socket that listens at a reserved port."""
    listening = _reserved(*reserved.getsockname())
    listening.listen(BACKLOG)
    return listening


async def _accepts(host: str, port: int) -> bool:
    """Return whether a broker accepts a connection."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


async def serve(
    run_dir: Path,
    role: Role,
    brokers: Endpoints,
    sessions: bool = False,
    payloads: Payloads | None = None,
    encryption: Encryption | None = None,
    session: int = 0,
) -> None:
    """Serve until the process ends. payloads: what is kept of records in a capture; None: no capture.

    session: of the capture, which goes on in the folder of the sessions before it.
    """
    os.chdir(run_dir)  # the path of a Unix socket is limited to some 100 characters
    recorder = Recorder(run_dir / FOLDER, payloads, session=session) if payloads else None
    server = Server(role, brokers, sessions, recorder, encryption)
    await server.listen()
    control = await asyncio.start_unix_server(server.control, socket_name(role))
    own = {b: at["clients"] for b, at in server.addresses.items()} if role == "proxy" else server.addresses
    write_atomically(Path(address_name(role)), json.dumps(own))
    await control.serve_forever()


def main(argv: list[str]) -> None:
    """Run the relay."""
    _, run_dir, role, brokers, *options = argv
    payloads = cast(Payloads | None, next((o for o in options if o in get_args(Payloads)), None))
    raw: dict[str, dict[Listener, list[Any]]] = json.loads(brokers)
    endpoints = {int(b): {name: (at[0], at[1]) for name, at in of.items()} for b, of in raw.items()}
    its_role: Role = "proxy" if role == "proxy" else "switch"
    tls = next((Encryption(**json.loads(option)) for option in options if option.startswith("{")), None)
    session = next((int(option) for option in options if option.isdigit()), 0)
    uvloop.run(serve(Path(run_dir), its_role, endpoints, "sessions" in options, payloads, tls, session))


if __name__ == "__main__":
    main(sys.argv)
