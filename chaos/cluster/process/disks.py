"""The disks of the nodes of one run: each node that preloads `chaos.preload` for it has a control file and a meter."""

from __future__ import annotations

from pathlib import Path

from chaos.cluster.brokers import startup
from chaos.cluster.deployment import StartedCluster
from chaos.errors import ClusterError
from chaos.preload import disk, meter
from chaos.preload.build import Preload
from chaos.preload.disk import FAST, Delayed, Delays
from chaos.preload.meter import Reading
from chaos.run.directory import Run


class NodeDisks(StartedCluster):
    """The part of the process driver that slows the disks of nodes."""

    def slow_disk(self, node: int, delays: Delays) -> None:
        """Delay the writes of a node to its data, and record whether a disk is slow. Raises `ClusterError`."""
        if not self.state.disks:
            raise ClusterError("the cluster was made without disks that can be slow, so that of no node can be slowed")
        with self._lock:
            try:
                disk.set_delays(control_file(self.run, node), delays)
                controls = [path for n in self.node_ids if (path := control_file(self.run, n)).exists()]
                self.state.slow = any(disk.delays(path) != FAST for path in controls)
            except OSError as e:
                raise ClusterError(f"the disk of {self.state.name(node)} could not be changed: {e}") from None
            self.state.save(self.run.cluster)

    def disk_delays(self, node: int) -> Delays:
        """Return the delays of a node as they are set."""
        return disk.delays(control_file(self.run, node)) if self.state.disks else FAST

    def delayed_writes(self, node: int) -> Delayed:
        """Return how many writes and syncs of a node the library has delayed so far."""
        return disk.delayed(control_file(self.run, node)) if self.state.disks else Delayed(0, 0)

    def meter(self, node: int) -> Reading | None:
        """Return the latest times that the node reports; None before it has reported any."""
        return meter.read(meter_file(self.run, node))

    def disk_preloads(self, node: int) -> list[Preload]:
        """Return what gives a node its disk; nothing if the disks of the cluster cannot be slow."""
        if not self.state.disks:
            return []
        control = control_file(self.run, node)
        disk.create(control)  # a node may be added later
        return [disk.preload(control, startup.home(self.run, node) / "data")]

    def disk_flags(self, node: int) -> tuple[str, ...]:
        """Return the flags of the JVM of a node that reports its times."""
        if not self.state.disks:
            return ()
        meter_file(self.run, node).unlink(missing_ok=True)  # of an earlier start
        return (meter.flag(meter_file(self.run, node)),)


def control_file(run: Run, node: int) -> Path:
    """Return the control file of the disk of a node."""
    return startup.home(run, node) / "disk"


def meter_file(run: Run, node: int) -> Path:
    """Return the file of the times that a node reports."""
    return startup.home(run, node) / "meter"
