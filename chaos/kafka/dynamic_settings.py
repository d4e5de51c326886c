"""Settings of a broker that change while it runs (KIP-226), by the first release that has them so.

As Kafka's own documentation lists them (`kafka.server.KafkaConfig` prints it), with the update mode cluster-wide: a
value for a single broker counts before the value for all. Those with the mode per-broker belong to listeners and their
security, which Aftershock sets. The rates of replication throttles are not listed before 4.3, but work (KIP-73).
"""

from __future__ import annotations

import re
from difflib import get_close_matches

DYNAMIC = {
    **dict.fromkeys(
        (
            *("background.threads", "compression.type", "metric.reporters", "min.insync.replicas"),
            *("num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers"),
            *("max.connection.creation.rate", "max.connections", "max.connections.per.ip"),
            *("max.connections.per.ip.overrides", "message.max.bytes", "unclean.leader.election.enable"),
            *("log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size", "log.cleaner.delete.retention.ms"),
            *("log.cleaner.io.buffer.load.factor", "log.cleaner.io.buffer.size", "log.cleaner.threads"),
            *("log.cleaner.io.max.bytes.per.second", "log.cleaner.max.compaction.lag.ms", "log.cleanup.policy"),
            *("log.cleaner.min.cleanable.ratio", "log.cleaner.min.compaction.lag.ms", "log.preallocate"),
            *("log.flush.interval.messages", "log.flush.interval.ms", "log.index.interval.bytes"),
            *("log.index.size.max.bytes", "log.message.timestamp.type", "log.retention.bytes", "log.retention.ms"),
            *("log.roll.jitter.ms", "log.roll.ms", "log.segment.bytes", "log.segment.delete.delay.ms"),
            *("leader.replication.throttled.rate", "follower.replication.throttled.rate"),
            *("replica.alter.log.dirs.io.max.bytes.per.second",),
            *("log.message.downconversion.enable", "log.message.timestamp.difference.max.ms"),
        ),
        "2.8",
    ),
    "producer.id.expiration.ms": "3.4",
    **dict.fromkeys(
        (
            *("log.local.retention.bytes", "log.local.retention.ms", "log.message.timestamp.after.max.ms"),
            *("log.message.timestamp.before.max.ms", "transaction.partition.verification.enable"),
            "remote.log.index.file.cache.total.size.bytes",
        ),
        "3.6",
    ),
    **dict.fromkeys(("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"), "3.8"),
    **dict.fromkeys(
        (
            *("remote.fetch.max.wait.ms", "remote.log.manager.copy.max.bytes.per.second"),
            "remote.log.manager.fetch.max.bytes.per.second",
        ),
        "3.9",
    ),
    **dict.fromkeys(
        (
            *("remote.list.offsets.request.timeout.ms", "remote.log.manager.copier.thread.pool.size"),
            *("remote.log.manager.expiration.thread.pool.size", "remote.log.reader.threads"),
        ),
        "4.0",
    ),
    **dict.fromkeys(
        (
            *("config.providers", "follower.fetch.last.tiered.offset.enable", "group.share.assignment.interval.ms"),
            *("group.consumer.assignment.interval.ms", "group.streams.assignment.interval.ms"),
            *("group.coordinator.cached.buffer.max.bytes", "share.coordinator.cached.buffer.max.bytes"),
            "remote.log.manager.follower.thread.pool.size",
        ),
        "4.3",
    ),
}
"""The first release by the name of the setting; "2.8" also for earlier ones."""
_GONE = dict.fromkeys(("log.message.downconversion.enable", "log.message.timestamp.difference.max.ms"), "4.0")
_OF_LISTENERS = ("listener", "advertised.", "sasl.", "ssl.", "principal.builder.", "cordoned.")
_LISTENER = re.compile(
    r"listener\.name\.[^.]+\.(max\.connections|max\.connection\.creation\.rate|num\.network\.threads)"
)


def dynamic_problem(name: str, release: str | None) -> str:
    """Return why brokers of a release do not take a setting while they run; empty if they do. None: any release."""
    if own := _LISTENER.fullmatch(name):
        name = own[1]
    if name.startswith(_OF_LISTENERS):
        return "belongs to listeners and folders, which Aftershock sets itself"
    if name not in DYNAMIC:
        near = get_close_matches(name, DYNAMIC, 1, 0.85)
        hint = f"; did you mean {near[0]}?" if near else ", from the start"
        return f"no broker takes it while it runs (KIP-226); give it in cluster.config{hint}"
    if release is not None and _line(release) < _line(DYNAMIC[name]):
        return f"brokers take it while they run from Kafka {DYNAMIC[name]} on, not in {release}"
    if release is not None and name in _GONE and _line(release) >= _line(_GONE[name]):
        return f"Kafka {release} has no such setting; it ended with {_GONE[name]}"
    return ""


def _line(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2])
