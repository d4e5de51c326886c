"""What the observer saw over time, and the rules that are judged from that alone, on the driver.

`cluster` rows are changes: a value is in force from the row that tells it to the next one, or to the end of the drive.
While nobody answered, nothing is known.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from checks.audit.epochs import Row
from checks.audit.findings import UNDETERMINED, Finding, finding
from checks.audit.large.tally import Tally
from checks.audit.readers import Reader

HANGS_US = 10_000_000
"""So long the last stable offset may stand still after the end of every transaction that can explain it."""
ELECTION_US = 2_000_000
"""So long coordinator and leader may differ: one of them was seen before, the other after an election."""
SETTLED_US = 300_000
"""A group that is Stable and kept its members and their partitions for so long has settled: about one look at it."""
SETTLED_IN_STEPS_US = 2_000_000
"""The same, where a rebalance takes two steps (cooperative-sticky, KIP-848) and the group is Stable in between."""
OFFSETS_TOPIC = "__consumer_offsets"
Writer = tuple[str, int, str, int]
"""Topic, partition, producer and incarnation."""


@dataclass(frozen=True)
class Stretch:
    """A time in which some values were in force together; open: to the end of the drive."""

    begin_us: int
    end_us: int
    values: dict[str, Any]
    open: bool


class Observed:
    """The `cluster` rows of a run. end_us: the end of the drive."""

    def __init__(self, rows: Iterable[Row], end_us: int) -> None:
        self.end_us = end_us
        self._rows: dict[str, list[tuple[int, str, Any]]] = defaultdict(list)
        for row in sorted(rows, key=lambda r: r["at_us"]):
            self._rows[row["entity"]].append((row["at_us"], row["key"], _json(row["value"])))

    def entities(self, key: str) -> list[str]:
        """Those of which a key was ever seen."""
        return sorted(e for e, rows in self._rows.items() if any(k == key for _, k, _ in rows))

    def count(self, entity: str, key: str) -> int:
        """How often a key of an entity was seen to change, its first sight included."""
        return sum(k == key for _, k, _ in self._rows.get(entity, ()))

    def first(self, entity: str, key: str) -> int | None:
        """When a key of an entity was first seen; None if it never was."""
        return next((at for at, k, _ in self._rows.get(entity, ()) if k == key), None)

    def last(self, entity: str, key: str) -> Any:
        """The value last seen; None if it never was."""
        return next((v for _, k, v in reversed(self._rows.get(entity, ())) if k == key), None)

    def stretches(self, *watched: tuple[str, str]) -> Iterator[Stretch]:
        """The times between changes of these (entity, key), named `key`; a key not seen yet has the value None."""
        changes = sorted(
            ((at, k, v) for e, key in watched for at, k, v in self._rows.get(e, ()) if k == key), key=lambda c: c[0]
        )
        values: dict[str, Any] = {key: None for _, key in watched}
        begin: int | None = None
        for at, key, value in changes:
            if begin is not None and at > begin:
                yield Stretch(begin, at, dict(values), open=False)
            values[key], begin = value, at
        if begin is not None:
            yield Stretch(begin, max(self.end_us, begin), dict(values), open=True)


def _json(text: str | None) -> Any:
    try:
        return json.loads(text) if text is not None else None
    except json.JSONDecodeError:
        return None


def joined(stretches: Iterable[Stretch], key: str) -> Iterator[tuple[Any, Stretch]]:
    """Neighbouring stretches with one value of `key` (None: of no interest) as one, with the values of the last."""
    current: tuple[Any, Stretch] | None = None
    for s in stretches:
        value = s.values[key]
        if current and current[0] == value and current[1].end_us == s.begin_us:
            current = value, Stretch(current[1].begin_us, s.end_us, s.values, s.open)
            continue
        if current and current[0] is not None:
            yield current
        current = value, s
    if current and current[0] is not None:
        yield current


def hanging_transaction(observed: Observed, transactions: list[Row], writers: set[Writer]) -> Iterator[Finding]:
    """The last stable offset of a partition stood still below its end for more than `HANGS_US` after the end of every
    transaction that was open when it came to stand, or was still standing at the end of the drive.

    Only while the partition's leader answered. Of the transactions those count whose producer wrote in transactions to
    the partition; one without a known end explains nothing.
    """
    ended = [t for t in transactions if t["outcome"] in ("committed", "aborted")]
    for entity in observed.entities("last_stable_offset"):
        topic, _, partition = entity.rpartition("/")
        keys = ("last_stable_offset", "end_offset", "offsets_answer")
        for lso, s in joined(_stuck(observed.stretches(*((entity, key) for key in keys))), "stuck"):
            until = [
                t["ended_us"]
                for t in ended
                if t["began_us"] <= s.begin_us < t["ended_us"]
                and (topic, int(partition), t["producer"], t["incarnation"]) in writers
            ]
            explained_us = min(max(until, default=s.begin_us), s.end_us)
            stood = s.end_us - explained_us
            if stood > HANGS_US or (s.open and stood > 0):
                yield finding(
                    "hanging_transaction",
                    topic,
                    topic=topic,
                    partition=int(partition),
                    offset=lso,
                    at_us=s.begin_us,
                    evidence={
                        "stood_from_us": s.begin_us,
                        "stood_until_us": s.end_us,
                        "unexplained_for_us": stood,
                        "end_offset": s.values["end_offset"],
                        "at_the_end": s.open,
                    },
                )


def _stuck(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """With the value `stuck`: the last stable offset where it is below the end and the leader answers, else None."""
    for s in stretches:
        lso, end = s.values["last_stable_offset"], s.values["end_offset"]
        below = isinstance(lso, int) and isinstance(end, int) and lso < end and s.values["offsets_answer"] is not False
        yield Stretch(s.begin_us, s.end_us, s.values | {"stuck": lso if below else None}, s.open)


def misplaced_coordinator(observed: Observed, groups: Iterable[str]) -> Iterator[Finding]:
    """The group's coordinator was for longer than `ELECTION_US` another broker than the leader of its partition of
    `__consumer_offsets`, neither changing. Shorter, while there was no leader, or while nobody answered, an election
    explains it; a difference that has just begun when the drive ends is undetermined."""
    for group in groups:
        place = offsets_partition(observed, group)
        if place is None:
            continue
        keys = ((f"group:{group}", "coordinator"), (f"group:{group}", "answers"), (place, "leader"))
        for pair, s in joined(_apart(observed.stretches(*keys)), "apart"):
            short = s.end_us - s.begin_us <= ELECTION_US
            if short and not s.open:
                continue
            evidence = {
                "coordinator": pair[0],
                "leader": pair[1],
                "coordinated_in": place,
                "from_us": s.begin_us,
                "until_us": s.end_us,
            }
            where: dict[str, Any] = {"topic": OFFSETS_TOPIC, "partition": int(place.rpartition("/")[2])}
            split = UNDETERMINED if short else ""
            yield finding("misplaced_coordinator", group, split, evidence, at_us=s.begin_us, **where)


def _apart(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    for s in stretches:
        coordinator, leader = s.values["coordinator"], s.values["leader"]
        known = isinstance(coordinator, int) and isinstance(leader, int) and min(coordinator, leader) >= 0
        differ = known and coordinator != leader and s.values["answers"] is not False
        yield Stretch(s.begin_us, s.end_us, s.values | {"apart": (coordinator, leader) if differ else None}, s.open)


def offsets_partition(observed: Observed, group: str) -> str | None:
    """The partition of `__consumer_offsets` that is the group's, as Kafka computes it; None if it was never seen."""
    partitions = observed.last(OFFSETS_TOPIC, "partitions")
    if not isinstance(partitions, int) or partitions < 1:
        return None
    place = f"{OFFSETS_TOPIC}/{java_hash(group) % partitions}"
    return place if observed.count(place, "leader") else None


def java_hash(text: str) -> int:
    """`Utils.abs(text.hashCode())` of Kafka: Java's hash over UTF-16 code units in 32 bits, without its sign.

    It is `Math.abs` (0 for the lowest number), not `Utils.toPositive`, which takes the sign bit off.
    """
    units, value = text.encode("utf-16-be", "surrogatepass"), 0
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2], "big")) & 0xFFFFFFFF
    return abs(value - 2**32 if value >= 2**31 else value) % 2**31


def unbalanced_assignment(observed: Observed, readers: list[Reader]) -> Iterator[Finding]:
    """A settled group (Stable, the same members and partitions for long enough) whose partitions are not spread as its
    assignor promises; each such time counts once.

    range: of each topic every member has neighbouring partitions, and as many as the others or one more. roundrobin,
    sticky, cooperative-sticky, and group.protocol=consumer: all members have as many in all, or one more.
    Undetermined: of another assignor, or of members that do not all subscribe to the same topics.
    """
    for reader in readers:
        if reader.mode == "subscribe":
            for s in settled(observed, reader):
                members: list[dict[str, Any]] = s.values["members"]
                why = unbalanced(reader.assignor, members)
                if why:
                    split = UNDETERMINED if why == UNDETERMINED else ""
                    held = {str(m.get("client_id") or m.get("member_id")): m["partitions"] for m in members}
                    evidence = {"why": why, "assignor": reader.assignor, "members": held, "until_us": s.end_us}
                    yield finding("unbalanced_assignment", reader.name, split, evidence, at_us=s.begin_us)


def settled(observed: Observed, reader: Reader) -> list[Stretch]:
    """The times in which the group was Stable with the same members holding the same partitions, long enough."""
    keys = [(f"group:{reader.name}", key) for key in ("members", "state", "answers")]
    at_once = reader.assignor in ("range", "roundrobin")
    found = []
    for s in observed.stretches(*keys):
        members = s.values["members"]
        quiet = s.values["state"] == "Stable" and s.values["answers"] is not False and isinstance(members, list)
        if quiet and members and s.end_us - s.begin_us > (SETTLED_US if at_once else SETTLED_IN_STEPS_US):
            found.append(s)
    return found


def unbalanced(assignor: str, members: list[dict[str, Any]]) -> str:
    """In what the partitions are not spread as the assignor promises: empty if they are."""
    held: list[dict[str, list[int]]] = [_by_topic(m["partitions"]) for m in members]
    if assignor in ("roundrobin", "sticky", "cooperative-sticky", "uniform"):
        counts = sorted(sum(map(len, topics.values())) for topics in held)
        return f"members hold {counts[0]} to {counts[-1]} partitions" if counts[-1] - counts[0] > 1 else ""
    if assignor != "range":
        return UNDETERMINED
    for topic in sorted({t for topics in held for t in topics}):
        mine = [sorted(topics.get(topic, ())) for topics in held]
        counts = sorted(map(len, mine))
        if counts[-1] - counts[0] > 1:
            return f"members hold {counts[0]} to {counts[-1]} partitions of {topic}"
        everything = sorted(n for numbers in mine for n in numbers)
        rank = {n: i for i, n in enumerate(everything)}
        if any(numbers and rank[numbers[-1]] - rank[numbers[0]] != len(numbers) - 1 for numbers in mine):
            return f"a member holds partitions of {topic} that are not neighbours"
    return ""


def _by_topic(partitions: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for name in partitions:
        topic, _, number = name.rpartition("/")
        found[topic].append(int(number))
    return found


def count_observed(observed: Observed, readers: list[Reader], tally: Tally) -> None:
    """How much there was to look at, by what is examined and scope."""
    for entity in observed.entities("last_stable_offset"):
        seen = observed.count(entity, "last_stable_offset")
        tally.add("sum", "stable_offsets", entity.rpartition("/")[0], value=seen)
    for group in sorted({r.group for r in readers if r.group is not None}):
        if offsets_partition(observed, group) is not None:
            tally.add("sum", "coordinators", group, value=observed.count(f"group:{group}", "coordinator"))
    for reader in readers:
        if reader.mode == "subscribe":
            tally.add("sum", "settled", reader.name, value=len(settled(observed, reader)))
