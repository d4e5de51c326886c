"""The brokers of a cluster, each over a connection of its own: whom to ask, and what they show together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from chaos.kafka.access import Access
from chaos.kafka.connection import Link
from chaos.kafka.metadata_merge import Metadata, PartitionState, Views
from chaos.kafka.partition import TopicPartition

METADATA = 8
"""Version of the request."""
NO_LEADER = -1
SHUN_S = 2.0
"""How long a broker that did not answer is asked only if nobody else does."""

_Named = MetadataRequest.MetadataRequestTopic


class Brokers:
    """The brokers of a cluster. One question at a time, from any thread.

    `topics` are all that its metadata is asked for: others may have thousands. None means every topic.
    """

    def __init__(
        self, bootstrap: str, timeout_s: float = 1.0, access: Access | None = None, topics: Sequence[str] | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._asking = threading.RLock()
        self._access = access
        self._topics = None if topics is None else [_Named(name=name) for name in topics]
        self._order = addresses(bootstrap)
        self._links = {address: Link(*address, access) for address in self._order}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._views = Views()
        self._shunned: dict[tuple[str, int], float] = {}

    def close(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            link.close()

    def metadata(self) -> Metadata | None:
        """Brokers and partitions: what the next broker in turn says, with what the others said lately; see `Views`."""
        answer = self.ask_any(MetadataRequest[METADATA](topics=self._topics, allow_auto_topic_creation=False))
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
        view = Metadata(dict(sorted(brokers.items())), partitions, answer.controller_id, answer.cluster_id or "")
        self._views.note(self._order[-1], view)
        merged = self._views.merged()
        self._brokers.update(merged.brokers if merged else {})
        return merged

    def unhealthy(self, partitions: Iterable[TopicPartition]) -> list[str]:
        """Which partitions lack a leader or a replica in their ISR, in words; empty when all is well."""
        metadata = self.metadata()
        if metadata is None:
            return ["no broker answers"]
        found = []
        for name in partitions:
            state = metadata.partitions.get(name)
            if state is None or state.leader == NO_LEADER:
                found.append(f"{name} has no leader")
            elif len(state.isr) < len(state.replicas):
                found.append(f"{name} has ISR {list(state.isr)} of {list(state.replicas)}")
        return found

    def ask_any(self, request: Any) -> Any:
        """Ask the next broker in turn that answers, and that the others do not know for dead; it is then the last.

        None if none answers.
        """
        with self._asking:
            return self._ask_any(request)

    def _ask_any(self, request: Any) -> Any:
        listed, now = self._views.listed().values(), time.monotonic()

        def against(address: tuple[str, int]) -> tuple[bool, bool]:
            """What speaks against asking it: it did not answer just now; the others do not list it any more."""
            fenced = bool(listed) and address in self._brokers.values() and address not in listed
            return self._shunned.get(address, 0.0) > now, fenced

        for address in sorted(self._order, key=against):
            try:
                answer = self._links[address].ask(request, self._timeout_s)
            except OSError:
                self._shunned[address] = time.monotonic() + SHUN_S
                self._views.forget(address)
                continue
            self._order.remove(address)
            self._order.append(address)
            return answer
        return None

    def ask(self, broker: int, request: Any, timeout_s: float | None = None) -> Any:
        """Ask this broker; None if it does not answer, or nobody knows where it is."""
        with self._asking:
            return self._ask(broker, request, self._timeout_s if timeout_s is None else timeout_s)

    def _ask(self, broker: int, request: Any, timeout_s: float) -> Any:
        if broker not in self._brokers and self.metadata() is None:
            return None
        address = self._brokers.get(broker)
        if address is None:
            return None
        try:
            return self._links.setdefault(address, Link(*address, self._access)).ask(request, timeout_s)
        except OSError:
            return None


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Host and port of each bootstrap server; an IPv6 host may stand in brackets."""
    parts = [text.strip().rpartition(":") for text in bootstrap.split(",")]
    return [(host.strip("[]"), int(port)) for host, _, port in parts]
