"""The offsets below which faults deleted the records of a partition.

DeleteRecords answers when the log start of every live replica has moved (KIP-107). So once a fault of this kind is
proven, none of these records may be in the log again, whichever replica leads. Records of a later time may be there:
after an unclean election of an empty replica, the offsets begin again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chaos.kafka.partition import TopicPartition
from checks.audit.facts.epochs import Row
from checks.audit.facts.moves import evidence_of
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
