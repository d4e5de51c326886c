"""Network cuts between processes: brokers connect to each other, and clients connect to brokers, through a switch.

All of them use 127.0.0.1, and dropping packets needs root. So every listener of every broker is advertised at a port of
the switch (`chaos.relay`), which forwards everything until a link is cut. The switch runs only if the scenario
cuts links: see `ClusterSpec.switch`.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.cluster.api import Cluster
from chaos.cluster.settings import BrokerEndpoints
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
"""The names of the listeners in the broker settings."""


class SwitchedCluster(Cluster):
    """A cluster of processes with cuts in its network, if it has a switch."""

    def __init__(self, run: Run, cluster_state: ClusterState) -> None:
        super().__init__(run, cluster_state)
        self._switch: Switch | None = None
        self._cuts: dict[Cut, int] = {}

    def cut_network(self, cut: Cut) -> None:
        """Block the links of a cut; the switch holds the data that is sent meanwhile, as a TCP sender would."""
        if self.state.switch is None:
            raise ClusterError("the cluster was made without a switch, so none of its links can be cut")
        with self._lock:
            if self._switch is None:
                self._switch = Switch(self.run)
            if cut not in self._cuts:
                self._cuts[cut] = self._switch.add(cut)

    def mend_network(self, cut: Cut) -> None:
        """Unblock the links of a cut; do nothing if the cut does not exist."""
        with self._lock:
            if self._switch is not None and (cut_id := self._cuts.pop(cut, None)) is not None:
                self._switch.remove(cut_id)

    def dropped_packets(self, cut: Cut) -> int:
        """Return how many pieces of data, as the switch read them, this cut has held so far."""
        with self._lock:
            cut_id = self._cuts.get(cut)
            return 0 if self._switch is None or cut_id is None else self._switch.hits(cut_id)

    def check(self) -> None:
        """Raise `ClusterError` if the switch has ended: nothing reaches the brokers without it."""
        switch = self.state.switch
        if switch is not None and not switch.alive():
            raise ClusterError(
                f"the switch between the brokers ended in the middle of the run; see {self.run.logs}/switch.log"
            )


def start(run: Run, ports: Sequence[Sequence[int]], owner: ProcessId | None) -> tuple[Spawned, list[BrokerEndpoints]]:
    """Start the switch for brokers that bind these ports, and return it with the endpoints to advertise.

    `ports` has one row per broker from 1: clients, peers, quorum. Raises `ClusterError`.
    """
    bound: Endpoints = {
        broker: {name: (HOST, port) for name, port in zip(LISTENERS, row, strict=True)}
        for broker, row in enumerate(ports, start=1)
    }
    spawned, fronts = control.start_switch(run, bound, owner)
    endpoints = [
        BrokerEndpoints(
            *fronts[broker]["clients"],
            controller=_address(fronts[broker]["quorum"]),
            peers=_address(fronts[broker]["peers"]),
            behind={_NAMES[listener]: _address(address) for listener, address in listeners.items()},
        )
        for broker, listeners in bound.items()
    ]
    return spawned, endpoints


def _address(host_and_port: tuple[str, int]) -> str:
    return f"{host_and_port[0]}:{host_and_port[1]}"
