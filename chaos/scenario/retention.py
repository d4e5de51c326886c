"""Retention and compaction: the records that Kafka may delete during a run, and the records that it has to delete.

Time retention deletes segments in which the largest timestamp is older than retention.ms by the clock of the broker,
from the oldest segment on, the active one too; size retention deletes those beyond retention.bytes; both only if
cleanup.policy contains `delete` (`UnifiedLog.deleteRetentionMsBreachedSegments` and `deletableSegments` in Apache Kafka
3.0 to 4.4, `Log` in 2.8). Timestamps are set by producers with CreateTime (`chaos.setup.timestamps`): a record
with a time two days behind may go at once, and one with a time two days ahead keeps its segment, and all later ones,
for two days longer. See "Topic Configs" in Apache Kafka's documentation.

The log cleaner keeps the last record of each key and may remove every earlier one. A broker refuses a record without a
key in a compacted topic (INVALID_RECORD); see "Log Compaction" in the documentation of Apache Kafka, and KIP-135.
Compaction removes a superseded record in time only where max.compaction.lag.ms bounds it (KIP-354): the cleaner takes a
log as soon as the first timestamp in a segment that it has not cleaned yet, and that is not the active one, is that
old. A segment ends when a record comes that is so much later than its first one. min.compaction.lag.ms protects a
segment up to its largest timestamp (`LogCleanerManager.maxCompactionDelay` and `cleanableOffsets`, 2.8 to 4.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.clients.traits import number
from chaos.faults.base import FaultSpec
from chaos.faults.clocks import ClockDriftSpec, ClockFaultSpec, ClockJumpSpec
from chaos.faults.raw import WireProduceSpec
from chaos.faults.settings import BrokerConfigSpec, refused, states_of
from chaos.faults.upgrades import ReleaseChangeSpec
from chaos.kafka.settings import Scalar
from chaos.ledger.record import HEADER_BYTES
from chaos.scenario.expect import Expect
from chaos.setup.clients import Producer
from chaos.setup.model import Setup
from chaos.setup.timestamps import ahead_s, appended, limits_s

OFFSETS_TOPIC = "__consumer_offsets"
"""The topic of the committed offsets, which the brokers compact."""


def compacted_topics(setup: Setup, faults: Sequence[FaultSpec]) -> frozenset[str]:
    """Return the topics with `compact` in their cleanup.policy, from the start or by a fault that changes settings."""
    usual = setup.cluster.config.get("log.cleanup.policy", "delete")
    policies = [
        (t.name, config.get("cleanup.policy", usual)) for t in setup.topics for config, _ in states_of(t, faults)
    ]
    return frozenset(topic for topic, value in policies if "compact" in str(value))


def delete_retention_ms(setup: Setup, faults: Sequence[FaultSpec], topic: str) -> int:
    """Return the shortest delete.retention.ms that a topic has in the run, by default a day.

    The default of a cluster that was not asked for it is not known, so there it is 0: a tombstone may expire at once.
    """
    default = 0 if setup.unasked else setup.cluster.config.get("log.cleaner.delete.retention.ms", 86_400_000)
    states = states_of(setup.topic(topic), faults)
    return min(int(config.get("delete.retention.ms", default)) for config, _ in states)


def compaction_problems(setup: Setup, faults: Sequence[FaultSpec], expect: Expect) -> Iterator[str]:
    """Yield producers without keys of compacted topics, tombstones for other topics, and bounds without an object."""
    compacted = compacted_topics(setup, faults)
    why = "is compacted, and brokers refuse a record without a key there (INVALID_RECORD)"
    for i, producer in enumerate(setup.producers):
        for topic in producer.written:
            if topic in compacted and not producer.has_keys:
                more = "value.key, such as $.customer_id" if producer.value else "keys, such as keys: 100"
                yield f"producers[{i}].{more.partition(',')[0]}: {topic} {why}; set {more}"
            if producer.tombstone_every and topic not in compacted:
                yield f"producers[{i}].tombstone_every: {topic} is not compacted: a tombstone deletes nothing"
    for i, processor in enumerate(setup.processors):
        if processor.to in compacted:
            yield f"processors[{i}].to: {processor.to} {why}, and a processor writes none"
        if processor.state and (removed := compacted.intersection(processor.topics)):
            yield f"processors[{i}].state: {min(removed)} is compacted, so its log does not show how many inputs it had"
    for topic in expect.superseded:
        if topic == OFFSETS_TOPIC and setup.transactional:
            yield f"expect.superseded: transactions leave markers in {topic}, which do not differ from removed records"
        if topic not in compacted | {OFFSETS_TOPIC}:
            yield f"expect.superseded: {topic} is not compacted, so no record of it can be superseded"
    deleted_from = {topic for p in setup.producers if p.tombstone_every for topic in p.written}
    for topic in expect.expired_tombstones:
        if topic not in deleted_from:
            yield f"expect.expired_tombstones: no producer of {topic} has tombstone_every, so there are no tombstones"


_BROKER_NAMES = (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))
"""Settings of a broker for the time retention, with their unit in ms; the first that is set counts."""
_ROLL_NAMES = (("log.roll.ms", 1), ("log.roll.hours", 3_600_000))
_DEFAULT_MS = 7 * 24 * 3_600_000
_SLACK_MS = 60_000
"""Clocks of clients, which set the timestamps, may be this far behind the clocks of brokers."""
_LEAST_BYTES = 4
"""Least bytes of a compressed record in the log: it contains a CRC, which does not get smaller."""
_RETRIES_S = 600.0
"""Longest time from the first attempt to write a record to the last one."""
CHECK = "log.retention.check.interval.ms"
_INITIAL_DELAY = "log.initial.task.delay.ms"
"""The time from the start of a broker to its first check; a setting from Kafka 3.8 on, 30 s before."""

_CLEANER_RATE, _MIN_LAG = "log.cleaner.io.max.bytes.per.second", "log.cleaner.min.compaction.lag.ms"
_CLEANING_MS = 15_000
"""Time that the cleaner may take for all logs that are due."""

Config = Mapping[str, Scalar]


@dataclass(frozen=True)
class Kept:
    """How long a topic keeps a record with the right timestamp, at most.

    retention_ms: from the last record of its segment on; max.compaction.lag.ms for a superseded record. segment_ms,
    segment_records: by how much that record is later at most, in time and in offsets. check_ms: between two checks of a
    broker. delay_ms: from its start to the first.
    """

    retention_ms: int
    segment_ms: int
    segment_records: int
    check_ms: int
    delay_ms: int


def retained_topics(setup: Setup, faults: Sequence[FaultSpec], run_ms: int) -> frozenset[str]:
    """Return the topics from which retention may delete records in a run of that many ms.

    On a cluster that was not asked for its settings these are all topics: what else may delete there is not known.
    """
    names = [topic.name for topic in setup.topics]
    due = due_topics(setup, faults, run_ms)
    return due.union(name for name in names if name not in due and backdated(setup, faults, name, run_ms))


def due_topics(setup: Setup, faults: Sequence[FaultSpec], run_ms: int) -> frozenset[str]:
    """Return the topics from which retention may delete records with the right timestamps."""
    broker = setup.cluster.config
    return frozenset(
        topic.name
        for topic in setup.topics
        if setup.unasked or any(_deletes(broker, state, run_ms) for state in _states(setup, faults, topic.name))
    )


def backdated(setup: Setup, faults: Sequence[FaultSpec], topic: str, run_ms: int) -> frozenset[str]:
    """Return the clients that write to a topic with times so far behind that retention may delete their records.

    Brokers refuse timestamps beyond their limits, and ignore the timestamps of producers with LogAppendTime.
    """
    broker, states = setup.cluster.config, list(_states(setup, faults, topic))
    if appended(broker, iter(states)):
        return frozenset()
    behind_s = {name: -least_s for name, (least_s, _) in shifts_s(setup, faults, topic, run_ms / 1_000).items()}
    try:
        most_s = max(limits_s(setup.cluster.kafka, broker, state)[0] for state in states)
    except ValueError:  # the broker refuses it
        return frozenset()
    return frozenset(
        name
        for name, seconds in behind_s.items()
        if seconds > 0 and any(_deletes(broker, state, run_ms + 1_000 * min(seconds, most_s)) for state in states)
    )


def shifts_s(setup: Setup, faults: Sequence[FaultSpec], topic: str, run_s: float) -> dict[str, tuple[float, float]]:
    """Return by how many seconds the timestamps of each writer of a topic differ from the clock, from and to.

    Of the clients that set their timestamps, and of those with a clock that a fault changes; positive: ahead.
    """
    found: dict[str, tuple[float, float]] = {}
    for producer in setup.producers:
        if topic in producer.written and (ahead := ahead_s(producer.timestamps)):
            found[producer.name] = min(0.0, ahead), max(0.0, ahead)
    writers = {p.name for p in setup.producers if topic in p.written} | {
        p.name for p in setup.processors if p.to == topic
    }
    for fault in faults:
        if isinstance(fault, ClockFaultSpec) and fault.client in writers:
            behind, ahead = fault.furthest_s(run_s)
            least, most = found.get(str(fault.client), (0.0, 0.0))
            found[str(fault.client)] = min(least, -behind), max(most, ahead)
    return found


def refused_topics(setup: Setup, faults: Sequence[FaultSpec]) -> frozenset[str]:
    """Return the topics with a writer that may give times which brokers refuse."""
    return frozenset(
        topic.name
        for topic in setup.topics
        for shifts in shifts_s(setup, faults, topic.name, _RETRIES_S).values()
        if any(refused(setup, faults, topic.name, shift) for shift in shifts)
    )


def steadily_refused(setup: Setup, faults: Sequence[FaultSpec], client: str, topic: str) -> bool:
    """Return whether a refusal of a timestamp by a broker shows that it refused every attempt to write the record.

    A timestamp that is too far ahead was so at every earlier attempt. One that is too far behind was so if the limit
    is so far from the times of the client that no retry crosses it. Faults must not change limits, nor clocks of
    brokers.
    """
    own = [f for f in faults if isinstance(f, ClockFaultSpec) and f.client == client]
    changes = states_of(setup.topic(topic), faults)[1:]
    moved = any(isinstance(f, ReleaseChangeSpec) or (isinstance(f, ClockFaultSpec) and not f.client) for f in faults)
    if setup.attached or changes or moved or any(isinstance(f, ClockDriftSpec) for f in own):
        return False
    try:
        before_s, _ = limits_s(setup.cluster.kafka, setup.cluster.config, setup.topic(topic).config)
    except ValueError:
        return False
    shifts = [ahead_s(next((p.timestamps for p in setup.producers if p.name == client), None))]
    shifts += [f.by for f in own if isinstance(f, ClockJumpSpec)]
    return all(-shift > before_s or -shift + _RETRIES_S < before_s for shift in shifts)


def kept(setup: Setup, faults: Sequence[FaultSpec], topic: str) -> Kept | None:
    """Return how long a topic keeps a record at most, in each state of its settings.

    None if time retention deletes nothing, or if it is not known: on a cluster that exists already and did not answer
    for how often it deletes, and for a setting that is no number.
    """
    broker, states = setup.cluster.config, list(_states(setup, faults, topic))
    if setup.attached and CHECK not in broker:
        return None
    if any("delete" not in _policy(broker, state) for state in states):
        return None
    if any(str(state.get("remote.storage.enable", False)).lower() == "true" for state in states):
        return None
    try:
        times = [_time_ms(broker, state, "retention.ms", _BROKER_NAMES) for state in states]
        roll_ms, records = _segment(setup, faults, topic, states)
        check_ms = int(broker.get(CHECK, 300_000))
        delay_ms = int(broker.get(_INITIAL_DELAY, 30_000)) if number(setup.cluster.kafka) >= (3, 8, 0) else 30_000
    except ValueError:
        return None
    if any(time_ms < 0 for time_ms in times):
        return None
    return Kept(max(times), roll_ms, records, check_ms, delay_ms)


def superseded(setup: Setup, faults: Sequence[FaultSpec], topic: str) -> Kept | None:
    """Return how long a compacted topic keeps a superseded record at most, in each state of its settings.

    None if nothing bounds it, as by default, when the share of dirty records decides, or if it is not known: on a
    cluster that exists already, where the cleaner is off, throttled or changed by a fault, for a setting that is no
    number, and where a transaction may stop the cleaner at the last stable offset.
    """
    broker, states = setup.cluster.config, list(_states(setup, faults, topic))
    changed = _changed_on_brokers(faults)
    if setup.attached or topic in setup.written_in_transactions() or any(n.startswith("log.cleaner.") for n in changed):
        return None
    if any("compact" not in _policy(broker, state) for state in states) or _CLEANER_RATE in broker:
        return None
    if str(broker.get("log.cleaner.enable", True)).lower() != "true":
        return None
    try:
        default = broker.get("log.cleaner.max.compaction.lag.ms", -1)
        lags = [int(state.get("max.compaction.lag.ms", default)) for state in states]
        roll_ms, records = _segment(setup, faults, topic, states)
        backoff_ms = int(broker.get("log.cleaner.backoff.ms", 15_000))
    except ValueError:
        return None
    longest = max(lags)
    return Kept(longest, min(roll_ms, longest), records, backoff_ms + _CLEANING_MS, 0) if min(lags) > 0 else None


def _segment(setup: Setup, faults: Sequence[FaultSpec], topic: str, states: Sequence[Config]) -> tuple[int, int]:
    """Return the most ms, and the most records, that a segment takes in any state of the settings."""
    broker = setup.cluster.config
    roll_ms = max(_time_ms(broker, state, "segment.ms", _ROLL_NAMES) for state in states)
    size = max(int(state.get("segment.bytes", broker.get("log.segment.bytes", 2**30))) for state in states)
    return roll_ms, 1 + size // _record_bytes(setup, faults, topic, states)


def protected_ms(setup: Setup, faults: Sequence[FaultSpec], topic: str, run_ms: int) -> int:
    """Return for how long compaction leaves a record with the right timestamp, in each state of the settings.

    0 if it is not known, or if a writer gives records times that are behind.
    """
    broker, states = setup.cluster.config, list(_states(setup, faults, topic))
    behind = any(least_s < 0 for least_s, _ in shifts_s(setup, faults, topic, run_ms / 1_000).values())
    changed = _changed_on_brokers(faults)
    if setup.attached or (behind and not appended(broker, iter(states))) or _MIN_LAG in changed:
        return 0
    try:
        return min(int(state.get("min.compaction.lag.ms", broker.get(_MIN_LAG, 0))) for state in states)
    except ValueError:
        return 0


def _states(setup: Setup, faults: Sequence[FaultSpec], topic: str) -> Iterator[Config]:
    """Yield each state of the settings of a topic: from the start, and after each fault that changes them."""
    return (config for config, _ in states_of(setup.topic(topic), faults))


def _changed_on_brokers(faults: Sequence[FaultSpec]) -> set[str]:
    """Return the names of the settings of brokers that faults change."""
    return {name for fault in faults if isinstance(fault, BrokerConfigSpec) for name in fault.settings}


def _policy(broker: Config, topic: Config) -> str:
    return str(topic.get("cleanup.policy", broker.get("log.cleanup.policy", "delete")))


def _time_ms(broker: Config, topic: Config, name: str, of_broker: Sequence[tuple[str, int]]) -> int:
    usual = next((int(broker[other]) * unit for other, unit in of_broker if other in broker), _DEFAULT_MS)
    return int(topic.get(name, usual))


def _deletes(broker: Config, topic: Config, age_ms: float) -> bool:
    """Return whether retention may delete records of an age. A setting that is no number may mean anything."""
    if "delete" not in _policy(broker, topic):
        return False
    try:
        size = int(topic.get("retention.bytes", broker.get("log.retention.bytes", -1)))
        time_ms = _time_ms(broker, topic, "retention.ms", _BROKER_NAMES)
    except ValueError:
        return True
    return size >= 0 or 0 <= time_ms <= age_ms + _SLACK_MS


def _record_bytes(setup: Setup, faults: Sequence[FaultSpec], topic: str, states: Sequence[Config]) -> int:
    """Return the least bytes of a record in the log of a topic."""
    others = any(p.to == topic for p in setup.processors) or any(isinstance(f, WireProduceSpec) for f in faults)
    types = {str(s.get("compression.type", setup.cluster.config.get("compression.type", "producer"))) for s in states}
    writers = [p for p in setup.producers if topic in p.written]
    if others or not types <= {"producer", "uncompressed"} or any(map(compresses, writers)):
        return _LEAST_BYTES
    if any(p.value for p in writers):  # what it holds is not known here
        return _LEAST_BYTES
    return min((HEADER_BYTES if p.tombstone_every else p.value_size for p in writers), default=_LEAST_BYTES)


def compresses(producer: Producer) -> bool:
    """Return whether a producer may compress records; franz-go does by default (snappy)."""
    given = {n.lower(): str(value).lower() for n, value in producer.config.items() if "compress" in n.lower()}
    types = {value for name, value in given.items() if "level" not in name}
    return bool(types - {"none"}) or (producer.client.runtime == "franz-go" and not types)
