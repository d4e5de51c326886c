"""Asking a Kafka cluster what it shows to the outside: answers as plain data.

A question that the cluster does not answer in time gives None (or leaves the part out): while brokers are being killed
that is news, not an error. Versions of requests are those that Kafka 2.8 to 4.3 all speak (KIP-896).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from chaos.access import Access
from chaos.views import Metadata, PartitionState, Views
from chaos.wire import Link

NO_LEADER = -1
NO_ERROR = 0
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

METADATA, FIND_COORDINATOR, DESCRIBE_GROUPS, OFFSET_FETCH, LIST_OFFSETS = 8, 2, 4, 5, 5
"""Version of each request."""

SHUN_S = 2.0
"""How long a broker that did not answer is asked only if nobody else does."""

_EndsOf = ListOffsetsRequest.ListOffsetsTopic
_CommittedOf = OffsetFetchRequest.OffsetFetchRequestTopic
_Named = MetadataRequest.MetadataRequestTopic


@dataclass(frozen=True)
class GroupMember:
    """One member of a group as its coordinator shows it."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class GroupState:
    """A group as its coordinator shows it; one that nobody knows is `Dead` and has no members."""

    state: str
    coordinator: int
    members: tuple[GroupMember, ...]


class Kafka:
    """Questions to a cluster, each broker over a connection of its own. Not for several threads.

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
        found: dict[str, int] = {}
        for leader, names in self._by_leader(partitions).items():
            found.update(self._end_offsets_at(leader, names))
        return found

    def stable_offsets(self, partitions: Iterable[str]) -> dict[str, tuple[int, int]]:
        """High watermark and last stable offset of the partitions whose leaders answer to both, asked in this order:
        where no transaction is open the second is not below the first."""
        found: dict[str, tuple[int, int]] = {}
        for leader, names in self._by_leader(partitions).items():
            ends = self._end_offsets_at(leader, names)
            stable = self._end_offsets_at(leader, names, READ_COMMITTED) if ends else {}
            found.update({name: (end, stable[name]) for name, end in ends.items() if name in stable})
        return found

    def _by_leader(self, partitions: Iterable[str]) -> dict[int, list[str]]:
        metadata, by_leader = self.metadata(), dict[int, list[str]]()
        for name in partitions:
            if metadata is not None and (state := metadata.partitions.get(name)) is not None:
                by_leader.setdefault(state.leader, []).append(name)
        return by_leader

    def _end_offsets_at(self, leader: int, names: list[str], isolation: int = READ_UNCOMMITTED) -> dict[str, int]:
        topics = [_ends_of(topic, numbers) for topic, numbers in _by_topic(names).items()]
        request = ListOffsetsRequest[LIST_OFFSETS](replica_id=-1, isolation_level=isolation, topics=topics)
        answer = self.ask(leader, request)
        if answer is None:
            return {}
        return {
            f"{topic.name}/{p.partition_index}": p.offset
            for topic in answer.topics
            for p in topic.partitions
            if p.error_code == NO_ERROR
        }

    def coordinator(self, group: str) -> int | None:
        """The broker that a FindCoordinator request names; None where it is refused or nobody answers."""
        answer = self.ask_any(FindCoordinatorRequest[FIND_COORDINATOR](key=group, key_type=0))
        if answer is None or answer.error_code != NO_ERROR:
            return None
        self._brokers.setdefault(answer.node_id, (answer.host, answer.port))
        return int(answer.node_id)

    def group(self, group: str) -> GroupState | None:
        """State and members of a group, from its coordinator."""
        coordinator = self.coordinator(group)
        if coordinator is None:
            return None
        answer = self.ask(coordinator, DescribeGroupsRequest[DESCRIBE_GROUPS](groups=[group]))
        if answer is None or answer.groups[0].error_code != NO_ERROR:
            return None
        described = answer.groups[0]
        members = tuple(
            GroupMember(m.member_id, m.client_id, m.client_host, _assigned(m.member_assignment))
            for m in described.members
        )
        return GroupState(described.group_state, coordinator, members)

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

    def ask(self, broker: int, request: Any) -> Any:
        """Ask this broker; None if it does not answer, or nobody knows where it is."""
        if broker not in self._brokers and self.metadata() is None:
            return None
        address = self._brokers.get(broker)
        if address is None:
            return None
        try:
            return self._links.setdefault(address, Link(*address, self._access)).ask(request, self._timeout_s)
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


def _ends_of(topic: str, numbers: list[int]) -> Any:
    parts = [_EndsOf.ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=-1) for n in numbers]
    return _EndsOf(name=topic, partitions=parts)


def _assigned(data: Any) -> tuple[str, ...]:
    """The partitions in a member's assignment, which is empty while the group rebalances."""
    if not data:
        return ()
    assignment = (
        data if isinstance(data, ConsumerProtocolAssignment) else ConsumerProtocolAssignment.decode(bytes(data))
    )
    return tuple(sorted(f"{t.topic}/{p}" for t in assignment.assigned_partitions for p in t.partitions))
