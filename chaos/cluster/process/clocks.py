"""The clocks of the nodes of one run: each node that preloads `chaos.preload` has its control file."""

from __future__ import annotations

from pathlib import Path

from chaos.cluster.brokers import startup
from chaos.cluster.deployment import StartedCluster
from chaos.errors import ClusterError
from chaos.preload import clock
from chaos.preload.build import Preload
from chaos.preload.clock import Skew
from chaos.run.directory import Run


class NodeClocks(StartedCluster):
    """The part of the process driver that changes the clocks of nodes."""

    def set_clock(self, node: int, skew: Skew) -> None:
        """Change the clock of a node, and record that the cluster is not as it was. Raises `ClusterError`."""
        if not self.state.clocks:
            raise ClusterError("the cluster was made without clocks that can be set, so that of no node can be changed")
        with self._lock:
            self.state.skewed = True
            self.state.save(self.run.cluster)
            try:
                clock.set_skew(control_file(self.run, node), skew)
            except OSError as e:
                raise ClusterError(f"the clock of {self.state.name(node)} could not be set: {e}") from None

    def clock_ahead_s(self, node: int) -> float:
        """Return how many seconds the clock of a node is ahead now, as it was set."""
        return clock.ahead_s(control_file(self.run, node)) if self.state.clocks else 0.0

    def clock_preloads(self, node: int) -> list[Preload]:
        """Return what gives a node its clock; nothing if the cluster has no clocks."""
        if not self.state.clocks:
            return []
        clock.create(control_file(self.run, node))  # a node may be added later
        return [clock.preload(control_file(self.run, node))]


def control_file(run: Run, node: int) -> Path:
    """Return the control file of the clock of a node."""
    return startup.home(run, node) / "clock"
