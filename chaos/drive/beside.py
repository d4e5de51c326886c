"""Clusters of a run beside its first one, such as the target of a mirror.

Each is deployed in its own directory below the run (`Run.beside`), with its own reaper, and ends with the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from chaos.cluster import state
from chaos.cluster.drivers import driver as driver_of
from chaos.cluster.settings import ClusterSpec
from chaos.errors import ClusterError
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.processes.process import ProcessId
from chaos.run.directory import Run, make_folder
from chaos.run.events import EventLog
from chaos.setup.model import Cluster


def new_spec(cluster: Cluster) -> ClusterSpec:
    """Return what a driver starts for a new cluster, without what only faults need."""
    return ClusterSpec(
        brokers=cluster.brokers,
        controllers=cluster.controllers or 0,
        voters=cluster.voters or 0,
        racks=tuple(cluster.racks),
        kafka=cluster.kafka,
        metadata=cluster.metadata,
        features=cluster.features,
        config=cluster.config,
        heap_bytes=cluster.heap,
        cpus=cluster.cpus,
        memory_bytes=cluster.memory,
        disk_bytes=cluster.disk,
        security=cluster.security,
    )


def deploy(
    run: Run, clusters: Mapping[str, Cluster], owner: ProcessId | None, deadline_s: float, events: EventLog
) -> None:
    """Start the clusters, one after the other. Raises like `Cluster.deploy`; what has started ends with the run."""
    for name, cluster in clusters.items():
        beside = run.beside(name)
        if not beside.path.exists():  # it does if a task of a DAG is tried again
            make_folder(beside.path, beside.logs)

        def note(text: str, name: str = name) -> None:
            events.note(f"cluster {name}: {text}")

        try:
            driver_of(cluster.driver).deploy(
                beside, new_spec(cluster), owner=owner, deadline_s=deadline_s, on_progress=note
            )
        except ClusterError as e:
            raise ClusterError(f"cluster {name}: {e}") from None


def addresses(run: Run, clusters: Iterable[str]) -> dict[str, str]:
    """Return the bootstrap servers of the clusters by name."""
    return {name: run.beside(name).bootstrap for name in clusters}


def end_brokers(run: Run, clusters: Iterable[str]) -> None:
    """End the brokers of the clusters. Raises `ClusterError`."""
    for name in clusters:
        saved = state.load(run.beside(name))
        driver_of(saved.driver).attach(run.beside(name)).end_brokers()


class Ends:
    """The ends of topics of the clusters, in a `with` block."""

    def __init__(self, run: Run, clusters: Iterable[str]) -> None:
        self._clients = {name: Kafka(at, topics=None) for name, at in addresses(run, clusters).items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.ExitStack() as stack:
            for client in self._clients.values():
                stack.callback(client.close)

    def records(self, cluster: str, topic: str) -> tuple[int, bool]:
        """Return the sum of the end offsets of a topic, as far as answered, and whether a transaction is open there."""
        client = self._clients[cluster]
        metadata = client.metadata()
        partitions = [p for p in metadata.partitions if p.topic == topic] if metadata else []
        return total(client, partitions)


def total(kafka: Kafka, partitions: Iterable[TopicPartition]) -> tuple[int, bool]:
    """Return the sum of the end offsets of partitions, as far as answered, and whether a transaction is open in one."""
    offsets = kafka.stable_offsets(partitions).values()
    return sum(end for end, _ in offsets), any(stable < end for end, stable in offsets)
