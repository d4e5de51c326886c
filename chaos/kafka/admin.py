"""Admin requests: changes of topics, settings, offsets, groups, leaders and replicas.

See `chaos.kafka.connection` for the reason not to use a client library. A request that the cluster refuses for the
moment, because a coordinator or controller moves, is repeated until it succeeds or `TIMEOUT_S` has passed. Every other
refusal raises `ClusterError` with Kafka's name for the error. The broker may have carried out a request although its
answer was lost. So a topic that exists already, or is gone already, counts as done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kafka.errors import for_code
from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import LeaveGroupRequest, OffsetCommitRequest, OffsetDeleteRequest

from chaos.errors import ClusterError, UsageError, WaitTimeout
from chaos.kafka.client import Kafka
from chaos.kafka.messages import request, topics
from chaos.kafka.partition import TopicPartition, by_topic
from chaos.kafka.schemas import (
    AlterShareGroupOffsetsRequest,
    ConsumerGroupHeartbeatRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
)
from chaos.wait import wait_until

TIMEOUT_S = 30.0
_TIMEOUT_MS = 10_000
_ANSWER_S = 12.0
_TOPIC_RESOURCE, _BROKER_RESOURCE, _GROUP_RESOURCE, _SET, _DELETE = 2, 4, 32, 0, 1
_OF_TOPIC, _OF_ONE_BROKER, _OF_GROUP = 1, 2, 8
_EXACT = 0
_LEAVING = -1
"""The epoch with which a member leaves a group of a protocol later than the classic one."""
_HEARTBEATS = ((ConsumerGroupHeartbeatRequest, 0), (StreamsGroupHeartbeatRequest, 0), (ShareGroupHeartbeatRequest, 1))
"""The requests by which members of the later protocols leave, each with its oldest version."""
_CHECKED = "aftershock-check"
"""The name of a topic that is asked for but never created."""
_PASSING = {3, 5, 6, 7, 14, 15, 16, 41, 80, 83}
"""Error codes that may pass: unknown topic, no leader or another one, timeout, moving coordinator or controller, no
replica to elect yet."""
_UNKNOWN_TOPIC, _TOPIC_EXISTS, _GROUP_NOT_FOUND, _ELECTION_NOT_NEEDED, _NO_REASSIGNMENT = 3, 36, 69, 84, 85
_NAME_FIELDS = ("name", "topic", "group_id", "resource_name", "partition_index", "partition_id")

_REFUSED = {29, 31}
"""Error codes of a missing right: of a topic, of the cluster."""

Level = Literal["topic", "broker", "all brokers", "file", "default"]
_LEVELS: dict[int, Level] = {1: "topic", 2: "broker", 3: "all brokers", 4: "file", 5: "default"}

Errors = list[tuple[str, int]]
"""Names of topics, groups or partitions with Kafka's error codes (0: success)."""
Broker = Callable[[Kafka], int | None]
"""The broker that must answer a request; None if unknown at the moment."""


@dataclass(frozen=True)
class DescribedSetting:
    """A value, and the level at which it is set.

    level: topic; broker or all brokers, set while they run; file, the broker's server.properties; or Kafka's default.
    """

    value: str
    level: Level


@dataclass(frozen=True)
class AdminRequest:
    """A request that changes the cluster."""

    change: str
    """The change in the imperative, such as `create orders`."""
    message: Any
    broker: Broker
    done: frozenset[int] = frozenset()
    """Error codes that mean that there is nothing left to do."""

    def attempt(self, kafka: Kafka) -> Errors | None:
        """Send the request once. Returns the errors; None if there is no answer."""
        answer = self._ask(kafka)
        return None if answer is None else self._left(answer)

    def _ask(self, kafka: Kafka) -> Any:
        broker = self.broker(kafka)
        return None if broker is None else kafka.ask(broker, self.message, _ANSWER_S)

    def _left(self, answer: Any) -> Errors:
        return [(name, code) for name, code in _errors(answer) if code and code not in self.done]

    def apply(self, kafka: Kafka) -> None:
        """Repeat the request until it succeeds. Raises `ClusterError`."""
        state = "no broker answers"

        def succeeds() -> bool:
            nonlocal state
            if (answer := self._ask(kafka)) is None:
                return False
            errors, reasons = self._left(answer), " ".join(dict.fromkeys(_reasons(answer)))
            state = ", ".join(f"{name}: {for_code(code).__name__}" for name, code in errors)
            state += f" ({reasons.rstrip('.')})" if errors and reasons else ""
            if any(code not in _PASSING for _, code in errors):
                raise ClusterError(f"the cluster refused to {self.change}: {state}")
            return not errors

        try:
            wait_until(succeeds, TIMEOUT_S, "", every_s=0.2)
        except WaitTimeout:
            raise ClusterError(f"the cluster did not {self.change} within {TIMEOUT_S:g} s: {state}") from None


def create_topic(kafka: Kafka, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> None:
    """Create a topic, unless it exists."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in config.items()],
    }
    message = request(CreateTopicsRequest[4], topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=False)
    AdminRequest(f"create {name}", message, any_broker, frozenset({_TOPIC_EXISTS})).apply(kafka)


def create_topic_at(kafka: Kafka, name: str, broker: int, config: Mapping[str, str]) -> None:
    """Create a topic with one partition and its only replica at one broker, unless the topic exists."""
    topic = {
        "name": name,
        "num_partitions": -1,  # as the assignments say
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [broker]}],
        "configs": [{"name": key, "value": value} for key, value in config.items()],
    }
    message = request(CreateTopicsRequest[4], topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=False)
    AdminRequest(f"create {name}", message, any_broker, frozenset({_TOPIC_EXISTS})).apply(kafka)


def accepts_changes(kafka: Kafka, timeout_s: float) -> bool:
    """Return whether an active controller checks a request for a new topic in time; the topic is not created."""
    topic = {"name": _CHECKED, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    message = request(CreateTopicsRequest[4], topics=[topic], timeout_ms=int(1000 * timeout_s), validate_only=True)
    broker = any_broker(kafka)
    answer = None if broker is None else kafka.ask(broker, message, timeout_s)
    return answer is not None and not any(code for _, code in _errors(answer))


def add_partitions(kafka: Kafka, topic: str, to: int) -> None:
    """Increase the number of partitions of a topic to `to`."""
    new = [{"name": topic, "count": to, "assignments": None}]
    message = request(CreatePartitionsRequest[1], topics=new, timeout_ms=_TIMEOUT_MS, validate_only=False)
    AdminRequest(f"extend {topic}", message, any_broker).apply(kafka)


def delete_topics(names: list[str]) -> AdminRequest:
    """Return the request that deletes topics. A topic that does not exist counts as deleted."""
    message = request(DeleteTopicsRequest[3], topic_names=names, timeout_ms=_TIMEOUT_MS)
    done = frozenset({_UNKNOWN_TOPIC})
    return AdminRequest(f"delete {', '.join(names)}", message, any_broker, done)


def delete_records(kafka: Kafka, before: Mapping[TopicPartition, int]) -> None:
    """Move the log start offset of each partition to the given offset."""
    for partition, offset in before.items():
        fields = topics({partition: {"offset": offset}})
        message = request(DeleteRecordsRequest[1], topics=fields, timeout_ms=_TIMEOUT_MS)
        AdminRequest(f"delete records of {partition}", message, _leader(partition)).apply(kafka)


def settings(kafka: Kafka, topic: str, keys: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Return the values of a topic's settings, each with whether it is set for the topic; empty without an answer."""
    answer = _described(kafka, _TOPIC_RESOURCE, topic, keys)
    if answer is None or any(r.error_code for r in answer.results):
        return {}
    return {c.name: (c.value or "", c.config_source == _OF_TOPIC) for r in answer.results for c in r.configs}


def reset_settings(kafka: Kafka, topic: str) -> None:
    """Remove all settings that are set for a topic. A topic that is gone has none. Raises `ClusterError`.

    All brokers are asked, because they learn about a setting one after the other.
    """
    metadata = kafka.metadata()
    answers = [_described(kafka, _TOPIC_RESOURCE, topic, None, b) for b in (metadata.brokers if metadata else ())]
    found = [c for answer in answers if answer for r in answer.results for c in r.configs or ()]
    if own := {c.name for c in found if c.config_source == _OF_TOPIC}:
        set_settings(kafka, topic, dict.fromkeys(sorted(own)))


def set_settings(kafka: Kafka, topic: str, values: Mapping[str, str | None]) -> None:
    """Set settings of a topic; None removes the topic's value, so that the default applies."""
    _change(kafka, _TOPIC_RESOURCE, topic, values, topic)


def set_group_settings(kafka: Kafka, group: str, values: Mapping[str, str]) -> None:
    """Give a group, which need not exist yet, these settings and no others."""
    answer = _described(kafka, _GROUP_RESOURCE, group, None)
    found = [c for r in answer.results for c in r.configs or ()] if answer else []
    former = [c.name for c in found if c.config_source == _OF_GROUP and c.name not in values]
    if changes := dict.fromkeys(former) | dict(values):
        _change(kafka, _GROUP_RESOURCE, group, changes, group)


def _change(
    kafka: Kafka, kind: int, name: str, values: Mapping[str, str | None], what: str, broker: Broker | None = None
) -> None:
    """Set settings of a resource, or remove a setting with None. what: its name for messages. broker: which to ask."""
    configs = [
        {"name": key, "config_operation": _DELETE if value is None else _SET, "value": value}
        for key, value in values.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    message = request(IncrementalAlterConfigsRequest[0], resources=[resource], validate_only=False)
    AdminRequest(f"change settings of {what}", message, broker or any_broker).apply(kafka)


def set_of_broker(kafka: Kafka, broker: int, values: Mapping[str, str | None]) -> None:
    """Set dynamic settings of one broker, which checks them itself; None removes a value. Raises `ClusterError`.

    A broker also reloads a key store or trust store if the setting has the same path as before.
    """
    _change(kafka, _BROKER_RESOURCE, str(broker), values, f"broker {broker}", lambda _: broker)


def dynamic_of_broker(kafka: Kafka, broker: int, names: Iterable[str]) -> dict[str, str] | None:
    """Return which of these settings are dynamic ones of a broker, as it knows them; None without an answer."""
    answer = _described(kafka, _BROKER_RESOURCE, str(broker), names, broker)
    if answer is None or any(r.error_code for r in answer.results):
        return None
    return {c.name: c.value or "" for r in answer.results for c in r.configs if c.config_source == _OF_ONE_BROKER}


def topic_settings(kafka: Kafka, topic: str, names: Iterable[str] | None) -> dict[str, DescribedSetting]:
    """Return settings of a topic; None: all. Raises `UsageError` without the right to see them, else `ClusterError`."""
    return _levelled(_described(kafka, _TOPIC_RESOURCE, topic, names), f"the settings of topic {topic}")


def broker_settings(kafka: Kafka, broker: int, names: Iterable[str]) -> dict[str, DescribedSetting]:
    """Return settings of a broker, which it answers itself. Raises as `topic_settings`."""
    answer = _described(kafka, _BROKER_RESOURCE, str(broker), names, broker)
    return _levelled(answer, f"the settings of broker {broker}")


def _described(kafka: Kafka, kind: int, name: str, names: Iterable[str] | None, broker: int | None = None) -> Any:
    """Return the answer with settings (None: all) of a resource. broker: which to ask, None for any."""
    keys = None if names is None else list(names)
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    message = request(DescribeConfigsRequest[1], resources=[resource], include_synonyms=False)
    return kafka.ask_any(message) if broker is None else kafka.ask(broker, message)


def _levelled(answer: Any, what: str) -> dict[str, DescribedSetting]:
    """Return the settings with a value in an answer."""
    if answer is None:
        raise ClusterError(f"the cluster did not answer for {what}; are all its brokers reachable from here?")
    found: dict[str, DescribedSetting] = {}
    for result in answer.results:
        if result.error_code in _REFUSED:
            raise UsageError(f"the cluster refuses {what}: the user needs the right DescribeConfigs")
        if result.error_code == _UNKNOWN_TOPIC:
            raise UsageError(f"the cluster has no {what.removeprefix('the settings of ')}")
        if result.error_code:
            raise ClusterError(f"the cluster refused {what}: {for_code(result.error_code).__name__}")
        for config in result.configs:
            if config.value is not None and config.config_source in _LEVELS:
                found[config.name] = DescribedSetting(config.value, _LEVELS[config.config_source])
    return found


def quotas(kafka: Kafka, client_id: str) -> dict[str, float] | None:
    """Return the quotas of a client id for all users; None without an answer."""
    component = {"entity_type": "client-id", "match_type": _EXACT, "match": client_id}
    answer = kafka.ask_any(request(DescribeClientQuotasRequest[0], components=[component], strict=True))
    if answer is None or answer.error_code:
        return None
    return {quota.key: quota.value for entry in answer.entries or () for quota in entry.values}


def set_quotas(kafka: Kafka, client_id: str, rates: Mapping[str, float | None]) -> None:
    """Set quotas of a client id; None removes a quota. One that does not exist counts as removed."""
    ops = [{"key": key, "value": rate or 0.0, "remove": rate is None} for key, rate in rates.items()]
    entry = {"entity": [{"entity_type": "client-id", "entity_name": client_id}], "ops": ops}
    message = request(AlterClientQuotasRequest[0], entries=[entry], validate_only=False)
    AdminRequest(f"change quotas of {client_id}", message, any_broker).apply(kafka)


def delete_offsets(kafka: Kafka, group: str, partitions: Iterable[TopicPartition]) -> None:
    """Delete committed offsets of a group."""
    message = request(OffsetDeleteRequest[0], group_id=group, topics=topics({p: {} for p in partitions}))
    AdminRequest(f"delete offsets of {group}", message, _coordinator(group)).apply(kafka)


def commit(kafka: Kafka, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group without members."""
    fields = {
        partition: {"committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
        for partition, offset in offsets.items()
    }
    no_member = {"generation_id_or_member_epoch": -1, "member_id": ""}
    message = request(OffsetCommitRequest[6], group_id=group, topics=topics(fields), **no_member)
    AdminRequest(f"reset offsets of {group}", message, _coordinator(group)).apply(kafka)


def alter_share_offsets(kafka: Kafka, group: str, starts: Mapping[TopicPartition, int]) -> None:
    """Set the start offsets of a share group without members."""
    parts: dict[str, list[dict[str, int]]] = {}
    for partition, start in starts.items():
        parts.setdefault(partition.topic, []).append({"partition_index": partition.number, "start_offset": start})
    fields = [{"topic_name": topic, "partitions": partitions} for topic, partitions in parts.items()]
    message = request(AlterShareGroupOffsetsRequest[0], group_id=group, topics=fields)
    AdminRequest(f"alter offsets of {group}", message, _coordinator(group)).apply(kafka)


def remove_members(kafka: Kafka, group: str, members: Collection[str]) -> None:
    """Make members leave a group, as they do when they close. Those that are no members of it are left out.

    A broker does not ask who says so: a member of the classic protocol leaves by LeaveGroup (KIP-345), and one of a
    later protocol (KIP-848, KIP-1071, KIP-932) by its heartbeat with the epoch -1.
    """
    state = kafka.group(group)
    if state is None or not (left := [m.member_id for m in state.members if m.member_id in members]):
        return
    classic = [{"member_id": member, "group_instance_id": None} for member in left]
    answer = kafka.ask(state.coordinator, request(LeaveGroupRequest[3], group_id=group, members=classic))
    done = answer is not None and not answer.error_code and not any(member.error_code for member in answer.members)
    for heartbeat, version in () if done else _HEARTBEATS:  # of the protocols, the group has one
        if kafka.supports(heartbeat.API_KEY, version=version):
            for member in left:
                leaving = {"group_id": group, "member_id": member, "member_epoch": _LEAVING}
                kafka.ask(state.coordinator, request(heartbeat[version], **leaving))


def delete_group(group: str) -> AdminRequest:
    """Return the request that deletes a group without members. A group that does not exist counts as deleted."""
    message = request(DeleteGroupsRequest[1], groups_names=[group])
    return AdminRequest(f"delete {group}", message, _coordinator(group), frozenset({_GROUP_NOT_FOUND}))


def elect(kafka: Kafka, partitions: Iterable[TopicPartition], unclean: bool) -> None:
    """Elect the preferred replica, or with `unclean` any live replica if none is in sync.

    An election that is not needed counts as done.
    """
    chosen = [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic(partitions).items()]
    fields = {"election_type": int(unclean), "topic_partitions": chosen, "timeout_ms": _TIMEOUT_MS}
    message = request(ElectLeadersRequest[1], **fields)
    AdminRequest("elect leaders", message, any_broker, frozenset({_ELECTION_NOT_NEEDED})).apply(kafka)


def reassign(kafka: Kafka, partition: TopicPartition, replicas: list[int]) -> None:
    """Begin to move a partition to these brokers."""
    fields = topics({partition: {"replicas": replicas}})
    message = request(AlterPartitionReassignmentsRequest[0], timeout_ms=_TIMEOUT_MS, topics=fields)
    AdminRequest(f"reassign {partition}", message, any_broker).apply(kafka)


def cancel_reassignment(kafka: Kafka, partition: TopicPartition) -> None:
    """Let a partition that moves stay where it was; one that does not move stays, too."""
    fields = topics({partition: {"replicas": None}})
    message = request(AlterPartitionReassignmentsRequest[0], timeout_ms=_TIMEOUT_MS, topics=fields)
    done = frozenset({_NO_REASSIGNMENT})
    AdminRequest(f"cancel the reassignment of {partition}", message, any_broker, done).apply(kafka)


def added_by_reassignment(kafka: Kafka, partition: TopicPartition) -> frozenset[int] | None:
    """Return the brokers to which a partition moves; empty if it does not move, None without an answer."""
    chosen = [{"name": partition.topic, "partition_indexes": [partition.number]}]
    broker = any_broker(kafka)
    message = request(ListPartitionReassignmentsRequest[0], timeout_ms=_TIMEOUT_MS, topics=chosen)
    answer = None if broker is None else kafka.ask(broker, message)
    if answer is None or answer.error_code:
        return None
    return frozenset(b for topic in answer.topics for p in topic.partitions for b in p.adding_replicas)


def any_broker(kafka: Kafka) -> int | None:
    """Return the broker to send changes of topics to: in KRaft one that answers, with ZooKeeper the controller."""
    metadata = kafka.metadata()
    if metadata is None:
        return None
    if kafka.is_silent(metadata.controller) and kafka.supports(DescribeQuorumRequest.API_KEY):
        return next((broker for broker in metadata.brokers if not kafka.is_silent(broker)), None)
    return metadata.controller


def _coordinator(group: str) -> Broker:
    return lambda kafka: kafka.coordinator(group)


def _leader(partition: TopicPartition) -> Broker:
    return lambda kafka: state.leader if (state := kafka.state(partition)) else None


def _reasons(answer: Any) -> Iterator[str]:
    """Yield the brokers' own words about each error in an answer."""
    if "error_message" in answer.fields and answer.error_code and answer.error_message:
        yield answer.error_message
    for name, field in answer.fields.items():
        for part in (getattr(answer, name) or ()) if field.is_struct_array() else ():
            yield from _reasons(part)


def _errors(answer: Any, path: tuple[str, ...] = ()) -> Errors:
    """Return every error code in an answer, with the names of the topic, partition, group or resource around it."""
    path = (*path, *(str(getattr(answer, key)) for key in _NAME_FIELDS if key in answer.fields))
    errors = [("/".join(path) or "all", answer.error_code)] if "error_code" in answer.fields else []
    for name, field in answer.fields.items():
        for part in (getattr(answer, name) or ()) if field.is_struct_array() else ():
            errors += _errors(part, path)
    return errors
