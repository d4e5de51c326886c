"""The runtime `franz-go`: twmb/franz-go, a Go client of Apache Kafka.

Settings have the names of the functions in its package kgo that make options, such as `RequiredAcks` (config.go); those
in `NAMES` also have their common names. `defaultCfg` in the same file has the defaults.
"""

from __future__ import annotations

from typing import get_args

from chaos.clients.golang import AUTO_COMMITS, LACKS
from chaos.clients.traits import (
    COMMITS,
    OWN_POSITIONS,
    SENDING,
    Role,
    Traits,
    by_common_names,
    in_all_releases,
    refusals,
)
from chaos.kafka.settings import Config, as_text
from chaos.settings import Source

OLDEST, NEWEST = "1.19.5", "1.22.2"
SERVER_SIDE_SINCE = "1.22.0"
"""First release with the option `ServerSideBalancer`."""

IDEMPOTENCE_OFF = "DisableIdempotentWrite"
NAMES = {
    "RequiredAcks": "acks",
    IDEMPOTENCE_OFF: "enable.idempotence",
    "RecordRetries": "retries",
    "ConsumeResetOffset": "auto.offset.reset",
    "FetchIsolationLevel": "isolation.level",
    "Balancers": "partition.assignment.strategy",
    "SessionTimeout": "session.timeout.ms",
    "RebalanceTimeout": "rebalance.timeout.ms",
    "HeartbeatInterval": "heartbeat.interval.ms",
    "InstanceID": "group.instance.id",
    "AutoCommitInterval": "auto.commit.interval.ms",
}
"""Settings that have a common name, which the rules and the audit know."""
PROTOCOL = frozenset({"group.protocol", "group.remote.assignor"})
"""Settings by their common names only: they choose the option ServerSideBalancer, with a balancer."""

MISNAMED = {
    "max.in.flight": "MaxProduceRequestsInflightPerBroker",
    "max.in.flight.requests.per.connection": "MaxProduceRequestsInflightPerBroker",
    "request.timeout.ms": "ProduceRequestTimeout",
    "message.timeout.ms": "RecordDeliveryTimeout",
    "delivery.timeout.ms": "RecordDeliveryTimeout",
    "linger.ms": "ProducerLinger",
    "batch.size": "ProducerBatchMaxBytes",
    "message.max.bytes": "ProducerBatchMaxBytes",
    "max.request.size": "ProducerBatchMaxBytes",
    "compression.type": "ProducerBatchCompression",
    "partitioner": "RecordPartitioner",
    "partitioner.class": "RecordPartitioner",
    "fetch.min.bytes": "FetchMinBytes",
    "fetch.max.bytes": "FetchMaxBytes",
    "fetch.wait.max.ms": "FetchMaxWait",
    "fetch.max.wait.ms": "FetchMaxWait",
    "max.partition.fetch.bytes": "FetchMaxPartitionBytes",
    "topic.metadata.refresh.interval.ms": "MetadataMaxAge",
    "metadata.max.age.ms": "MetadataMaxAge",
    "connections.max.idle.ms": "ConnIdleTimeout",
    "client.rack": "Rack",
    "ServerSideBalancer": "group.protocol: consumer",
    "max.poll.interval.ms": "",
}
"""Settings of other clients, by the option of franz-go; empty if it has nothing like it."""

VALUES = {
    "acks": {"allisracks": "all", "-1": "all", "leaderack": "1", "noack": "0"},
    "auto.offset.reset": {"atstart": "earliest", "atend": "latest"},
    "isolation.level": {"readcommitted": "read_committed", "readuncommitted": "read_uncommitted"},
}
"""Values of franz-go, by the common name of the setting, with the common values."""

RESERVED = frozenset(
    {
        *("ClientID", "SeedBrokers", "WithLogger", "WithHooks", "SASL", "DialTLSConfig", "DialTLS", "Dialer"),
        *("TransactionalID", "TransactionTimeout", "ConsumerGroup", "ConsumeTopics", "ConsumePartitions"),
        *("ConsumeRegex", "DisableAutoCommit", "AutoCommitMarks", "GreedyAutoCommit", "AutoCommitCallback"),
        *("BlockRebalanceOnPoll", "AdjustFetchOffsetsFn"),
        *("OnPartitionsAssigned", "OnPartitionsRevoked", "OnPartitionsLost"),
    }
)

SENDS = {
    **refusals((), INVALID_REQUIRED_ACKS="acks is the same in every attempt, and no broker takes this one"),
    **refusals(
        ("rights",),
        TOPIC_AUTHORIZATION_FAILED="checked before the append, for any batch",
        CLUSTER_AUTHORIZATION_FAILED="as TOPIC_AUTHORIZATION_FAILED, for idempotent writes",
    ),
    **refusals(("timestamps",), INVALID_TIMESTAMP="out of bounds in every attempt, if retries cross no limit"),
    **refusals(("batch", "settings"), INVALID_RECORD="the broker refuses this batch in every attempt"),
    **refusals(
        ("batch", "limits"),
        MESSAGE_TOO_LARGE="this batch, or before it was sent this record, is too large in every attempt",
        RECORD_LIST_TOO_LARGE="as MESSAGE_TOO_LARGE, against the segment size",
        POLICY_VIOLATION="a policy refuses this batch before the append",
    ),
}
"""Refusals of sends (Kafka's `UnifiedLog.append`). franz-go repeats a send almost without limit (RecordRetries), and if
it is not sure whether a batch was written, also beyond a limit, so no refusal is known to answer a single attempt.
An idempotent producer sends a batch again with the same records. A record without a partition was in no request.

It also repeats a commit by itself; its programs count the requests of each."""


def common(config: Config) -> Config:
    """Return settings by their common names and values; those without one as they are."""
    off = {name: as_text(value).lower() != "true" for name, value in config.items() if name == IDEMPOTENCE_OFF}
    return by_common_names(config | off, NAMES, VALUES)


def unknown(name: str) -> str:
    """Return why a name is no setting of franz-go; empty if it may be one. Its programs know the options."""
    if name in NAMES.values() or name in PROTOCOL:
        return ""
    if not name[:1].isupper():
        return "write the name of an option of its package kgo, such as RequiredAcks"
    return ""


def defaults(_: str | None) -> Config:
    """Return the settings that a scenario leaves out, by their common names; they are the same in all releases."""
    return {
        "acks": "all",
        "enable.idempotence": True,
        "enable.auto.commit": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 45_000,
        "rebalance.timeout.ms": 60_000,
        "heartbeat.interval.ms": 3_000,
        "auto.commit.interval.ms": 5_000,
    }


TRAITS = Traits(
    name="franz-go",
    library="franz-go",
    reported={"franz_go": "franz-go"},
    releases=(OLDEST, NEWEST),
    abilities=in_all_releases(
        "produce",
        "transactions",
        "ignore reports",
        "timestamps of the application",
        *SENDING,
        "subscribe",
        "pattern",
        "static membership",
        "cooperative",
        "assign",
        "seek",
        "checkpoint",
        "commits after processing",
        "asynchronous commits",
        "commit outcomes",
        "automatic commit outcomes",
        "rack",
        *OWN_POSITIONS,
    )
    | {"KIP-848": SERVER_SIDE_SINCE},
    lacks={
        **LACKS,
        "library partitioner": "the names are librdkafka's; set RecordPartitioner in config",
        "sticky partitioner": "set RecordPartitioner: sticky in config",
        "poll interval": "a group keeps a member that processes slowly, until a rebalance takes too long "
        "(RebalanceTimeout)",
        "workers": "its group consumer processes in one goroutine",
        "assignment without group.id": "that is what every client with assigned partitions has; leave no_group_id out",
        "reset to none": "its programs do not end when a partition has no position",
        "automatic commits in assign mode": "franz-go commits by itself in groups only; use kind: sync",
    },
    auto_commits=AUTO_COMMITS,
    settings=dict.fromkeys(get_args(Role), (Source("franz-go"),)),
    stores_offsets=True,
    mixed_assignors=True,
    reserved=RESERVED,
    misnamed=MISNAMED,
    unknown=unknown,
    common=common,
    defaults=defaults,
    rack="Rack",
    sends=SENDS,
    commits=COMMITS,
)
