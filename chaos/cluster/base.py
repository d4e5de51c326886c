"""The base class of the drivers: a run, its `cluster.json`, and the addresses of its brokers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Self

from chaos.cluster import state, teardown
from chaos.cluster.state import BrokerStatus, ClusterState
from chaos.run.directory import Run


class BaseCluster:
    """The cluster of one run. Its methods may be called from several threads."""

    CLEAR_FIRST: ClassVar[bool] = False
    """Whether `clear` must run before the processes of a run can be ended; see `chaos.cluster.teardown`."""

    def __init__(self, run: Run, cluster_state: ClusterState) -> None:
        self.run = run
        self.state = cluster_state
        self._lock = threading.RLock()  # protects the state and its file; never held during a wait

    @classmethod
    def attach(cls, run: Run) -> Self:
        """Return the deployed cluster of a run. Raises `RunDirError` if `cluster.json` is missing or damaged."""
        return cls(run, state.load(run))

    @staticmethod
    def clear(run: Run) -> None:
        """Remove what a run leaves outside of its processes; nothing by default."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers, in the format of the client setting `bootstrap.servers`."""
        return self.state.bootstrap

    @property
    def broker_ids(self) -> list[int]:
        """The node IDs, ascending."""
        return [b.id for b in self.state.brokers]

    def address(self, broker: int) -> tuple[str, int]:
        """Return the host and port at which clients reach a broker."""
        broker_state = self.state.broker(broker)
        return broker_state.host, broker_state.port

    def check(self) -> None:
        """Raise `ClusterError` if a component that the brokers depend on has ended; there is none by default."""

    def start_broker(self, broker: int) -> None:
        """Start a broker with its data, and wait until it is ready; do nothing if it runs."""
        self.start_brokers([broker])

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several brokers together: without a quorum majority, a single broker never becomes ready."""
        raise NotImplementedError

    def destroy(self) -> None:
        """End everything of the run, including clients and reaper, and remove the brokers' data; keep the logs."""
        teardown.end_all(self.run.path, partial(self.clear, self.run), clear_first=self.CLEAR_FIRST)
        if self.run.cluster.exists():  # the whole run directory may have been removed
            self._record_end()

    def _record_end(self) -> None:
        for broker in self.broker_ids:
            self._set_status(broker, "ended")

    def _set_status(self, broker: int, status: BrokerStatus) -> None:
        with self._lock:
            self.state.broker(broker).state = status
            self.state.save(self.run.cluster)

    def _log(self, broker: int) -> str:
        return str(self.run.path / str(self.state.broker(broker).log))
