"""Partitions that came when a group had begun to read their topic already: all of each is in the group's range.

`auto.offset.reset=latest` means "from now on" where it finds a partition for the first time. For what was there when
the group began, that is what its user asked for, and nothing is skipped. A partition that is added later had no record
before the group had begun: all that was ever written to it was written while the group subscribed to its topic, and
`latest` leaves out what came between its making and its finding, which no setting announces and no error tells. That is
KAFKA-12478, the "metadata blindness window" of KIP-1327 and KIP-1282, and the warning in Kafka's own documentation of
`auto.offset.reset` (KAFKA-12261, KAFKA-20539); KIP-1327 lets new partitions have a policy of their own for it.

Only groups: a subscription is to a topic as a whole, by name or by pattern, whatever partitions it has or will have. An
assign-mode consumer names the partitions that it reads, and owes nothing of others. A group that a fault deleted begins
anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from checks.audit.epochs import Epochs
from checks.audit.moves import Move
from checks.audit.observed import Observed
from checks.audit.readers import Reader

LOOK_US = 3_000_000
"""So long one look of the observer at the metadata may take: three brokers, one after another, do not answer."""

Place = tuple[str, str, int]
"""Reader, topic and partition."""


@dataclass(frozen=True)
class Newcomer:
    """A partition that was made after a group had begun. began_us: the first assignment of a member that subscribes to
    its topic; seen_us: when the observer first saw it."""

    began_us: int
    seen_us: int


def newcomers(
    readers: list[Reader],
    epochs: Epochs,
    observed: Observed,
    places: Iterable[tuple[str, int]],
    moves: Iterable[Move] = (),
) -> dict[Place, Newcomer]:
    """Those of these partitions that were surely made after a group had begun to read their topic.

    Surely: the observer had looked at the cluster before the group began, and until so long after that no look of it
    can have been before, without seeing them.
    """
    first_look = observed.first("cluster", "answers")
    if first_look is None:
        return {}
    made: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for topic, partition in places:
        if (seen := observed.first(f"{topic}/{partition}", "leader")) is not None:
            made[topic].append((partition, seen, _made_after(seen, observed)))
    begins, held, found = _begins(epochs), epochs.by_place(), {}
    for reader in (r for r in readers if r.mode == "subscribe"):
        deleted = [m.from_us for m in moves if m.offsets is None and m.group == reader.name]
        for topic in reader.topics:
            mine = [begins[reader.name, entry] for entry, topics in reader.entries if topic in topics]
            for partition, seen, made_after in made[topic]:
                turns = held.get((reader.name, topic, partition), [])
                since = max((at for at in deleted if not turns or at <= turns[0].begin_us), default=0)
                began = min((at[i] for at in mine if (i := bisect_left(at, since)) < len(at)), default=None)
                if began is not None and first_look <= began < made_after:
                    found[reader.name, topic, partition] = Newcomer(began, seen)
    return found


def _begins(epochs: Epochs) -> dict[tuple[str, str], list[int]]:
    """By reader and entry of the scenario, when members were assigned anything, of whatever topic."""
    begins: dict[tuple[str, str], list[int]] = defaultdict(list)
    for e in epochs.all:
        begins[e.reader, e.consumer.rpartition("/")[0]].append(e.begin_us)
    for times in begins.values():
        times.sort()
    return begins


def _made_after(seen_us: int, observed: Observed) -> int:
    """A moment at which what was first seen then was surely not there yet: one look before, or one look before the time
    in which nobody answered the observer, if it was seen at the end of such a time."""
    since = seen_us - LOOK_US
    for s in observed.stretches(("cluster", "answers")):
        if s.values["answers"] is False and s.begin_us <= seen_us and s.end_us >= since:
            since = min(since, s.begin_us - LOOK_US)
    return since
