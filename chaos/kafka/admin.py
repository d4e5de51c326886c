"""Changing topics, offsets, leaders and replicas by requests of one's own, each to the broker that must answer it.

Why not a client library's admin: see `connection`. A request that a broker refuses for the moment (its coordinator or
controller moves) is made again until it is taken or `TIMEOUT_S` has passed; any other refusal raises `ClusterError`
with Kafka's own name for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest

from chaos.errors import ClusterError, WaitTimeout
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition, by_topic
from chaos.wait import wait_until

TIMEOUT_S = 30.0
_TIMEOUT_MS = 10_000
_ANSWER_S = 12.0
_TOPIC_RESOURCE, _SET, _DELETE, _OF_TOPIC = 2, 0, 1, 1
_LATER = {3, 5, 6, 7, 14, 15, 16, 41, 80, 83}
"""Error codes that may pass: unknown topic, no leader or another one, timed out, coordinator or controller moves, no
replica to elect yet."""
_UNKNOWN_TOPIC, _TOPIC_EXISTS, _NOT_NEEDED = 3, 36, 84


def create_topic(kafka: Kafka, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> None:
    """Make a topic; one that is there already is left as it is, for the answer to an earlier request may be lost."""
    kind = CreateTopicsRequest.CreatableTopic
    configs = [kind.CreatableTopicConfig(name=key, value=value) for key, value in config.items()]
    topic = kind(name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=configs)
    request = CreateTopicsRequest[4](topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=False)

    def errors(answer: Any) -> list[tuple[str, int]]:
        return [(t.name, t.error_code) for t in answer.topics if t.error_code != _TOPIC_EXISTS]

    _at_controller(kafka, request, errors, f"create {name}")


def add_partitions(kafka: Kafka, topic: str, to: int) -> None:
    """Give a topic more partitions."""
    one = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=to, assignments=None)
    request = CreatePartitionsRequest[1](topics=[one], timeout_ms=_TIMEOUT_MS, validate_only=False)
    _at_controller(kafka, request, lambda answer: [(t.name, t.error_code) for t in answer.results], f"extend {topic}")


def delete_topic(kafka: Kafka, topic: str) -> None:
    """Delete a topic."""
    request = DeleteTopicsRequest[3](topic_names=[topic], timeout_ms=_TIMEOUT_MS)

    def errors(answer: Any) -> list[tuple[str, int]]:
        return [(t.name, t.error_code) for t in answer.responses if t.error_code != _UNKNOWN_TOPIC]  # gone: done

    _at_controller(kafka, request, errors, f"delete {topic}")


def delete_records(kafka: Kafka, before: Mapping[TopicPartition, int]) -> None:
    """Move the log start of each partition to an offset."""
    kind = DeleteRecordsRequest.DeleteRecordsTopic
    for name, offset in before.items():
        part = kind.DeleteRecordsPartition(partition_index=name.number, offset=offset)
        request = DeleteRecordsRequest[1](topics=[kind(name=name.topic, partitions=[part])], timeout_ms=_TIMEOUT_MS)

        def ask(name: TopicPartition = name, request: Any = request) -> Any:
            metadata = kafka.metadata()
            state = metadata.partitions.get(name) if metadata else None
            return kafka.ask(state.leader, request, _ANSWER_S) if state else None

        _until_taken(ask, lambda a: _parts(a.topics), f"delete records of {name}")


def settings(kafka: Kafka, topic: str, keys: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Settings of a topic as they are now, each with whether it is the topic's own."""
    kind = DescribeConfigsRequest.DescribeConfigsResource
    asked = kind(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=list(keys))
    request = DescribeConfigsRequest[1](resources=[asked], include_synonyms=False)
    answer = kafka.ask_any(request)
    if answer is None or any(r.error_code for r in answer.results):
        return {}
    return {c.name: (c.value or "", c.config_source == _OF_TOPIC) for r in answer.results for c in r.configs}


def set_settings(kafka: Kafka, topic: str, values: Mapping[str, str | None]) -> None:
    """Set settings of a topic; None: what they are without one of the topic's own."""
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        kind.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in values.items()
    ]
    resource = kind(resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=configs)
    request = IncrementalAlterConfigsRequest[0](resources=[resource], validate_only=False)
    words = f"change settings of {topic}"
    _at_controller(kafka, request, lambda a: [(r.resource_name, r.error_code) for r in a.responses], words)


def delete_offsets(kafka: Kafka, group: str, partitions: Iterable[TopicPartition]) -> None:
    """Delete committed offsets of a group."""
    kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
    topics = [
        kind(name=topic, partitions=[kind.OffsetDeleteRequestPartition(partition_index=n) for n in numbers])
        for topic, numbers in by_topic(partitions).items()
    ]
    request = OffsetDeleteRequest[0](group_id=group, topics=topics)
    words = f"delete offsets of {group}"
    _at_coordinator(kafka, group, request, lambda a: [(group, a.error_code), *_parts(a.topics)], words)


def commit(kafka: Kafka, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group that has no members."""
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    topics = [
        kind(
            name=topic,
            partitions=[
                kind.OffsetCommitRequestPartition(
                    partition_index=n,
                    committed_offset=offsets[TopicPartition(topic, n)],
                    committed_leader_epoch=-1,
                    committed_metadata="",
                )
                for n in numbers
            ],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest[6](group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)
    _at_coordinator(kafka, group, request, lambda a: _parts(a.topics), f"reset offsets of {group}")


def delete_group(kafka: Kafka, group: str) -> None:
    """Delete a group that has no members."""
    request = DeleteGroupsRequest[1](groups_names=[group])
    _at_coordinator(kafka, group, request, lambda a: [(r.group_id, r.error_code) for r in a.results], f"delete {group}")


def elect(kafka: Kafka, partitions: Iterable[TopicPartition], unclean: bool) -> None:
    """Elect the preferred replica, or any that lives where none is in sync; not needed counts as done."""
    kind = ElectLeadersRequest.TopicPartitions
    topics = [kind(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()]
    request = ElectLeadersRequest[1](election_type=int(unclean), topic_partitions=topics, timeout_ms=_TIMEOUT_MS)

    def errors(answer: Any) -> list[tuple[str, int]]:
        found = [("all", answer.error_code)]
        for topic in answer.replica_election_results:
            found += [(f"{topic.topic}/{p.partition_id}", p.error_code) for p in topic.partition_result]
        return [(name, 0 if code == _NOT_NEEDED else code) for name, code in found]

    _at_controller(kafka, request, errors, "elect leaders")


def reassign(kafka: Kafka, partition: TopicPartition, replicas: list[int]) -> None:
    """Move a partition to these brokers; returns when that has begun."""
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    part = kind.ReassignablePartition(partition_index=partition.number, replicas=replicas)
    topics = [kind(name=partition.topic, partitions=[part])]
    request = AlterPartitionReassignmentsRequest[0](timeout_ms=_TIMEOUT_MS, topics=topics)

    def errors(answer: Any) -> list[tuple[str, int]]:
        return [("all", answer.error_code), *_parts(answer.responses)]

    _at_controller(kafka, request, errors, f"reassign {partition}")


Errors = Callable[[Any], list[tuple[str, int]]]


def _at_controller(kafka: Kafka, request: Any, errors: Errors, words: str) -> None:
    """In KRaft any broker passes it on; with ZooKeeper metadata names the one that must be asked."""

    def ask() -> Any:
        metadata = kafka.metadata()
        return kafka.ask(metadata.controller, request, _ANSWER_S) if metadata else None

    _until_taken(ask, errors, words)


def _at_coordinator(kafka: Kafka, group: str, request: Any, errors: Errors, words: str) -> None:
    def ask() -> Any:
        coordinator = kafka.coordinator(group)
        return None if coordinator is None else kafka.ask(coordinator, request, _ANSWER_S)

    _until_taken(ask, errors, words)


def _until_taken(ask: Callable[[], Any], errors: Errors, words: str) -> None:
    said = "no broker answers"

    def taken() -> bool:
        nonlocal said
        answer = ask()
        if answer is None:
            return False
        wrong = [(name, code) for name, code in errors(answer) if code]
        said = ", ".join(f"{name}: {for_code(code).__name__}" for name, code in wrong)
        if any(code not in _LATER for _, code in wrong):
            raise ClusterError(f"the cluster refused to {words}: {said}")
        return not wrong

    try:
        wait_until(taken, TIMEOUT_S, "", every_s=0.2)
    except WaitTimeout:
        raise ClusterError(f"the cluster did not {words} within {TIMEOUT_S:g} s: {said}") from None


def _parts(topics: Any) -> list[tuple[str, int]]:
    return [(f"{t.name}/{p.partition_index}", p.error_code) for t in topics for p in t.partitions]
