"""What the clusters of all drivers have in common: a run, its `cluster.json`, and who is where."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Self

from chaos.cluster import state
from chaos.cluster.lifecycle.gc import end_all
from chaos.cluster.state import BrokerStatus, ClusterState
from chaos.run.directory import Run


class Deployed:
    """The cluster of one run. Its methods may be called from several threads."""

    def __init__(self, run: Run, found: ClusterState) -> None:
        self.run = run
        self.state = found
        self._lock = threading.RLock()  # around the state and its file, never around a wait

    @classmethod
    def attach(cls, run: Run) -> Self:
        """The cluster that some process deployed for this run. Raises `RunDirError` without a sound `cluster.json`."""
        return cls(run, state.load(run))

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers, as a client's `bootstrap.servers` takes them."""
        return self.state.bootstrap

    @property
    def broker_ids(self) -> list[int]:
        """The node ids, ascending."""
        return [b.id for b in self.state.brokers]

    def address(self, broker: int) -> tuple[str, int]:
        """Where clients reach a broker."""
        known = self.state.broker(broker)
        return known.host, known.port

    def check(self) -> None:
        """Raise `ClusterError` if something has ended that the cluster needs beside its brokers."""

    def start_broker(self, broker: int) -> None:
        """Start a broker with its data, and wait until it is ready; nothing to do for one that runs."""
        self.start_brokers([broker])

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several at once: after the loss of the majority, no single one gets ready by itself."""
        raise NotImplementedError

    def destroy(self) -> None:
        """End everything of the run, clients and reaper included, and remove the brokers' data; the logs stay."""
        end_all(self.run.path)
        if self.run.cluster.exists():  # the whole run directory may have been removed
            for broker in self.broker_ids:
                self._note(broker, "ended")

    def _note(self, broker: int, status: BrokerStatus) -> None:
        with self._lock:
            self.state.broker(broker).state = status
            self.state.save(self.run.cluster)

    def _log(self, broker: int) -> str:
        return str(self.run.path / str(self.state.broker(broker).log))
