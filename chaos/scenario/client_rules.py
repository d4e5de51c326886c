"""Rules for producers, consumers and processors. Each message begins with the key that is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import get_args

from chaos.kafka.settings import Config
from chaos.scenario.consumers import Assign, Subscribe
from chaos.scenario.producers import ApplicationPartitioner, Producer, Transactions
from chaos.scenario.references import partition_problems, topic_problems
from chaos.scenario.setup import Setup

CONSUMER_KEYS = ("group.id", "enable.auto.commit", "enable.auto.offset.store")
TRANSACTION_KEYS = ("transactional.id", "transaction.timeout.ms")
CLASSIC_GROUP_KEYS = (
    *("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type"),
)
"""Settings that librdkafka refuses if group.protocol is consumer: the broker has them then."""


def client_problems(setup: Setup) -> Iterator[str]:
    """Yield every problem of the clients of a scenario."""
    for i, producer in enumerate(setup.producers):
        yield from _producer_problems(setup, f"producers[{i}]", producer)
    for i, consumer in enumerate(setup.consumers):
        where = f"consumers[{i}]"
        if isinstance(consumer, Subscribe):
            yield from _subscribe_problems(setup, where, consumer)
        else:
            yield from _assign_problems(setup, where, consumer)
        yield from topic_problems(setup, f"{where}.topics", consumer.topics)
        yield from _reserved_problems(f"{where}.config", consumer.config, CONSUMER_KEYS)
    for i, processor in enumerate(setup.processors):
        where = f"processors[{i}]"
        yield from topic_problems(setup, f"{where}.topics", processor.topics)
        yield from topic_problems(setup, f"{where}.to", [processor.to])
        if processor.to in processor.topics:
            yield f"{where}.to: the processor also reads {processor.to}, so it would never end"
        yield from _transaction_problems(f"{where}.config", processor.config, processor.transactions)
        for key in CONSUMER_KEYS:
            if key in processor.consumer_config:
                yield f"{where}.consumer_config: {key} is set by Aftershock itself"


def _producer_problems(setup: Setup, where: str, producer: Producer) -> Iterator[str]:
    yield from topic_problems(setup, f"{where}.topic", [producer.topic])
    yield from _reserved_problems(f"{where}.config", producer.config)
    if producer.outlast_faults and producer.rate is None:
        yield f"{where}.outlast_faults: needs a rate: a load at full speed cannot be prolonged"
    if producer.transactions and producer.mode != "callback":
        yield f"{where}.mode: transactions wait for all their records, so {producer.mode} has no meaning"
    if producer.transactions and producer.resend:
        yield f"{where}.resend: a transactional producer continues by transactions, not by single records"
    if producer.partitioner == "by_key_number" and producer.keys is None:
        yield f"{where}.partitioner: by_key_number needs keys"
    if producer.partitioner == "sticky" and producer.keys is not None:
        yield f"{where}.partitioner: sticky is for records without a key, but keys are given"
    library = producer.partitioner is not None and producer.partitioner not in get_args(ApplicationPartitioner)
    if library and "partitioner" in producer.config:
        yield f"{where}.config: partitioner is given twice"
    yield from _transaction_problems(f"{where}.config", producer.config, producer.transactions)


def _subscribe_problems(setup: Setup, where: str, consumer: Subscribe) -> Iterator[str]:
    if consumer.pattern is not None and not consumer.topics_among(t.name for t in setup.topics):
        yield f"{where}.pattern: {consumer.pattern!r} matches none of the topics; a group needs one from the start"
    if consumer.config.get("group.protocol") != "consumer":
        return
    if not setup.attached and int(setup.cluster.kafka.split(".")[0]) < 4:
        yield f"{where}.config: group.protocol=consumer (KIP-848) needs Kafka 4.0, not {setup.cluster.kafka}"
    for key in CLASSIC_GROUP_KEYS:
        if key in consumer.config:
            yield (
                f"{where}.config: {key} does not go with group.protocol=consumer: the broker decides "
                "(group.consumer.session.timeout.ms, group.remote.assignor, ... )"
            )


def _assign_problems(setup: Setup, where: str, consumer: Assign) -> Iterator[str]:
    if consumer.group is None and (consumer.start == "group" or consumer.commit.when != "never"):
        yield f"{where}.group: start: group and commits need a group id"
    if not isinstance(consumer.start, str):
        for partition in consumer.start.offsets or ():
            yield from partition_problems(setup, f"{where}.start.offsets", partition)


def _reserved_problems(where: str, config: Config, reserved: Collection[str] = ()) -> Iterator[str]:
    for key in sorted(config):
        if key.startswith(("security.", "sasl.", "ssl.", "enable.ssl.")):
            yield f"{where}: {key} is set by Aftershock itself; use cluster.security instead"
        elif key in reserved or key in ("bootstrap.servers", "metadata.broker.list", "client.id"):
            yield f"{where}: {key} is set by Aftershock itself; use the scenario's own keys instead"


def _transaction_problems(where: str, config: Config, transactions: Transactions | None) -> Iterator[str]:
    for key in TRANSACTION_KEYS:
        if key in config:
            yield f"{where}: {key} is set by Aftershock itself; use transactions instead"
    if transactions is not None and str(config.get("enable.idempotence", True)).lower() == "false":
        yield f"{where}: transactions need enable.idempotence"
    if transactions is not None and str(config.get("acks", "all")) not in ("all", "-1"):
        yield f"{where}: transactions need acks=all"
