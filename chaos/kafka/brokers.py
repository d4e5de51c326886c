"""The connections to the brokers of a cluster: the choice of a broker to ask, and the merged metadata."""

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from chaos.kafka import messages
from chaos.kafka.connection import BrokerConnection
from chaos.kafka.metadata import NO_LEADER, Metadata, PartitionState, Views
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access

METADATA = 3
"""API key of Metadata."""
SHUN_S = 2.0
"""Seconds for which a broker that did not answer is asked after all others."""


class Brokers:
    """The brokers of a cluster. Thread-safe; sends one request at a time.

    `topics` limits the metadata to these topics (None: all), for clusters with thousands of others.
    """

    def __init__(
        self, bootstrap: str, timeout_s: float = 1.0, access: Access | None = None, topics: Sequence[str] | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._access = access
        self._topics = topics
        self._order = addresses(bootstrap)
        self._connections = {address: BrokerConnection(*address, access) for address in self._order}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._views = Views()
        self._shunned: dict[tuple[str, int], float] = {}
        self._apis: dict[int | None, dict[int, int]] = {}
        """The highest supported version of each API key, by broker; None: of any broker."""

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()

    def metadata(self) -> Metadata | None:
        """Ask the next broker and return the merged metadata (see `Views`); None if no broker answers."""
        with_ids = self.supports(METADATA, version=messages.TOPIC_IDS)
        answer = None if with_ids is None else self.ask_any(messages.metadata(self._topics, with_ids))
        if answer is None:
            return None
        brokers = {b.node_id: (b.host, b.port) for b in answer.brokers}
        partitions = {
            TopicPartition(topic.name, p.partition_index): PartitionState(
                p.leader_id, p.leader_epoch, tuple(sorted(p.isr_nodes)), tuple(p.replica_nodes)
            )
            for topic in answer.topics
            for p in topic.partitions
        }
        ids = {t.name: topic_id for t in answer.topics if with_ids and (topic_id := id_text(t.topic_id))}
        view = Metadata(dict(sorted(brokers.items())), partitions, answer.controller_id, answer.cluster_id or "", ids)
        self._views.note(self._order[-1], view)
        merged = self._views.merged()
        self._brokers.update(merged.brokers if merged else {})
        return merged

    def state(self, partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition; None if no broker answers, or the metadata does not contain it."""
        metadata = self.metadata()
        return metadata.partitions.get(partition) if metadata else None

    def topic_id_at(self, broker: int, topic: str) -> str | None:
        """Return the id under which one broker lists a topic; empty if it does not, None without an answer."""
        answer = self.ask(broker, messages.metadata([topic], topic_ids=True))
        return None if answer is None else "".join(id_text(t.topic_id) for t in answer.topics if t.name == topic)

    def lacking(self, topics: Sequence[str]) -> list[str]:
        """Describe the brokers that do not list one of the topics yet. Empty: a client may ask any broker.

        Brokers learn about a new topic one after the other. A merged view of some of them can have it and lose it.
        """
        metadata = self.metadata()
        if metadata is None:
            return ["no broker answers"]
        problems = []
        for broker in metadata.brokers:
            answer = self.ask(broker, messages.metadata(topics))
            listed = {t.name for t in answer.topics if not t.error_code} if answer else set()
            problems += [f"broker {broker} does not list {topic}" for topic in topics if topic not in listed]
        return problems

    def unhealthy(self, partitions: Iterable[TopicPartition]) -> list[str]:
        """Describe the partitions without a leader or with a replica that is not in sync. Empty: all are healthy."""
        metadata = self.metadata()
        if metadata is None:
            return ["no broker answers"]
        problems = []
        for partition in partitions:
            state = metadata.partitions.get(partition)
            if state is None or state.leader == NO_LEADER:
                problems.append(f"{partition} has no leader")
            elif len(state.isr) < len(state.replicas):
                problems.append(f"{partition} has ISR {list(state.isr)} of {list(state.replicas)}")
        return problems

    def ask_any(self, request: Any) -> Any:
        """Return the answer of the first broker that answers; None if none does. Each call begins with another one.

        Brokers that did not answer lately, or that the other brokers no longer list, come last.
        """
        with self._lock:
            listed, now = self._views.listed().values(), time.monotonic()

            def drawbacks(address: tuple[str, int]) -> tuple[bool, bool]:
                unlisted = bool(listed) and address in self._brokers.values() and address not in listed
                return self._shunned.get(address, 0.0) > now, unlisted

            for address in sorted(self._order, key=drawbacks):
                try:
                    answer = self._connections[address].ask(request, self._timeout_s)
                except OSError:
                    self._apis.clear()  # the broker may come back with another release
                    self._shunned[address] = time.monotonic() + SHUN_S
                    self._views.forget(address)
                    continue
                self._order.remove(address)
                self._order.append(address)
                return answer
            return None

    def ask(self, broker: int, request: Any, timeout_s: float | None = None) -> Any:
        """Return the answer of a broker; None if it does not answer, or its address is unknown."""
        with self._lock:
            if broker not in self._brokers:
                self.metadata()
            address = self._brokers.get(broker)
            if address is None:
                return None
            connection = self._connections.setdefault(address, BrokerConnection(*address, self._access))
            try:
                return connection.ask(request, self._timeout_s if timeout_s is None else timeout_s)
            except OSError:
                self._apis.clear()  # as above
                self._shunned[address] = time.monotonic() + SHUN_S
                return None

    def is_silent(self, broker: int) -> bool:
        """Return whether a broker did not answer the last request, less than `SHUN_S` ago."""
        return self._shunned.get(self._brokers.get(broker, ("", 0)), 0.0) > time.monotonic()

    def supports(self, api: int, broker: int | None = None, version: int = 0) -> bool | None:
        """Return whether a broker (None: any) supports a version of an API key; None if it does not answer.

        Brokers close the connection on an unknown API key.
        """
        known = self._apis.get(broker)
        if known is None:
            answer = self.ask_any(messages.versions()) if broker is None else self.ask(broker, messages.versions())
            if answer is None:
                return None
            self._apis[broker] = known = {key.api_key: key.max_version for key in answer.api_keys}
        return known.get(api, -1) >= version


def id_text(topic_id: uuid.UUID | None) -> str:
    """Return a topic id as Kafka prints it, base64 of its bytes; empty for no id and for zero, which means none."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=") if topic_id and topic_id.int else ""


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Return host and port of each bootstrap server. An IPv6 host may be in brackets."""
    parts = [text.strip().rpartition(":") for text in bootstrap.split(",")]
    return [(host.strip("[]"), int(port)) for host, _, port in parts]
