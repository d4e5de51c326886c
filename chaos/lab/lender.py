"""A cluster that is lent to one run after another, as long as they ask for the same and leave it well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaos.cluster.drivers import driver as driver_of
from chaos.cluster.lifecycle import lending
from chaos.cluster.lifecycle.gc import end_all
from chaos.cluster.settings import ClusterSpec
from chaos.drive import stages
from chaos.errors import ClusterError
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved

LENDER_S = 12 * 3600.0
"""When a cluster that is lent ends at the latest; it ends with this process before."""


class Lender:
    """Its clusters are made below `folder`, each as `cluster-<number>-<how-manieth>`."""

    def __init__(self, folder: Path, number: int = 1) -> None:
        self._folder, self._number = folder, number
        self._home: Run | None = None
        self.spec: ClusterSpec | None = None
        """What the cluster that there is now is; None without one."""

    def cluster(self, resolved: Resolved, say: Callable[[str], None]) -> Run | None:
        """The home of a cluster that a run can have, started if need be; None where the run brings its own."""
        spec, driver = stages.cluster_spec(resolved), resolved.scenario.cluster.driver
        if driver != "process":
            return None
        if self._home is None or self.spec != spec:
            self.end()
            self._home = Run.create_numbered(self._folder, f"cluster-{self._number}-")
            self.spec = spec
            try:
                driver_of(driver).deploy(self._home, spec, ProcessId.current(), LENDER_S, say)
            except BaseException:
                self._home = self.spec = None
                raise
        return self._home

    def take_back(self) -> None:
        """Empty the cluster for the next run. One that is not well is never lent again."""
        if self._home is None:
            return
        try:
            lending.give_back(stages.attach(self._home))
        except ClusterError:
            self.end()

    def end(self) -> None:
        """End the cluster, if there is one."""
        if self._home is not None:
            end_all(self._home.path)
        self._home = self.spec = None
