"""Clusters of a run beside its first one, such as the target of a mirror.

Each is deployed in its own directory below the run (`Run.beside`), with its own reaper, and ends with the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from chaos.cluster import state
from chaos.cluster.api import Cluster
from chaos.cluster.drivers import driver as driver_of
from chaos.cluster.settings import ClusterSpec
from chaos.drive.found import as_found
from chaos.drive.rights import grant_rights, rights_of
from chaos.drive.topics import create_topics
from chaos.errors import ClusterError
from chaos.faults.base import FaultSpec, World
from chaos.faults.targets import answer
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.ledger.seal import seal
from chaos.observer import Observer
from chaos.processes.process import ProcessId
from chaos.run.directory import Run, make_folder
from chaos.run.events import EventLog
from chaos.scenario.model import Scenario


def new_spec(scenario: Scenario) -> ClusterSpec:
    """Return what a driver starts for the new cluster of a scenario, with what its faults need."""
    cluster = scenario.cluster
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
        switch=scenario.switched,
        clocks=scenario.skewed,
        disks=scenario.slowed,
    )


def deploy(run: Run, scenario: Scenario, owner: ProcessId | None, deadline_s: float, events: EventLog) -> None:
    """Start the clusters, one after the other. Raises like `Cluster.deploy`; what has started ends with the run."""
    for name, cluster in scenario.clusters.items():
        beside = run.beside(name)
        if not beside.path.exists():  # it does if a task of a DAG is tried again
            make_folder(beside.path, beside.logs)

        def note(text: str, name: str = name) -> None:
            events.note(f"cluster {name}: {text}")

        try:
            started = driver_of(cluster.driver).deploy(
                beside, new_spec(scenario.at(name)), owner=owner, deadline_s=deadline_s, on_progress=note
            )
            kafka = Kafka(started.bootstrap, access=started.state.access(), topics=None)
            create_topics(kafka, scenario.at(name).topics)
            kafka.close()
            grant_rights(started, rights_of(scenario, name))
        except ClusterError as e:
            raise ClusterError(f"cluster {name}: {e}") from None


def end_brokers(run: Run, clusters: Iterable[str]) -> None:
    """End the brokers of the clusters. Raises `ClusterError`."""
    for name in clusters:
        _attached(run.beside(name)).end_brokers()


def _attached(run: Run) -> Cluster:
    return driver_of(state.load(run).driver).attach(run)


class Others:
    """The clusters beside the first one while a run drives, in a `with` block. Those with faults are observed.

    endpoints: how to reach them, by name.

    What observers see is in the ledger below each cluster's directory. No rule about records reads that ledger.
    """

    def __init__(self, run: Run, scenario: Scenario) -> None:
        self._run, self._scenario = run, scenario
        self._clusters = {name: _attached(run.beside(name)) for name in scenario.clusters}
        self._clients = {name: self._connect(name) for name in scenario.clusters}
        hit = dict.fromkeys(fault.cluster for fault in scenario.faults if fault.elsewhere)
        self._observers = {
            name: Observer(run.beside(name), partial(self._connect, name), [], [], later=None) for name in hit
        }
        self._stack = contextlib.ExitStack()
        self.endpoints = {name: cluster.state.endpoint for name, cluster in self._clusters.items()}

    def __enter__(self) -> Self:
        for client in self._clients.values():
            self._stack.callback(client.close)
        written = {topic.cluster for topic in self._scenario.topics} | self._observers.keys()
        for name in self._clusters.keys() & written:
            self._stack.callback(seal, self._run.beside(name).ledger)
        for observer in self._observers.values():
            self._stack.enter_context(observer)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def _connect(self, name: str) -> Kafka:
        cluster = self._clusters[name]
        return Kafka(cluster.bootstrap, access=cluster.state.access(), topics=None)

    def check(self) -> None:
        """Raise `ClusterError` if a process of a cluster has ended that no fault ended."""
        for name, cluster in self._clusters.items():
            try:
                cluster.check()
            except ClusterError as e:
                raise ClusterError(f"cluster {name}: {e}") from None

    def records(self, cluster: str, topics: Collection[str]) -> tuple[int, bool]:
        """Return the sum of the end offsets of topics, as far as answered, and whether a transaction is open there."""
        client = self._clients[cluster]
        metadata = client.metadata()
        partitions = [p for p in metadata.partitions if p.topic in topics] if metadata else []
        return total(client, partitions)

    def unhealthy(self) -> list[str]:
        """Describe the partitions without a leader or with replicas out of sync, in clusters with faults."""
        return [
            f"cluster {name}: {text}"
            for name, observer in self._observers.items()
            for text in self._clients[name].unhealthy(observer.partitions())
        ]

    def world(self, world: World, cluster: str) -> World:
        """Return the world of a fault of another cluster. It has a separate connection, which the caller closes."""
        return replace(
            world,
            scenario=self._scenario.at(cluster),
            cluster=self._clusters[cluster],
            observer=self._observers[cluster],
            kafka=self._connect(cluster),
            access=self._clusters[cluster].state.access(),
            proxy=None,
        )


def looked(spec: FaultSpec, world: World) -> World:
    """Return the world of a fault of another cluster with the topics that are there now. Raises `FaultError`."""
    metadata = answer(world.kafka.metadata, f"no broker of cluster {spec.cluster} answers")
    found = as_found(world.cluster, metadata, spec, world.kafka)
    return replace(world, scenario=found.model_copy(update={"cluster": world.scenario.cluster}))


def total(kafka: Kafka, partitions: Iterable[TopicPartition]) -> tuple[int, bool]:
    """Return the sum of the end offsets of partitions, as far as answered, and whether a transaction is open in one."""
    offsets = kafka.stable_offsets(partitions).values()
    return sum(end for end, _ in offsets), any(stable < end for end, stable in offsets)
