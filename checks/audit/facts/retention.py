"""What an order has removed; what retention and compaction may have removed by timestamps, and should have by then.

The last two go by `chaos.scenario.retention`. The true time of a record is the time of its acknowledgement, by the
clock of the drive; its timestamp is what Kafka compares.

DeleteRecords answers when the log start of every live replica has moved (KIP-107). So once a fault of this kind is
proven, none of these records may be in the log again, whichever replica leads. Records of a later time may be there:
after an unclean election of an empty replica, the offsets begin again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.faults.clients import ClientFaultSpec
from chaos.faults.clocks import ClockFaultSpec
from chaos.faults.topics import DeleteRecordsSpec
from chaos.kafka.partition import TopicPartition
from chaos.scenario import retention
from chaos.scenario.cluster_rules import clock_faults
from chaos.scenario.model import Scenario
from chaos.scenario.retention import Kept
from checks.audit.arrays import Ints, Mask
from checks.audit.facts.epochs import Row
from checks.audit.facts.offset_changes import evidence_of
from checks.audit.facts.readers import entry_of
from checks.audit.facts.starts import LogRange
from checks.audit.facts.topic_lives import TopicLives

KIND = "topic.delete_records"


@dataclass(frozen=True)
class Deletion:
    """The deletion of all records of a partition below an offset, by a fault that was proven at `at_us`."""

    below: int
    at_us: int
    fault: str


def deletions(faults: Iterable[Row], lives: TopicLives) -> dict[tuple[str, int], list[Deletion]]:
    """Return the proven deletions by topic and partition, of the topics that were read back."""
    found: dict[tuple[str, int], list[Deletion]] = {}
    for row in faults:
        if row["kind"] != KIND or row["phase"] != "proven":
            continue
        for name, below in evidence_of(row).get("log_starts", {}).items():
            partition = TopicPartition.parse(name)
            life = lives.of[partition.topic][-1] if partition.topic in lives.of else None
            if life is None or (not life.ended and life.since_us <= row["at_us"]):
                deletion = Deletion(below, row["at_us"], row["fault"])
                found.setdefault((partition.topic, partition.number), []).append(deletion)
    return found


def ordered_starts(
    places: Iterable[tuple[str, int]], deleted: Mapping[tuple[str, int], list[Deletion]], faults: Sequence[Row]
) -> dict[tuple[str, int], int | None]:
    """Return by topic and partition the offset below which faults deleted all records; None if it is not known.

    It is not known of a topic with such a fault without a proof, which may have deleted any record.
    """
    topics = {row["fault"]: _topic_of(row["target"]) for row in faults if row["kind"] == KIND}
    proven = {row["fault"] for row in faults if row["phase"] == "proven"}
    unknown = {topic for fault, topic in topics.items() if fault not in proven}
    by_order = {place: max((d.below for d in deleted.get(place, [])), default=0) for place in places}
    return {place: None if place[0] in unknown else below for place, below in by_order.items()}


def due_starts(
    ranges: Mapping[tuple[str, int], LogRange],
    ordered: Mapping[tuple[str, int], int | None],
    scenario: Scenario,
    run_us: int,
) -> dict[tuple[str, int], int | None]:
    """Return by topic and partition the offset from which on the log has to hold every acknowledged record.

    That is the start of the log at read-back where retention may have moved it. Elsewhere only a fault moves it by
    order, so a log that begins later has lost records. What was in a topic before a tap may be of any age, and the log
    is read from there on. None if the partition was not read back. ordered: see `ordered_starts`. run_us: how long the
    run took.
    """
    retained = scenario.retained(run_us // 1000)
    found: dict[tuple[str, int], int | None] = {}
    for place, (start, _) in ranges.items():
        below = ordered[place]
        found[place] = start
        if start is not None and below is not None and place[0] not in retained and not scenario.tapped:
            found[place] = min(start, below)
    return found


def _topic_of(target: str) -> str:
    """Return the topic of a target such as `topic orders` or `partition orders/0`."""
    return target.rpartition(" ")[2].partition("/")[0]


ALWAYS = (0, 2**62)
SLACK_US = 10_000_000
"""Time by which a check of retention may be late on a loaded machine."""
ACKED_BUCKET_US = 250_000
"""Resolution of the times at which offsets were acknowledged; see `engine.time_buckets`."""

Place = tuple[str, int]
"""Topic and partition."""
Sparse = tuple[Ints, Ints]
"""As in `engine.tally`: distinct numbers, ascending, and a value for each."""


@dataclass(frozen=True)
class Backdated:
    """A topic from which retention deletes records only if their timestamps are behind.

    spans: by entry, the times of the drive in us in which its timestamps were so far behind. ordered: by partition, the
    offset below which faults deleted all records.
    """

    spans: Mapping[str, Sequence[tuple[int, int]]]
    ordered: Mapping[int, int]

    def explains(self, client: str, invoked_us: Ints, completed_us: Ints) -> Mask:
        """Return which records of a client, by the times of their sends, retention may delete."""
        found = np.zeros(len(invoked_us), np.bool_)
        for since_us, until_us in self.spans.get(entry_of(client), ()):
            found |= (completed_us >= since_us) & (invoked_us <= until_us)
        return found


def backdated_topics(
    scenario: Scenario, faults: Sequence[Row], ordered: Mapping[Place, int | None], run_us: int
) -> dict[str, Backdated]:
    """Return the topics from which retention deletes records only by timestamps that are behind.

    ordered: by topic and partition, the offset below which faults deleted all records, None if it is not known. A topic
    with None is left out: a fault may have deleted any of its records.
    """
    found, run_ms = {}, run_us // 1_000
    due = retention.due_topics(scenario, scenario.faults, run_ms)
    for topic in [t.name for t in scenario.topics if t.name not in due]:
        here = {partition: below for (name, partition), below in ordered.items() if name == topic}
        entries = retention.backdated(scenario, scenario.faults, topic, run_ms)
        if entries and None not in here.values():
            spans = {entry: _spans(scenario, entry, faults) for entry in entries}
            found[topic] = Backdated(spans, {partition: below or 0 for partition, below in here.items()})
    return found


def _spans(scenario: Scenario, entry: str, faults: Sequence[Row]) -> tuple[tuple[int, int], ...]:
    if any(p.name == entry and p.timestamps is not None for p in scenario.producers):
        return (ALWAYS,)
    names = [fault.name for fault in clock_faults(scenario.faults) if fault.client == entry]
    return tuple(
        (min(begun), max(healed, default=ALWAYS[1]))
        for name in names
        if (begun := _times(faults, name, "injecting", "injected"))
        for healed in [_times(faults, name, "healed")]
    )


def _times(faults: Iterable[Row], name: str, *phases: str) -> list[int]:
    return [row["at_us"] for row in faults if row["fault"] == name and row["phase"] in phases]


@dataclass(frozen=True)
class Overdue:
    """The records of a partition that its settings should have deleted before it was read back, or have deleted.

    below: the offset after the last of them. unsure: whether a broker may have had a wrong clock until then.
    """

    below: int
    unsure: bool = False


def overdue_records(
    scenario: Scenario,
    compacts: bool,
    faults: Sequence[Row],
    ranges: Mapping[Place, LogRange],
    read_us: Mapping[Place, tuple[int | None, int | None]],
    acked: Mapping[str, Sparse],
    begin_us: int,
) -> dict[Place, Overdue]:
    """Return the partitions in which records were due.

    A record is due when its whole segment is as old as retention.ms, and a check has come since: `Kept` bounds the
    segment by time and by size, and a partition bounds it in which nothing was written since. Checks count from the end
    of the last fault of brokers on. compacts: whether to judge by compaction, which removes superseded records below an
    offset. acked: by topic, the offsets acknowledged by partition and time bucket. begin_us: when the clients began.
    """
    quiet_us, unsure = _quiet(scenario, faults, begin_us)
    found = {}
    for topic in scenario.topics:
        kept = scenario.superseded(topic.name) if compacts else scenario.kept(topic.name)
        if kept is None or topic.name not in acked:
            continue
        late_us = 1_000 * kept.check_ms + SLACK_US
        for place, (start, end) in ranges.items():
            began_us, _ = read_us.get(place, (None, None))
            if place[0] != topic.name or start is None or end is None or began_us is None:
                continue
            if began_us - late_us < quiet_us + 1_000 * kept.delay_ms:
                continue
            reached, checked_us = _reached(acked[topic.name], place[1]), began_us - late_us
            if compacts and checked_us - 1_000 * kept.retention_ms < quiet_us:
                continue
            below = _compacted(kept, reached, checked_us) if compacts else _due(kept, reached, checked_us, end)
            if below:
                found[place] = Overdue(below, unsure)
    return found


def _quiet(scenario: Scenario, faults: Sequence[Row], begin_us: int) -> tuple[int, bool]:
    """Return from when on no fault kept brokers from their checks, and whether a clock of a broker stayed wrong."""
    specs = {fault.name: fault for fault in scenario.faults}
    quiet_us, unsure = begin_us, False
    for name, spec in specs.items():
        if isinstance(spec, ClientFaultSpec | DeleteRecordsSpec) or (isinstance(spec, ClockFaultSpec) and spec.client):
            continue
        times = [row["at_us"] for row in faults if row["fault"] == name]
        quiet_us = max([quiet_us, *times])
        unsure |= isinstance(spec, ClockFaultSpec) and bool(times) and not _times(faults, name, "healed")
    return quiet_us, unsure


def _reached(acked: Sparse, partition: int) -> Sparse:
    """Return the ends of time buckets, ascending, and the offset that was acknowledged by then in one partition."""
    keys, offsets = acked
    here = keys >> 36 == partition
    ends = ((keys[here] & ((1 << 36) - 1)) + 1) * ACKED_BUCKET_US
    return ends, np.maximum.accumulate(offsets[here])


def _by(reached: Sparse, at_us: int) -> int:
    times, offsets = reached
    index = int(np.searchsorted(times, at_us, "right"))
    return int(offsets[index - 1]) if index else 0


def _compacted(kept: Kept, reached: Sparse, checked_us: int) -> int:
    """Return the offset below which every segment had ended and was too old at the last look of the cleaner.

    The active segment is never cleaned. It ends by time only when a record comes that was sent so much later, and an
    acknowledgement may take `SLACK_US`.
    """
    old_us = checked_us - 1_000 * kept.retention_ms
    goes_on = _by(reached, checked_us) > _by(reached, old_us)
    ended = _by(reached, old_us - 1_000 * kept.segment_ms - SLACK_US) if goes_on else 0
    return max(_by(reached, old_us) - kept.segment_records, ended, 0)


def _due(kept: Kept, reached: Sparse, checked_us: int, end: int) -> int:
    """Return the offset below which the last check found every segment too old. end: of the log."""
    times, offsets = reached
    if not len(times):
        return 0

    old_us = checked_us - 1_000 * kept.retention_ms
    if times[-1] <= old_us and offsets[-1] == end:
        return end
    return max(_by(reached, old_us) - kept.segment_records, _by(reached, old_us - 1_000 * kept.segment_ms), 0)
