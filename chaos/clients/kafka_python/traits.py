"""The runtime `kafka-python`: the client of Apache Kafka in pure Python.

Defaults by release are from `DEFAULT_CONFIG` of KafkaProducer and KafkaConsumer: 2.2.0 adds idempotence, transactions,
isolation levels and delivery_timeout_ms, and retries without end; 2.3.0 static membership; 3.0.0 acks=all,
idempotence, sessions of 45 s, and cooperative rebalancing.

Seen with Kafka 4.3.1: 2.2.0 to 2.2.3 may not determine where partitions on several brokers begin (fixed by its pull
request 2612), and the producer of 2.2.0 to 2.2.21 may wait without end for the end of a transaction when it is fenced.
1.4.3 reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from chaos.clients.python.traits import (
    ABILITIES,
    COMMITS,
    LACKS,
    RESERVED,
    RESERVED_PARTS,
    SENDS,
    common,
    misnamed,
    unknown_among,
)
from chaos.clients.traits import (
    Given,
    Role,
    Traits,
    heartbeats,
    idempotence,
    in_all_releases,
    number,
)
from chaos.kafka.settings import Config
from chaos.settings import Source

OLDEST, NEWEST = "1.4.7", "3.0.12"
TRANSACTIONS_SINCE = "2.2.0"
ASYNC_LISTENER_SINCE = "3.0.0"

SETTINGS = frozenset(
    {
        *("acks", "enable_idempotence", "retries", "batch_size", "linger_ms", "compression_type", "max_block_ms"),
        *("max_request_size", "delivery_timeout_ms", "max_in_flight_requests_per_connection"),
        *("request_timeout_ms", "retry_backoff_ms", "reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        *("metadata_max_age_ms", "connections_max_idle_ms", "api_version_auto_timeout_ms", "client_rack"),
        *("send_buffer_bytes", "receive_buffer_bytes", "auto_offset_reset", "isolation_level", "check_crcs"),
        *("partition_assignment_strategy", "session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms"),
        *("auto_commit_interval_ms", "fetch_min_bytes", "fetch_max_bytes", "fetch_max_wait_ms"),
        *("max_partition_fetch_bytes", "exclude_internal_topics", "allow_auto_create_topics"),
        *("enable_incremental_fetch_sessions", "metrics_enabled", "bootstrap_timeout_ms"),
    }
)
"""Settings that a scenario can give. A release refuses unknown settings when it starts."""


def defaults(release: str | None) -> Config:
    """Return the settings that a scenario leaves out."""
    found = number(release or NEWEST)
    strong = found >= (3, 0, 0)
    endless = found >= number(TRANSACTIONS_SINCE)
    return {
        "acks": "all" if strong else "1",
        "enable.idempotence": strong,
        "enable.auto.commit": True,
        "auto.offset.reset": "latest",
        "isolation.level": "read_uncommitted",
        "partition.assignment.strategy": "range,roundrobin",
        "session.timeout.ms": 45_000 if strong else 10_000,
        "heartbeat.interval.ms": 3_000,
        "auto.commit.interval.ms": 5_000,
        **({} if endless else {"retries": 0}),
    }


def contradictions(given: Given) -> Iterator[str]:
    """Yield settings with which kafka-python does not start."""
    yield from idempotence(given, given.idempotent) if given.producer else heartbeats(given)


TRAITS = Traits(
    name="kafka-python",
    library="kafka-python",
    reported={"kafka_python": "kafka-python"},
    releases=(OLDEST, NEWEST),
    abilities=in_all_releases(*ABILITIES)
    | {
        "transactions": TRANSACTIONS_SINCE,
        "transactions of a size": TRANSACTIONS_SINCE,
        "fencing": TRANSACTIONS_SINCE,
        "static membership": "2.3.0",
        "cooperative": "3.0.0",
        "rack": "3.0.0",
    },
    lacks=LACKS,
    auto_commits=frozenset({"after_batch"}),
    settings={role: (Source(f"kafka-python-{role}", separator="_"),) for role in get_args(Role)},
    reserved=RESERVED,
    reserved_parts=RESERVED_PARTS,
    misnamed=misnamed(SETTINGS),
    unknown=unknown_among(SETTINGS),
    since={
        "enable.idempotence": TRANSACTIONS_SINCE,
        "isolation.level": TRANSACTIONS_SINCE,
        "delivery.timeout.ms": TRANSACTIONS_SINCE,
        "client.rack": "3.0.0",
    },
    common=common,
    defaults=defaults,
    contradictions=contradictions,
    rack="client_rack",
    sends=SENDS,
    commits=COMMITS,
)
