"""The runtime `sarama`: IBM/sarama, the Go client of Apache Kafka.

Settings have the names of its `Config`, such as `Producer.RequiredAcks` (config.go); those in `NAMES` also have their
common names. Cooperative rebalancing (KIP-429) is in sarama from 1.60.2 on (balance_strategy_cooperative_sticky.go).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from chaos.clients.golang import AUTO_COMMITS, LACKS
from chaos.clients.traits import (
    COMMITS,
    OWN_POSITIONS,
    SENDING,
    Given,
    Role,
    Traits,
    by_common_names,
    idempotence,
    in_all_releases,
    refusals,
)
from chaos.kafka.settings import Config
from chaos.settings import Source

OLDEST, NEWEST = "1.43.3", "1.61.1"
COOPERATIVE_SINCE = "1.60.2"

NAMES = {
    "Producer.RequiredAcks": "acks",
    "Producer.Idempotent": "enable.idempotence",
    "Producer.Retry.Max": "retries",
    "Consumer.Offsets.Initial": "auto.offset.reset",
    "Consumer.IsolationLevel": "isolation.level",
    "Consumer.Group.Rebalance.GroupStrategies": "partition.assignment.strategy",
    "Consumer.Group.Session.Timeout": "session.timeout.ms",
    "Consumer.Group.Heartbeat.Interval": "heartbeat.interval.ms",
    "Consumer.Group.InstanceId": "group.instance.id",
    "Consumer.Offsets.AutoCommit.Interval": "auto.commit.interval.ms",
}
"""Settings that have a common name, which the rules and the audit know."""

MISNAMED = {
    "max.in.flight": "Net.MaxOpenRequests",
    "max.in.flight.requests.per.connection": "Net.MaxOpenRequests",
    "request.timeout.ms": "Producer.Timeout",
    "retry.backoff.ms": "Producer.Retry.Backoff",
    "linger.ms": "Producer.Flush.Frequency",
    "batch.size": "Producer.Flush.Bytes",
    "message.max.bytes": "Producer.MaxMessageBytes",
    "max.request.size": "Producer.MaxMessageBytes",
    "compression.type": "Producer.Compression",
    "partitioner": "Producer.Partitioner",
    "fetch.min.bytes": "Consumer.Fetch.Min",
    "fetch.wait.max.ms": "Consumer.MaxWaitTime",
    "fetch.max.wait.ms": "Consumer.MaxWaitTime",
    "max.partition.fetch.bytes": "Consumer.Fetch.Default",
    "topic.metadata.refresh.interval.ms": "Metadata.RefreshFrequency",
    "metadata.max.age.ms": "Metadata.RefreshFrequency",
    "socket.timeout.ms": "Net.ReadTimeout",
    "client.rack": "RackID",
    **dict.fromkeys(["message.timeout.ms", "delivery.timeout.ms", "max.poll.interval.ms", "group.protocol"], ""),
}
"""Settings of other clients, by the path of the field in sarama's `Config`; empty if it has nothing like it."""

VALUES = {
    "acks": {"waitforall": "all", "-1": "all", "waitforlocal": "1", "noresponse": "0"},
    "auto.offset.reset": {"offsetoldest": "earliest", "oldest": "earliest", "-2": "earliest"}
    | {"offsetnewest": "latest", "newest": "latest", "-1": "latest"},
    "isolation.level": {"readcommitted": "read_committed", "1": "read_committed"}
    | {"readuncommitted": "read_uncommitted", "0": "read_uncommitted"},
}
"""Values of sarama, by the common name of the setting, with the common values."""

RESERVED = frozenset(
    {
        *("ClientID", "Consumer.Group.InstanceId", "Consumer.Offsets.AutoCommit.Enable", "Consumer.Return.Errors"),
        *("Producer.Return.Errors", "Producer.Return.Successes", "Producer.Transaction.ID"),
        *("Producer.Transaction.Timeout", "Net.SASL.Version"),
    }
)
RESERVED_PARTS = ("Net.TLS.", "Net.SASL.", "Net.Proxy.")

SENDS = {
    **refusals((), INVALID_REQUIRED_ACKS="acks is the same in every attempt, and no broker takes this one"),
    **refusals(
        ("rights",),
        TOPIC_AUTHORIZATION_FAILED="checked before the append, for any batch",
        CLUSTER_AUTHORIZATION_FAILED="as TOPIC_AUTHORIZATION_FAILED, for idempotent writes",
    ),
    **refusals(("timestamps",), INVALID_TIMESTAMP="out of bounds in every attempt, if retries cross no limit"),
    **refusals(
        ("attempt",),
        INVALID_RECORD="the batch was validated before the append",
        MESSAGE_TOO_LARGE="this batch was too large; an earlier one may have held fewer records (retryMessages)",
        RECORD_LIST_TOO_LARGE="as MESSAGE_TOO_LARGE, against the segment size",
        CORRUPT_MESSAGE="this batch arrived damaged and was dropped before the append",
        UNSUPPORTED_COMPRESSION_TYPE="the batch was not read",
        POLICY_VIOLATION="a policy refused this batch before the append",
        NOT_ENOUGH_REPLICAS="the leader counted its in-sync replicas before the append",
        LEADER_NOT_AVAILABLE="there was no leader to append to",
        FENCED_LEADER_EPOCH="the epoch is checked before the append",
        UNKNOWN_TOPIC_OR_PARTITION="the broker asked has no such partition, so no log to append to",
        INVALID_PRODUCER_EPOCH="the batch of a fenced producer is refused before the append",
        PRODUCER_FENCED="as INVALID_PRODUCER_EPOCH",
    ),
}
"""Refusals of sends (Kafka's `UnifiedLog.append`). sarama repeats a send up to `Producer.Retry.Max` times and reports
the last error, so most need a single attempt. A record without a partition, and one above `Producer.MaxMessageBytes`,
never left the dispatcher (async_producer.go), and failed. DUPLICATE_SEQUENCE_NUMBER is a success, without an offset.

NOT_LEADER_OR_FOLLOWER proves nothing: with acks=all, a leader that steps down while it waits for its followers answers
so after its append (Kafka's `DelayedProduce.tryComplete`), and a follower that has the record may become the leader.

`Session.Commit` returns nothing, and sarama passes on no NOT_COORDINATOR (offset_manager.go), so the programs read the
answers of the brokers: a commit is one request on the wire, and so the only attempt."""


def common(config: Config) -> Config:
    """Return settings by their common names and values; those without one as they are."""
    return by_common_names(config, NAMES, VALUES)


def unknown(name: str) -> str:
    """Return why a name is no setting of sarama; empty if it may be one. Its programs know the fields of a release."""
    if name in NAMES.values():
        return ""
    if not name[:1].isupper():
        return "write the path of a field of its Config, such as Producer.RequiredAcks"
    return ""


def defaults(_: str | None) -> Config:
    """Return the settings that a scenario leaves out, by their common names; they are the same in all releases."""
    return {
        "acks": "1",
        "enable.idempotence": False,
        "retries": 3,
        "enable.auto.commit": True,
        "auto.offset.reset": "latest",
        "isolation.level": "read_uncommitted",
        "partition.assignment.strategy": "range",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 3_000,
        "auto.commit.interval.ms": 1_000,
    }


def contradictions(given: Given) -> Iterator[str]:
    """Yield settings with which sarama does not start."""
    if given.producer:
        yield from idempotence(given, given.idempotent, most=1)


TRAITS = Traits(
    name="sarama",
    library="sarama",
    reported={"sarama": "sarama"},
    releases=(OLDEST, NEWEST),
    abilities=in_all_releases(
        "produce",
        "transactions",
        "ignore reports",
        "timestamps of the application",
        *SENDING,
        "subscribe",
        "static membership",
        "assign",
        "checkpoint",
        "commits after processing",
        "automatic commits in assign mode",
        "commit outcomes",
        "automatic commit outcomes",
        "rack",
        *OWN_POSITIONS,
    )
    | {"cooperative": COOPERATIVE_SINCE},
    lacks={
        **LACKS,
        "library partitioner": "the names are librdkafka's; set Producer.Partitioner in config",
        "sticky partitioner": "it spreads records without a key at random",
        "poll interval": "a group keeps a member that processes slowly, as heartbeats have a separate goroutine",
        "pattern": "a group of sarama subscribes to names of topics only",
        "workers": "its group consumer has one goroutine for each partition",
        "seek": "the position of a claim cannot be moved; ResetOffset changes only what is committed",
        "asynchronous commits": "Session.Commit waits for the answer; use kind: sync, or kind: auto",
        "assignment without group.id": "that is what every partition consumer of sarama has; leave no_group_id out",
        "reset to none": "Consumer.Offsets.Initial is OffsetOldest or OffsetNewest",
    },
    auto_commits=AUTO_COMMITS,
    settings=dict.fromkeys(get_args(Role), (Source("sarama"),)),
    stores_offsets=True,
    mixed_assignors=True,
    reserved=RESERVED,
    reserved_parts=RESERVED_PARTS,
    misnamed=MISNAMED,
    unknown=unknown,
    common=common,
    defaults=defaults,
    contradictions=contradictions,
    rack="RackID",
    sends=SENDS,
    commits=COMMITS,
)
