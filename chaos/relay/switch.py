"""The switch's process: a port for each listener of each broker, and the control socket.

    python -m chaos.relay.switch RUN_DIR '{"1": {"clients": ["127.0.0.1", 19092], "peers": [...], "quorum": [...]}}'

It writes its own addresses to `switch.json` when it is ready, in the same shape.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvloop

from chaos.processes.ports import HOST
from chaos.relay.cuts import Active, Cut, Cuts, Listener
from chaos.relay.orders import obey_lines
from chaos.relay.rules import SWITCH_ADDRESSES, SWITCH_SOCKET
from chaos.relay.through import Port, Through
from chaos.run.directory import write_atomically

Places = dict[int, dict[Listener, tuple[str, int]]]


class Switch:
    """All ports and cuts."""

    def __init__(self, brokers: Places) -> None:
        self.cuts = Cuts()
        self._servers: list[asyncio.Server] = []  # one that nobody holds is closed by the garbage collector
        self.places: Places = {broker: {} for broker in brokers}
        self._ports = [
            Port(broker, listener, host, port, self.cuts)
            for broker, listeners in brokers.items()
            for listener, (host, port) in listeners.items()
        ]

    async def listen(self) -> None:
        """Open all ports; `places` are complete when it returns."""
        loop = asyncio.get_running_loop()
        for port in self._ports:
            listening = socket.create_server((HOST, 0), backlog=512)
            self.places[port.broker][port.listener] = (HOST, listening.getsockname()[1])
            server = await loop.create_server(lambda port=port: Through(port).requests, sock=listening)  # type: ignore[misc]
            self._servers.append(server)

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one control connection; the cuts that it made end with it."""
        made: dict[int, Active] = {}
        await obey_lines(reader, writer, lambda order: self._obey(order, made), lambda: self._mend(*made))

    def _obey(self, order: dict[str, Any], made: dict[int, Active]) -> dict[str, Any]:
        if order["do"] == "cut":
            wanted = order["cut"]
            active = self.cuts.add(Cut(**{**wanted, "others": tuple(wanted["others"])}))
            made[active.id] = active
            self._judge()
            return {"id": active.id}
        if order["do"] in ("held", "mend"):
            found = made[order["id"]]
            if order["do"] == "mend":
                self._mend(found.id)
            return {"held": found.held}
        if order["do"] == "seen":
            seen = [{"broker": p.broker, "listener": p.listener, "clients": sorted(p.clients)} for p in self._ports]
            return {"seen": seen, "cuts": [asdict(one.cut) for one in self.cuts.active.values()]}
        raise ValueError(f"unknown order {order['do']!r}")

    def _mend(self, *cuts: int) -> None:
        if any([self.cuts.remove(cut) for cut in cuts]):
            self._judge()

    def _judge(self) -> None:
        for port in self._ports:
            for through in list(port.through):
                through.judge()


async def serve(run_dir: Path, brokers: Places) -> None:
    """Serve for ever."""
    os.chdir(run_dir)  # the path of a Unix socket has room for some 100 characters
    switch = Switch(brokers)
    await switch.listen()
    control = await asyncio.start_unix_server(switch.control, SWITCH_SOCKET)
    write_atomically(Path(SWITCH_ADDRESSES), json.dumps(switch.places))
    await control.serve_forever()  # and keeps it: a server that nobody holds is closed by the garbage collector


def main(argv: list[str]) -> None:
    """Run the switch."""
    given: dict[str, dict[Listener, list[Any]]] = json.loads(argv[2])
    places: Places = {int(b): {name: (at[0], at[1]) for name, at in of.items()} for b, of in given.items()}
    uvloop.run(serve(Path(argv[1]), places))


if __name__ == "__main__":
    main(sys.argv)
