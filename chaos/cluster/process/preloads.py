"""What the nodes of one run load besides Kafka, so that faults can change the clock and the disk of each."""

from __future__ import annotations

from pathlib import Path

from chaos.cluster.brokers import startup
from chaos.cluster.brokers.release import Job
from chaos.cluster.deployment import StartedCluster
from chaos.cluster.secured.issuer import java_flags
from chaos.cluster.settings import ClusterSpec
from chaos.errors import ClusterError
from chaos.install.cache import Progress
from chaos.preload import libraries, meter
from chaos.preload.libraries import FAST, Delayed, Delays, Preload, Skew
from chaos.preload.meter import Reading
from chaos.run.directory import Run


class NodeClocks(StartedCluster):
    """The part of the process driver that changes the clocks of nodes."""

    def set_clock(self, node: int, skew: Skew) -> None:
        """Change the clock of a node, and record that the cluster is not as it was. Raises `ClusterError`."""
        if not self.state.clocks:
            raise ClusterError("the cluster was made without clocks that can be set, so no node's clock can be changed")
        with self._lock:
            self.state.skewed = True
            self.state.save(self.run.cluster)
            try:
                libraries.set_skew(clock_file(self.run, node), skew)
            except OSError as e:
                raise ClusterError(f"the clock of {self.state.name(node)} could not be set: {e}") from None

    def clock_ahead_s(self, node: int) -> float:
        """Return how many seconds the clock of a node is ahead now, as it was set."""
        return libraries.ahead_s(clock_file(self.run, node)) if self.state.clocks else 0.0

    def clock_preloads(self, node: int) -> list[Preload]:
        """Return what gives a node its clock; nothing if the cluster has no clocks."""
        if not self.state.clocks:
            return []
        libraries.create_clock(clock_file(self.run, node))  # a node may be added later
        return [libraries.preload_clock(clock_file(self.run, node))]


def clock_file(run: Run, node: int) -> Path:
    """Return the control file of the clock of a node."""
    return startup.home(run, node) / "clock"


class NodeDisks(StartedCluster):
    """The part of the process driver that slows the disks of nodes."""

    def slow_disk(self, node: int, delays: Delays) -> None:
        """Delay the writes of a node to its data, and record whether a disk is slow. Raises `ClusterError`."""
        if not self.state.disks:
            raise ClusterError("the cluster was made without disks that can be slow, so no node's disk can be slowed")
        with self._lock:
            try:
                libraries.set_delays(disk_file(self.run, node), delays)
                controls = [path for n in self.node_ids if (path := disk_file(self.run, n)).exists()]
                self.state.slow = any(libraries.delays(path) != FAST for path in controls)
            except OSError as e:
                raise ClusterError(f"the disk of {self.state.name(node)} could not be changed: {e}") from None
            self.state.save(self.run.cluster)

    def disk_delays(self, node: int) -> Delays:
        """Return the delays of a node as they are set."""
        return libraries.delays(disk_file(self.run, node)) if self.state.disks else FAST

    def delayed_writes(self, node: int) -> Delayed:
        """Return how many writes and syncs of a node the library has delayed so far."""
        return libraries.delayed(disk_file(self.run, node)) if self.state.disks else Delayed(0, 0)

    def meter(self, node: int) -> Reading | None:
        """Return the latest times that the node reports; None before it has reported any."""
        return meter.read(meter_file(self.run, node))

    def disk_preloads(self, node: int) -> list[Preload]:
        """Return what gives a node its disk; nothing if the disks of the cluster cannot be slow."""
        if not self.state.disks:
            return []
        control = disk_file(self.run, node)
        libraries.create_disk(control)  # a node may be added later
        return [libraries.preload_disk(control, startup.home(self.run, node) / "data")]

    def disk_flags(self, node: int) -> tuple[str, ...]:
        """Return the flags of the JVM of a node that reports its times."""
        if not self.state.disks:
            return ()
        meter_file(self.run, node).unlink(missing_ok=True)  # of an earlier start
        return (meter.flag(meter_file(self.run, node)),)


def disk_file(run: Run, node: int) -> Path:
    """Return the control file of the disk of a node."""
    return startup.home(run, node) / "disk"


def meter_file(run: Run, node: int) -> Path:
    """Return the file of the times that a node reports."""
    return startup.home(run, node) / "meter"


def prepare(spec: ClusterSpec, on_progress: Progress) -> None:
    """Compile what the nodes of a cluster load. Raises `MachineError` or `ResolveError`."""
    for name, asked in (("clock", spec.clocks), ("disk", spec.disks)):
        if asked:
            libraries.compiled(name, on_progress)
    if spec.disks:
        meter.agent(on_progress)


class Preloads(NodeClocks, NodeDisks):
    """The part of the process driver that starts nodes with libraries, agents and options."""

    def _note_preloads(self, spec: ClusterSpec) -> None:
        self.state.clocks, self.state.disks = spec.clocks, spec.disks
        self.state.save(self.run.cluster)

    def _job(self, node: int) -> Job:
        env = libraries.environment(*self.clock_preloads(node), *self.disk_preloads(node))
        flags = (*self.disk_flags(node), *java_flags(self.state.client_security))
        return startup.job(self.run, node, self.state.heap_bytes, env, flags)
