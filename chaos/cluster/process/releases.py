"""The releases of the brokers of one run: each node may have another one, which its next start runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from chaos.cluster.brokers import jvm, startup
from chaos.cluster.brokers.jvm import Release
from chaos.cluster.brokers.release import prepare
from chaos.cluster.deployment import StartedCluster
from chaos.cluster.settings import properties
from chaos.cluster.state import ClusterState
from chaos.install.cache import Progress, silent
from chaos.run.directory import Run

_LOGGED_RELEASE = re.compile(rb"AppInfoParser - Kafka version: (\S+)")


class ReleaseChanges(StartedCluster):
    """The part of the process driver that changes the release, or the settings, of single nodes."""

    def __init__(self, run: Run, cluster_state: ClusterState, release: Release | None = None) -> None:
        super().__init__(run, cluster_state)
        self._releases = {release.version: release} if release else {}  # others are prepared when a node starts

    def prepare_release(self, release: str, on_progress: Progress = silent) -> None:
        """Fetch a release, and make its class archive."""
        self._prepared(release, on_progress)

    def set_release(self, broker: int, release: str) -> None:
        """Let the next start of a broker run this release. It is recorded, so that every later start does."""
        self.prepare_release(release)
        with self._lock:
            self.state.node(broker).kafka = release
            self.state.save(self.run.cluster)

    def set_settings(self, broker: int, settings: Mapping[str, str]) -> None:
        """Append the settings to the file of a broker; the last value of a setting counts."""
        with (startup.home(self.run, broker) / "server.properties").open("a", encoding="ascii") as file:
            file.write(properties(settings))

    def logged_release(self, broker: int) -> str | None:
        """Return the release that the broker has logged since its last start."""
        with Path(self._log(broker)).open("rb") as log:
            log.seek(self.state.node(broker).log_start)
            found = next(filter(None, map(_LOGGED_RELEASE.search, log)), None)
        return found.group(1).decode() if found else None

    def logged_errors(self, broker: int) -> str:
        """Return the errors that the broker has logged since its last start."""
        return jvm.errors_in(Path(self._log(broker)), self.state.node(broker).log_start)

    def note_refinalized(self) -> None:
        """Record it, so that the cluster is not lent on."""
        with self._lock:
            self.state.refinalized = True
            self.state.save(self.run.cluster)

    def _note_log_start(self, node: int) -> None:
        log = Path(self._log(node))
        self.state.node(node).log_start = log.stat().st_size if log.exists() else 0

    def _release_of(self, broker: int) -> Release:
        return self._prepared(self.state.node(broker).kafka)

    def _prepared(self, version: str, on_progress: Progress = silent) -> Release:
        if version not in self._releases:
            with_zookeeper = self.state.zookeeper is not None
            self._releases[version] = prepare(version, self.run, self.state.owner, on_progress, with_zookeeper)
        return self._releases[version]
