"""The offsets below which the records of a partition were deleted by order.

DeleteRecords answers when the log start of every live replica has moved (KIP-107). So once a fault of this kind is
proven, none of these records may be in the log again, whichever replica leads. Records of a later time may be there:
after an unclean election of an empty replica, the offsets begin again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chaos.kafka.partition import TopicPartition
from chaos.scenario.model import Scenario
from checks.audit.facts.epochs import Row
from checks.audit.facts.offset_changes import evidence_of
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
    order, so a log that begins later has lost records. None if the partition was not read back. ordered: see
    `ordered_starts`. run_us: how long the run took.
    """
    retained = scenario.retained(run_us // 1000)
    found: dict[tuple[str, int], int | None] = {}
    for place, (start, _) in ranges.items():
        below = ordered[place]
        found[place] = start
        if start is not None and below is not None and place[0] not in retained:
            found[place] = min(start, below)
    return found


def _topic_of(target: str) -> str:
    """Return the topic of a target such as `topic orders` or `partition orders/0`."""
    return target.rpartition(" ")[2].partition("/")[0]
