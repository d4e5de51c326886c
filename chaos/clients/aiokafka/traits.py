"""The runtime `aiokafka`: the client for asyncio.

AIOKafkaProducer and AIOKafkaConsumer have the same defaults in all supported releases.

Seen with 0.14.0 and Kafka 4.3.1: of two processes with one group.instance.id, the earlier one takes its place back. Its
commits do not name the instance and are refused with UNKNOWN_MEMBER_ID, so it joins again. The later one ends: the
library does not know FENCED_INSTANCE_ID. So `consumer.fence` has no proof with it.
"""

from __future__ import annotations

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
from chaos.clients.traits import Role, Traits, in_all_releases
from chaos.kafka.settings import Config
from chaos.settings import Source

OLDEST, NEWEST = "0.8.0", "0.14.0"

SETTINGS = frozenset(
    {
        *("acks", "enable_idempotence", "max_batch_size", "linger_ms", "compression_type", "max_request_size"),
        *("request_timeout_ms", "retry_backoff_ms", "metadata_max_age_ms", "connections_max_idle_ms", "client_rack"),
        *("auto_offset_reset", "isolation_level", "check_crcs", "partition_assignment_strategy"),
        *("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms", "rebalance_timeout_ms"),
        *("auto_commit_interval_ms", "fetch_min_bytes", "fetch_max_bytes", "fetch_max_wait_ms"),
        *("max_partition_fetch_bytes", "exclude_internal_topics"),
    }
)
"""Settings that a scenario can give. A release refuses unknown settings when it starts."""


def defaults(_: str | None) -> Config:
    """Return the settings that a scenario leaves out."""
    return {
        "acks": "1",
        "enable.idempotence": False,
        "enable.auto.commit": True,
        "auto.offset.reset": "latest",
        "isolation.level": "read_uncommitted",
        "partition.assignment.strategy": "roundrobin",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 3_000,
        "auto.commit.interval.ms": 5_000,
    }


TRAITS = Traits(
    name="aiokafka",
    library="aiokafka",
    reported={"aiokafka": "aiokafka"},
    releases=(OLDEST, NEWEST),
    abilities=in_all_releases(*ABILITIES, "transactions") | {"static membership": "0.10.0", "rack": "0.14.0"},
    lacks={**LACKS, "cooperative": "its assignors are eager"},
    auto_commits=frozenset({"after_batch"}),
    settings={role: (Source(f"aiokafka-{role}", separator="_"),) for role in get_args(Role)},
    reserved=RESERVED,
    reserved_parts=RESERVED_PARTS,
    misnamed=misnamed(SETTINGS),
    unknown=unknown_among(SETTINGS),
    since={"client.rack": "0.14.0"},
    common=common,
    defaults=defaults,
    rack="client_rack",
    sends=SENDS,
    commits=COMMITS,
)
