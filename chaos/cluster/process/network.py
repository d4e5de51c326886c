"""Cuts in the network of processes: brokers of one machine reach each other, and clients reach them, through a switch.

All of them have one address, 127.0.0.1, and no packet can be dropped without root. So every listener of every broker is
advertised at a port of the switch's (`chaos.relay`), which passes on everything until a link is cut. It is there
only where the scenario cuts links: see `ClusterSpec.switch`.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.cluster.deployed import Deployed
from chaos.cluster.settings import Place
from chaos.cluster.state import ClusterState
from chaos.errors import ClusterError
from chaos.processes.ports import HOST
from chaos.processes.process import ProcessId, Spawned
from chaos.relay import control
from chaos.relay.control import Switch
from chaos.relay.cuts import Cut
from chaos.relay.roles import LISTENERS, Endpoints, Listener
from chaos.run.directory import Run

_NAMES: dict[Listener, str] = {"clients": "CLIENT", "peers": "PEERS", "quorum": "CONTROLLER"}
"""Of the listeners, in the brokers' settings."""


class Switched(Deployed):
    """A cluster of processes, as far as its network goes. Without a switch nothing can be cut."""

    def __init__(self, run: Run, found: ClusterState) -> None:
        super().__init__(run, found)
        self._switch: Switch | None = None
        self._cuts: dict[Cut, int] = {}

    def cut_network(self, cut: Cut) -> None:
        """Let nothing through where this cut is; what is sent meanwhile is held, as TCP would send it again."""
        if self.state.switch is None:
            raise ClusterError("the cluster was made without a switch, so none of its links can be cut")
        with self._lock:
            if self._switch is None:
                self._switch = Switch(self.run)
            if cut not in self._cuts:
                self._cuts[cut] = self._switch.add(cut)

    def mend_network(self, cut: Cut) -> None:
        """Let it through again; nothing to do where the cut is not there any more."""
        with self._lock:
            if self._switch is not None and (known := self._cuts.pop(cut, None)) is not None:
                self._switch.remove(known)

    def dropped_packets(self, cut: Cut) -> int:
        """How many pieces of data, as they were read, this cut has held back so far."""
        with self._lock:
            known = self._cuts.get(cut)
            return 0 if self._switch is None or known is None else self._switch.hits(known)

    def check(self) -> None:
        """Raise `ClusterError` if the switch has ended: nothing reaches the brokers any more."""
        switch = self.state.switch
        if switch is not None and not switch.identity.alive():
            raise ClusterError(
                f"the switch between the brokers ended in the middle of the run; see {self.run.logs}/switch.log"
            )


def start(run: Run, ports: Sequence[Sequence[int]], owner: ProcessId | None) -> tuple[Spawned, list[Place]]:
    """Start the switch, and say where it stands for brokers that will listen on these ports of their own.

    Those are, by broker from 1, for clients, for peers, and for the quorum. Raises `ClusterError`.
    """
    asked: Endpoints = {
        broker: {name: (HOST, port) for name, port in zip(LISTENERS, own, strict=True)}
        for broker, own in enumerate(ports, start=1)
    }
    spawned, fronts = control.start_switch(run, asked, owner)
    places = [
        Place(
            *fronts[broker]["clients"],
            controller=_address(fronts[broker]["quorum"]),
            peers=_address(fronts[broker]["peers"]),
            behind={_NAMES[listener]: _address(place) for listener, place in own.items()},
        )
        for broker, own in asked.items()
    ]
    return spawned, places


def _address(place: tuple[str, int]) -> str:
    return f"{place[0]}:{place[1]}"
