"""Asking a Kafka cluster, through the Admin API of confluent-kafka: answers as plain data.

A question that the cluster does not answer in time gives None (or leaves the part out): while brokers are being killed
that is news, not an error.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from chaos.errors import ClusterError
from chaos.wait import wait_until

NO_LEADER = -1
ANSWER_TIMEOUT_S = 1.0
"""How long one broker is given to answer a question about metadata before the next one is asked."""


@dataclass(frozen=True)
class PartitionState:
    """Leader (-1: none), in-sync replicas and all replicas of one partition, as the metadata says."""

    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class Metadata:
    """The brokers that are registered and unfenced, and the partitions by `topic/number`."""

    brokers: tuple[int, ...]
    partitions: Mapping[str, PartitionState]


@dataclass(frozen=True)
class End:
    """End offset (the high watermark) of a partition, and the leader's epoch."""

    offset: int
    leader_epoch: int | None


@dataclass(frozen=True)
class GroupMember:
    """One member of a group as its coordinator shows it."""

    member_id: str
    client_id: str
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class GroupState:
    """A group as its coordinator shows it."""

    state: str
    coordinator: int
    members: tuple[GroupMember, ...]


class Kafka:
    """One connection to a cluster; not shared between threads, so that a slow answer holds up nobody else."""

    def __init__(self, bootstrap: str, timeout_s: float = 3.0) -> None:
        self._admin = _admin(bootstrap)
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._asking_as: dict[str, Consumer] = {}

    @cached_property
    def _one_each(self) -> list[AdminClient]:
        """One client a broker, tried in turn.

        A stopped broker accepts a request and never answers it; a client that knows several would ask it again.
        """
        return [_admin(address) for address in self._bootstrap.split(",")]

    def metadata(self) -> Metadata | None:
        """Brokers and partitions, from whichever broker answers."""
        for _ in self._one_each:
            try:
                answer = self._one_each[0].list_topics(timeout=ANSWER_TIMEOUT_S)
                break
            except KafkaException:
                self._one_each.append(self._one_each.pop(0))
        else:
            return None
        partitions = {
            f"{topic.topic}/{number}": PartitionState(p.leader, tuple(sorted(p.isrs)), tuple(p.replicas))
            for topic in answer.topics.values()
            for number, p in topic.partitions.items()
        }
        return Metadata(tuple(sorted(answer.brokers)), partitions)

    def offsets(self, partitions: Iterable[str], spec: OffsetSpec | None = None) -> dict[str, End]:
        """End offsets (or those of another spec) of the partitions whose leaders answer."""
        asked = {_topic_partition(p): spec or OffsetSpec.latest() for p in partitions}
        if not asked:
            return {}
        try:
            futures = self._admin.list_offsets(asked, request_timeout=self._timeout_s)
        except KafkaException:
            return {}
        answers = ((f"{tp.topic}/{tp.partition}", _result(future, self._timeout_s)) for tp, future in futures.items())
        return {name: End(a.offset, a.leader_epoch) for name, a in answers if a is not None}

    def group(self, group: str) -> GroupState | None:
        """Members, state and coordinator of a group; a group nobody knows is `DEAD` and has no members."""
        try:
            future = self._admin.describe_consumer_groups([group], request_timeout=self._timeout_s)[group]
        except KafkaException:
            return None
        answer = _result(future, self._timeout_s)
        if answer is None or answer.coordinator is None:
            return None
        members = tuple(
            GroupMember(
                m.member_id,
                m.client_id,
                tuple(sorted(f"{tp.topic}/{tp.partition}" for tp in (m.assignment.topic_partitions or []))),
            )
            for m in answer.members
        )
        return GroupState(answer.state.name, answer.coordinator.id, members)

    def committed(self, group: str, partitions: Iterable[str]) -> dict[str, int] | None:
        """Committed offsets of a group by partition; partitions without one are left out.

        Asked through a consumer that never subscribes. The Admin API's own call kills the process when the answer is
        NOT_COORDINATOR, which is what a cluster says while a coordinator moves (librdkafka issue 5040).
        """
        if group not in self._asking_as:
            config = {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "log_level": 0,
            }
            self._asking_as[group] = Consumer(config)
        try:
            answer = self._asking_as[group].committed(
                [_topic_partition(p) for p in partitions], timeout=self._timeout_s
            )
        except KafkaException:
            return None
        return {f"{tp.topic}/{tp.partition}": tp.offset for tp in answer if tp.offset >= 0 and tp.error is None}

    def create_topics(self, topics: Iterable[NewTopic], timeout_s: float = 30.0) -> None:
        """Create topics and wait until every partition has a leader and a full ISR."""
        topics = list(topics)
        for name, future in self._admin.create_topics(topics, operation_timeout=timeout_s).items():
            try:
                future.result(timeout_s)
            except (KafkaException, concurrent.futures.TimeoutError) as e:
                raise ClusterError(f"topic {name} could not be created: {_reason(e)}") from None
        wanted = [f"{t.topic}/{p}" for t in topics for p in range(t.num_partitions)]
        wait_until(lambda: self.healthy(wanted), timeout_s, lambda: f"no full ISR for {self.unhealthy(wanted)}")

    def healthy(self, partitions: Iterable[str]) -> bool:
        """Whether each of the partitions has a leader and all of its replicas in sync."""
        return not self.unhealthy(partitions)

    def unhealthy(self, partitions: Iterable[str]) -> list[str]:
        """What is missing, by partition, in words."""
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


def _admin(bootstrap: str) -> AdminClient:
    # librdkafka would print each refused connection; while brokers die on purpose that is noise
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 10_000})


def _topic_partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("/")
    return TopicPartition(topic, int(number))


def _result(future: concurrent.futures.Future, timeout_s: float):  # type: ignore[no-untyped-def, type-arg]
    """The answer, or None where the cluster refused or did not answer."""
    try:
        return future.result(timeout_s + 1)
    except (KafkaException, concurrent.futures.TimeoutError):
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, KafkaException):
        return str(error.args[0].str())
    return "no answer"
