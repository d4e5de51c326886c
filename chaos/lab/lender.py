"""Lending of one cluster to run after run, as long as the runs need the same cluster and leave it healthy."""

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

DEADLINE_S = 12 * 3600.0
"""Seconds after which a lent cluster ends by itself; it ends earlier if this process ends."""


class Lender:
    """Owner of at most one cluster, in a directory `cluster-<number>-<count>` below `folder`."""

    def __init__(self, folder: Path, number: int = 1) -> None:
        self._folder, self._number = folder, number
        self._cluster: Run | None = None
        self.spec: ClusterSpec | None = None
        """The specification of the running cluster; None without one."""

    def cluster(self, resolved: Resolved, say: Callable[[str], None]) -> Run | None:
        """Return the directory of a cluster for this scenario; None if the scenario cannot use a lent one.

        Starts a new cluster if the running one has another specification. Raises `ClusterError`.
        """
        spec, driver = stages.cluster_spec(resolved), resolved.scenario.cluster.driver
        if driver != "process":
            return None
        if self._cluster is None or self.spec != spec:
            self.end()
            self._cluster = Run.create_numbered(self._folder, f"cluster-{self._number}-")
            self.spec = spec
            try:
                driver_of(driver).deploy(self._cluster, spec, ProcessId.current(), DEADLINE_S, say)
            except BaseException:
                self._cluster = self.spec = None
                raise
        return self._cluster

    def take_back(self) -> None:
        """Delete topics and groups for the next run. A cluster that is not healthy ends."""
        if self._cluster is None:
            return
        try:
            lending.give_back(stages.attach(self._cluster))
        except ClusterError:
            self.end()

    def end(self) -> None:
        """End the cluster if one runs."""
        if self._cluster is not None:
            end_all(self._cluster.path)
        self._cluster = self.spec = None
