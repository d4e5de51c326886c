"""Membership in a consumer group: start positions of assigned partitions, member id and generation."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Literal

from confluent_kafka import Consumer, KafkaException, TopicPartition

from chaos.clients.confluent.assignments import AssignmentLog, StartPosition
from chaos.clients.confluent.lifecycle import log
from chaos.clients.confluent.positions import TIMEOUT_S, reset_position
from chaos.clients.protocol import Config, Partition


def is_incremental(config: Config) -> bool:
    """Return whether partitions are assigned and revoked one by one: cooperative assignors and KIP-848."""
    strategy = str(config.get("partition.assignment.strategy", ""))
    return "cooperative" in strategy or config.get("group.protocol") == "consumer"


def subscribe(
    consumer: Consumer,
    topics: list[str],
    on_assign: Callable[[list[TopicPartition]], None],
    on_release: Callable[[Literal["revoked", "lost"], list[Partition]], None],
) -> None:
    """Join the group. The callbacks get the assigned partitions, and the partitions that are taken away."""
    consumer.subscribe(
        topics,
        on_assign=lambda _, partitions: on_assign(partitions),
        on_revoke=lambda _, partitions: on_release("revoked", [(p.topic, p.partition) for p in partitions]),
        on_lost=lambda _, partitions: on_release("lost", [(p.topic, p.partition) for p in partitions]),
    )


def take(consumer: Consumer, partitions: Sequence[TopicPartition], config: Config, assignments: AssignmentLog) -> None:
    """Start to read newly assigned partitions, each from a known offset, and record the assignment."""
    assignments.member_id, assignments.generation = membership(consumer.consumer_group_metadata())
    targets, starts = start_positions(consumer, partitions, config)
    if is_incremental(config):
        consumer.incremental_assign(targets)
    else:
        consumer.assign(targets)
    if starts:
        assignments.begin("assigned", starts)


def start_positions(
    consumer: Consumer, partitions: Sequence[TopicPartition], config: Config
) -> tuple[list[TopicPartition], dict[Partition, StartPosition]]:
    """Return where reading starts, for librdkafka and for the ledger: the committed offset, or the reset position.

    If no broker answers, librdkafka chooses, and the ledger gets null.
    """
    if not partitions:
        return [], {}
    try:
        answers = consumer.committed(list(partitions), timeout=TIMEOUT_S)
    except KafkaException as e:
        log(f"committed offsets unknown, librdkafka chooses the positions: {e}")
        unknown = {(p.topic, p.partition): StartPosition() for p in partitions}
        return [TopicPartition(*p) for p in unknown], unknown
    starts: dict[Partition, StartPosition] = {}
    for answer in answers:
        partition = answer.topic, answer.partition
        starts[partition] = StartPosition()
        if answer.error is None and answer.offset >= 0:
            starts[partition] = StartPosition(answer.offset, "committed")
        elif answer.error is None and (offset := reset_position(consumer, partition, config)) is not None:
            starts[partition] = StartPosition(offset, "reset")
            answer.offset = offset
    # an answer also carries the leader epoch of the commit, with which librdkafka detects a truncated log
    targets = [a if a.offset >= 0 and a.error is None else TopicPartition(a.topic, a.partition) for a in answers]
    return targets, starts


def membership(metadata: object) -> tuple[str | None, int | None]:
    """Return member id and generation from `Consumer.consumer_group_metadata()`; None if the format is unknown.

    confluent-kafka 2.x returns librdkafka's serialized form: `CGMDv2:`, the generation as a native int32, the group id
    and the member id, each with a trailing zero byte.
    """
    magic = b"CGMDv2:"
    if not isinstance(metadata, bytes) or not metadata.startswith(magic):
        return None, None
    rest = metadata[len(magic) :]
    names = rest[4:].split(b"\0")
    if len(rest) < 4 or len(names) < 3:
        return None, None
    (generation,) = struct.unpack("=i", rest[:4])
    return names[1].decode("utf-8", "replace") or None, generation if generation >= 0 else None
