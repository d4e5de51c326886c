"""What the nodes of one run load besides Kafka, so that faults can change the clock and the disk of each."""

from __future__ import annotations

from chaos.cluster.brokers import startup
from chaos.cluster.brokers.jvm import Job
from chaos.cluster.process.clocks import NodeClocks
from chaos.cluster.process.disks import NodeDisks
from chaos.cluster.secured.issuer_process import java_flags
from chaos.cluster.settings import ClusterSpec
from chaos.install.cache import Progress
from chaos.preload import build, meter


def prepare(spec: ClusterSpec, on_progress: Progress) -> None:
    """Compile what the nodes of a cluster load. Raises `MachineError` or `ResolveError`."""
    for name, asked in (("clock", spec.clocks), ("disk", spec.disks)):
        if asked:
            build.compiled(name, on_progress)
    if spec.disks:
        meter.agent(on_progress)


class Preloads(NodeClocks, NodeDisks):
    """The part of the process driver that starts nodes with libraries, agents and options."""

    def _note_preloads(self, spec: ClusterSpec) -> None:
        self.state.clocks, self.state.disks = spec.clocks, spec.disks
        self.state.save(self.run.cluster)

    def _job(self, node: int) -> Job:
        env = build.environment(*self.clock_preloads(node), *self.disk_preloads(node))
        flags = (*self.disk_flags(node), *java_flags(self.state.client_security))
        return startup.job(self.run, node, self.state.heap_bytes, env, flags)
