"""Faults of KRaft controllers: kill, pause and isolation."""

from __future__ import annotations

import time
from collections.abc import Mapping

from chaos.cluster.api import Kill, able
from chaos.faults import targets
from chaos.faults.base import World
from chaos.faults.brokers import BrokerPause
from chaos.faults.network import ONE_WAY, CutFault
from chaos.faults.targets import BrokerFault, start_down
from chaos.kafka import admin
from chaos.kafka.connection import BrokerConnection
from chaos.kafka.quorum import ask_controller
from chaos.relay.cuts import Cut
from chaos.scenario.faults import controllers as specs

PROBE_S = 2.0
"""Time in which a request to check a new topic is answered if a controller is active."""
MIN_BEHIND = 4
"""Records of the metadata log that a voter must miss to count as gone: the active controller writes two per second."""


class ControllerKill(BrokerFault[specs.ControllerKill], spec=specs.ControllerKill):
    """SIGKILL. Proof: another controller is active, or the same one in a higher epoch.

    If the active one was not killed: the metadata log of the killed one ends, and that of the active one goes on. If no
    majority is left: brokers answer, but name no active controller, and get no answer to a request for a new topic.
    """

    _active: int
    _epoch: int
    _acked: int
    _killed_s: float
    _voters: int
    """The number of voters before the kill."""
    _ends: Mapping[int, int]
    """The end of the metadata log of each voter before the kill."""

    def _inject(self, world: World) -> str:
        """Kill the targets. Raises `FaultError` if no controller is active before."""
        self._active, self._epoch = targets.controller(world)
        self._voters = len(targets.voters(world))
        self._ends = {} if self._active in self.brokers else self._log_ends(world)
        self._acked, self._killed_s, self.begun = _acked(world), time.monotonic(), True
        for node in self.brokers:
            able(world.cluster, Kill).kill_broker(node)
        role = "the active controller" if self._active in self.brokers else f"{self._active} is the active controller"
        count = self._voters
        left = f"; {count - len(self.brokers)} of {count} controllers left, no majority" if self._stalls() else ""
        return f"killed {self.resolved}, {role} in epoch {self._epoch}{left}"

    def _stalls(self) -> bool:
        """Return whether the controllers that are left are no majority."""
        return self._voters - len(self.brokers) < self._voters // 2 + 1

    def _log_ends(self, world: World) -> Mapping[int, int]:
        quorum = targets.answer(world.kafka.quorum, "no broker describes the quorum")
        return quorum.ends

    def _effect(self, world: World) -> str | None:
        if self._ends:
            return self._left_behind(world)
        found = world.kafka.controller()
        if found is None:
            return self._stalled(world) if self._stalls() else None
        controller, epoch = found
        if controller == self._active and epoch <= self._epoch:
            return None
        epochs = f", epoch {self._epoch} to {epoch}" if epoch else ""
        return f"the active controller went from {self._active} to {controller}{epochs}"

    def _left_behind(self, world: World) -> str | None:
        quorum, (node,) = world.kafka.quorum(), self.brokers
        if quorum is None or quorum.leader == node or node not in quorum.ends:
            return None
        stays, end = quorum.ends[node], quorum.ends[quorum.leader]
        if min(end - stays, end - self._ends[self._active]) < MIN_BEHIND:
            return None
        return f"the metadata log of {self.resolved} stays at {stays}, and the active controller is at {end}"

    def _stalled(self, world: World) -> str | None:
        """Return the proof that the cluster serves, but nothing can change its metadata."""
        if world.kafka.metadata() is None or admin.accepts_changes(world.kafka, PROBE_S):
            return None
        acked = f"; {_acked(world) - self._acked:,} records were acknowledged since the kill" if world.fleet else ""
        return (
            "brokers answer, but name no active controller and do not check a request for a new topic within "
            f"{PROBE_S:g} s{acked}"
        )

    def _undo(self, world: World) -> str:
        start_down(self.brokers, world)
        back = f"{self.resolved} {'is' if len(self.brokers) == 1 else 'are'} back"
        if not self._stalls():
            return back
        acked = _acked(world) - self._acked
        targets.controller(world)
        seconds = time.monotonic() - self._killed_s
        self.evidence |= {"without_controller_s": round(seconds, 1), "acked_without_controller": acked}
        if not world.fleet:
            return f"{back}, after {seconds:.1f} s without an active controller"
        return f"{back}; {acked:,} records were acknowledged in {seconds:.1f} s without an active controller"


class ControllerPause(BrokerPause, spec=specs.ControllerPause):
    """SIGSTOP. Proof: controllers that answered before accept a connection and leave a request unanswered."""


class ControllerIsolate(CutFault[specs.ControllerIsolate], spec=specs.ControllerIsolate):
    """Cut the active controller off from the others. Proof: another one answers as active, in a higher epoch."""

    _epoch: int

    def _inject(self, world: World) -> str:
        active, self._epoch = targets.controller(world)
        others = tuple(node for node in targets.controllers(world) if node != active)
        self.brokers, self.resolved = [active], targets.node_name(active, world)
        self._cut_network([Cut(active, others, False, self.spec.direction)], world)
        cut = f"cut {self.resolved}, active in epoch {self._epoch}, off from {', '.join(map(str, others))}"
        return f"{cut}{ONE_WAY[self.spec.direction]}"

    def _effect(self, world: World) -> str | None:
        """Ask the controllers themselves: brokers may still follow the one that is cut off."""
        beliefs = {}
        for node, address in world.cluster.state.controller_addresses.items():
            link = BrokerConnection(*address, targets.access_to(node, world))
            beliefs[node] = ask_controller(node, link, targets.SILENCE_S)
            link.close()
        epochs = {node: belief.epoch for node, belief in beliefs.items() if belief and belief.epoch is not None}
        later = {node: epoch for node, epoch in epochs.items() if node != self.broker and epoch > self._epoch}
        if not later:
            return None
        node, epoch = max(later.items(), key=lambda item: item[1])
        still = "still believes to be" if self.broker in epochs else "is no longer"
        return f"controller {node} is active in epoch {epoch}, and {self.resolved} {still} active"


def _acked(world: World) -> int:
    """Return how many records all clients of the run had acknowledged; 0 if there is no run."""
    return world.fleet.total_acked() if world.fleet else 0
