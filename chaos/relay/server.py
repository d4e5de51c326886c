"""The proxy's process: a port for each broker, and the control socket.

    python -m chaos.relay.server RUN_DIR '{"1": ["127.0.0.1", 19092], ...}'

It writes its own addresses to `proxy.json` when it is ready, in the same shape.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvloop

from chaos.processes.ports import HOST
from chaos.relay.orders import obey_lines
from chaos.relay.relay import Front, Relay
from chaos.relay.rewrite import Addresses
from chaos.relay.rules import ADDRESSES, SOCKET, Active, Rule, RuleBook
from chaos.run.directory import write_atomically


class Server:
    """All fronts and rules of one proxy."""

    def __init__(self, brokers: dict[int, tuple[str, int]]) -> None:
        self.book = RuleBook()
        self._servers: list[asyncio.Server] = []  # one that nobody holds is closed by the garbage collector
        self.addresses = Addresses({}, frozenset(host.encode() for host, _ in brokers.values()))
        self._fronts = [Front(b, host, port, self.book, self.addresses) for b, (host, port) in brokers.items()]

    async def listen(self) -> None:
        """Open a port for each broker; `addresses` are complete when it returns."""
        loop = asyncio.get_running_loop()
        for front in self._fronts:
            listening = socket.create_server((HOST, 0), backlog=512)
            self.addresses.fronts[front.broker] = (HOST, listening.getsockname()[1])
            server = await loop.create_server(lambda front=front: Relay(front).requests, sock=listening)  # type: ignore[misc]
            self._servers.append(server)

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one control connection; the rules that it made end with it."""
        made: dict[int, Active] = {}
        await obey_lines(reader, writer, lambda order: self._obey(order, made), lambda: self._remove(*made))

    def _obey(self, order: dict[str, Any], made: dict[int, Active]) -> dict[str, Any]:
        if order["do"] == "add":
            active = self.book.add(Rule(**order["rule"]))
            made[active.id] = active
            return {"id": active.id}
        if order["do"] in ("matches", "remove"):
            if order["do"] == "remove":
                self._remove(order["id"])
            return {"matches": made[order["id"]].matches}
        raise ValueError(f"unknown order {order['do']!r}")

    def _remove(self, *rules: int) -> None:
        for rule in rules:
            if self.book.remove(rule) is None:
                continue
            for front in self._fronts:
                for relay in list(front.relays):
                    relay.let_go(rule)


async def serve(run_dir: Path, brokers: dict[int, tuple[str, int]]) -> None:
    """Serve for ever."""
    os.chdir(run_dir)  # the path of a Unix socket has room for some 100 characters
    server = Server(brokers)
    await server.listen()
    control = await asyncio.start_unix_server(server.control, SOCKET)
    write_atomically(Path(ADDRESSES), json.dumps(server.addresses.fronts))
    await control.serve_forever()  # and keeps it: a server that nobody holds is closed by the garbage collector


def main(argv: list[str]) -> None:
    """Run the proxy."""
    given = json.loads(argv[2])
    uvloop.run(serve(Path(argv[1]), {int(b): (host, port) for b, (host, port) in given.items()}))


if __name__ == "__main__":
    main(sys.argv)
