"""Asking a Kafka cluster what it shows to the outside: answers as plain data.

A question that the cluster does not answer in time gives None (or leaves the part out): while brokers are being killed
that is news, not an error. Versions of requests are those that Kafka 2.8 to 4.3 all speak (KIP-896).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeQuorumRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from chaos.access import Access
from chaos.groups import UNKNOWN_GROUP, GroupState, of_classic, of_kip_848
from chaos.schemas.groups import ConsumerGroupDescribeRequest
from chaos.views import Metadata, PartitionState, Views
from chaos.wire import Link, ask_versions

NO_LEADER = -1
NO_ERROR = 0
CONSUMER_GROUP_DESCRIBE = 69
"""The key of that API."""
LATEST, EARLIEST = -1, -2
"""The timestamps by which ListOffsets means the ends of a log."""

METADATA, FIND_COORDINATOR, DESCRIBE_GROUPS, OFFSET_FETCH, LIST_OFFSETS = 8, 2, 4, 5, 5
DESCRIBE_QUORUM, EPOCH_END = 0, 3
"""Version of each request."""

SHUN_S = 2.0
"""How long a broker that did not answer is asked only if nobody else does."""

_EndsOf = ListOffsetsRequest.ListOffsetsTopic
_EpochOf = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
_CommittedOf = OffsetFetchRequest.OffsetFetchRequestTopic
_Named = MetadataRequest.MetadataRequestTopic


class Kafka:
    """Questions to a cluster, each broker over a connection of its own; one question at a time.

    `topics` are all that its metadata is asked for: others may have thousands. None means every topic.
    """

    def __init__(
        self, bootstrap: str, timeout_s: float = 1.0, access: Access | None = None, topics: Sequence[str] | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._access = access
        self._topics = None if topics is None else [_Named(name=name) for name in topics]
        self._order = addresses(bootstrap)
        self._links = {address: Link(*address, access) for address in self._order}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._views = Views()
        self._shunned: dict[tuple[str, int], float] = {}
        self._kip_848: dict[int, bool] = {}
        self._kraft: bool | None = None  # not asked yet
        self._asking = threading.RLock()

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
            f"{topic.name}/{p.partition_index}": PartitionState(
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

    def end_offsets(self, partitions: Iterable[str]) -> dict[str, int]:
        """High watermarks of the partitions whose leaders answer."""
        return self._offsets(partitions, LATEST)

    def start_offsets(self, partitions: Iterable[str]) -> dict[str, int]:
        """Where the logs begin, of the partitions whose leaders answer."""
        return self._offsets(partitions, EARLIEST)

    def _offsets(self, partitions: Iterable[str], timestamp: int) -> dict[str, int]:
        metadata = self.metadata()
        if metadata is None:
            return {}
        by_leader: dict[int, list[str]] = {}
        for name in partitions:
            if (state := metadata.partitions.get(name)) is not None:
                by_leader.setdefault(state.leader, []).append(name)
        found: dict[str, int] = {}
        for leader, names in by_leader.items():
            found.update(self._offsets_at(leader, names, timestamp))
        return found

    def _offsets_at(self, leader: int, names: list[str], timestamp: int) -> dict[str, int]:
        topics = [_offsets_of(topic, numbers, timestamp) for topic, numbers in _by_topic(names).items()]
        answer = self.ask(leader, ListOffsetsRequest[LIST_OFFSETS](replica_id=-1, isolation_level=0, topics=topics))
        if answer is None:
            return {}
        return {
            f"{topic.name}/{p.partition_index}": p.offset
            for topic in answer.topics
            for p in topic.partitions
            if p.error_code == NO_ERROR
        }

    def epoch_end(self, partition: str, epoch: int) -> int | None:
        """Where a leader epoch ends in the log, as the partition's leader has it now; None where it gives no answer."""
        metadata = self.metadata()
        state = metadata.partitions.get(partition) if metadata else None
        if state is None:
            return None
        topic, _, number = partition.rpartition("/")
        one = _EpochOf.OffsetForLeaderPartition(partition=int(number), current_leader_epoch=-1, leader_epoch=epoch)
        asked = [_EpochOf(topic=topic, partitions=[one])]
        answer = self.ask(state.leader, OffsetForLeaderEpochRequest[EPOCH_END](replica_id=-1, topics=asked))
        found = answer.topics[0].partitions[0] if answer and answer.topics else None
        return int(found.end_offset) if found and found.error_code == NO_ERROR and found.end_offset >= 0 else None

    def coordinator(self, group: str) -> int | None:
        """The broker that a FindCoordinator request names; None where it is refused or nobody answers."""
        return self._coordinator(group, 0)

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        """The broker that coordinates the transactions of an id; None where it is refused or nobody answers."""
        return self._coordinator(transactional_id, 1)

    def _coordinator(self, key: str, key_type: int) -> int | None:
        answer = self.ask_any(FindCoordinatorRequest[FIND_COORDINATOR](key=key, key_type=key_type))
        if answer is None or answer.error_code != NO_ERROR:
            return None
        self._brokers.setdefault(answer.node_id, (answer.host, answer.port))
        return int(answer.node_id)

    def controller(self) -> tuple[int, int] | None:
        """The active controller and its epoch; None where nobody knows one.

        In KRaft the leader of the quorum. With ZooKeeper, metadata names it, and its epoch (0 here) is not shown.
        """
        if self._kraft is None:
            versions = self.ask_any(ask_versions())
            if versions is None:
                return None
            self._kraft = any(api.api_key == DescribeQuorumRequest.API_KEY for api in versions.api_keys)
        if not self._kraft:
            metadata = self.metadata()
            return (metadata.controller, 0) if metadata and metadata.controller >= 0 else None
        topic = DescribeQuorumRequest.TopicData
        asked = topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])
        answer = self.ask_any(DescribeQuorumRequest[DESCRIBE_QUORUM](topics=[asked]))
        if answer is None or answer.error_code != NO_ERROR or not answer.topics:
            return None
        quorum = answer.topics[0].partitions[0]
        if quorum.error_code != NO_ERROR or quorum.leader_id < 0:
            return None
        return int(quorum.leader_id), int(quorum.leader_epoch)

    def group(self, group: str) -> GroupState | None:
        """State and members of a group, from its coordinator."""
        coordinator = self.coordinator(group)
        if coordinator is None:
            return None
        answer = self.ask(coordinator, DescribeGroupsRequest[DESCRIBE_GROUPS](groups=[group]))
        if answer is None or answer.groups[0].error_code != NO_ERROR:
            return None
        state = of_classic(answer.groups[0], coordinator)
        if state.state == UNKNOWN_GROUP and self._knows_kip_848(coordinator):
            return self._group_of_kip_848(group, coordinator) or state
        return state

    def _knows_kip_848(self, broker: int) -> bool:
        """Whether a broker can describe groups of the `consumer` protocol; others would close the connection."""
        if broker not in self._kip_848:
            answer = self.ask(broker, ask_versions())
            if answer is None:
                return False
            self._kip_848[broker] = any(api.api_key == CONSUMER_GROUP_DESCRIBE for api in answer.api_keys)
        return self._kip_848[broker]

    def _group_of_kip_848(self, group: str, coordinator: int) -> GroupState | None:
        """A group whose members speak the `consumer` protocol, which DescribeGroups calls unknown."""
        answer = self.ask(coordinator, ConsumerGroupDescribeRequest[0](group_ids=[group]))
        if answer is None or answer.groups[0].error_code != NO_ERROR:
            return None
        return of_kip_848(answer.groups[0], coordinator)

    def committed(self, group: str, partitions: Iterable[str]) -> dict[str, int] | None:
        """Committed offsets of a group by partition; partitions without one are left out."""
        coordinator = self.coordinator(group)
        if coordinator is None:
            return None
        topics = [_CommittedOf(name=topic, partition_indexes=n) for topic, n in _by_topic(partitions).items()]
        answer = self.ask(coordinator, OffsetFetchRequest[OFFSET_FETCH](group_id=group, topics=topics))
        if answer is None or answer.error_code != NO_ERROR:
            return None
        return {
            f"{topic.name}/{p.partition_index}": p.committed_offset
            for topic in answer.topics
            for p in topic.partitions
            if p.error_code == NO_ERROR and p.committed_offset >= 0
        }

    def unhealthy(self, partitions: Iterable[str]) -> list[str]:
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


def _by_topic(partitions: Iterable[str]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for name in partitions:
        topic, _, number = name.rpartition("/")
        topics.setdefault(topic, []).append(int(number))
    return topics


def _offsets_of(topic: str, numbers: list[int], timestamp: int) -> Any:
    kind = _EndsOf.ListOffsetsPartition
    parts = [kind(partition_index=n, current_leader_epoch=-1, timestamp=timestamp) for n in numbers]
    return _EndsOf(name=topic, partitions=parts)
