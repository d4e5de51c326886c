"""Which topic a row belongs to, where one was deleted and another one with its name was created (KIP-516).

Each earlier topic gets another name, so that all other checks see it as another topic.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]

SETTLE_US = 1_000_000
LOOK_US = 3_000_000
FOREVER = 1 << 62
TIMES = {
    "sends": ("invoked_us", "completed_us"),
    "deliveries": ("sent_us", "polled_us"),
    "commits": ("requested_us", "completed_us"),
}


@dataclass(frozen=True)
class Life:
    """One topic. Nothing reached it before `since`; what was sent after `alone_since` reached no earlier one."""

    label: str
    since: int = 0
    alone_since: int = 0
    deleted: int | None = None


@dataclass
class Lives:
    """By name of a topic its lives. compacted: the compacted topics.

    undecided: rows that may belong to the last life, by check and scope.
    """

    of: dict[str, list[Life]] = field(default_factory=dict)
    compacted: frozenset[str] = frozenset()
    placed: dict[Any, str | None] = field(default_factory=dict)
    undecided: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def ended(self) -> set[str]:
        return self.mixed | {life.label for lives in self.of.values() for life in lives if life.deleted is not None}

    @property
    def mixed(self) -> set[str]:
        """Of rows that belong to one of two ended topics, and nobody knows to which."""
        return {f"{topic} (deleted, life unknown)" for topic in self.of}

    def before(self, label: str) -> list[str]:
        """The labels of the earlier topics with the same name."""
        for lives in self.of.values():
            labels = [life.label for life in lives]
            if label in labels:
                return labels[: labels.index(label)]
        return []


def separate(rows: dict[str, list[Row]], is_own: Any, compacted: frozenset[str]) -> Lives:
    """Give every row the label of its life. Changes the rows."""
    lives = Lives(_lives_of(rows), compacted)
    if not lives.of:
        return lives
    records = defaultdict(set)
    for record in rows["log"]:
        if is_own(record):
            records[record["topic"], _who(record)].add((record["partition"], record["offset"]))
    steady = _steady(rows, lives, compacted)
    of_deleted = [row for row in rows["sends"] if row["topic"] in lives.of]
    unclear = {(r["topic"], _who(r)) for r in of_deleted if _perhaps_last(lives.of[r["topic"]], r)}
    anywhere = {(r["topic"], _who(r)) for r in of_deleted if _anywhere(lives.of[r["topic"]], r)}
    lives.placed = _between(of_deleted, lives, steady)
    here = {(row["topic"], row["partition"]) for row in rows["log_range"]}
    for table in TIMES:
        for row in rows[table]:
            if row["topic"] in lives.of:
                absent = (row["topic"], row["partition"]) not in here and row["partition"] is not None
                if _place(table, row, lives, records, steady, unclear, absent):
                    _among_ended(table, row, lives, anywhere)
    for row in rows["cluster"]:
        parts = row["entity"].split("/")
        if row["key"] == "committed" and len(parts) == 3 and parts[1] in lives.of:
            label = _bounds(lives.of[parts[1]], row["at_us"], row["at_us"])[0].label
            row["entity"] = f"{parts[0]}/{label}/{parts[2]}"
    rows["assignments"] = _assignments(rows, lives)
    return lives


def _who(row: Row) -> tuple[Any, Any, Any]:
    return row["producer"], row.get("producer_incarnation", row.get("incarnation")), row["seq"]


def _lives_of(rows: dict[str, list[Row]]) -> dict[str, list[Life]]:
    """From what faults say of their deletions; of other topics, from the ids that the observer saw."""
    changes: dict[str, list[tuple[int, int, int, str]]] = defaultdict(list)  # deleted, gone, created, former id
    last = {}
    for row in sorted(rows["faults"], key=lambda r: r["at_us"]):
        evidence = json.loads(row["evidence"] or "{}")
        if row["kind"].startswith("topic.") and "delete_us" in evidence:
            last[row["fault"]] = row["target"].removeprefix("topic "), evidence
    for topic, evidence in last.values():
        created = evidence.get("everywhere_us") or FOREVER
        changes[topic].append((*evidence["delete_us"], created, evidence.get("former_id") or ""))
    for topic, seen in _ids(rows).items():
        if topic not in changes:
            changes[topic] += seen
        by_client = {former: created for _, _, created, former in seen}
        changes[topic] = [
            (*c[:2], c[2] if c[2] < FOREVER else by_client.get(c[3], FOREVER), c[3]) for c in changes[topic]
        ]
    here = {row["topic"] for row in rows["log_range"]}
    here |= {topic for topic, found in changes.items() if found and max(found)[2] < FOREVER}
    return {topic: _chain(topic, sorted(found), topic in here) for topic, found in changes.items() if found}


def _ids(rows: dict[str, list[Row]]) -> dict[str, list[tuple[int, int, int, str]]]:
    found: dict[str, list[tuple[int, int, int, str]]] = defaultdict(list)
    current: dict[str, tuple[str, int | None]] = {}
    for row in sorted(rows["cluster"], key=lambda r: r["at_us"]):
        if row["key"] != "id":
            continue
        topic, value, at_us = row["entity"].removeprefix("topic:"), json.loads(row["value"]), row["at_us"]
        former, gone = current.get(topic, (None, None))
        if former is None or (value == former and former):
            if value is not None:
                current[topic] = value, None
        elif value is None:
            current[topic] = former, gone or at_us
        else:
            gone = gone or at_us
            found[topic].append((gone - LOOK_US, gone, at_us + LOOK_US, former))
            current[topic] = value, None
    for topic, (former, gone) in current.items():
        if gone and former is not None:
            found[topic].append((gone - LOOK_US, gone, FOREVER, former))
    return found


def _chain(topic: str, changes: list[tuple[int, int, int, str]], present: bool) -> list[Life]:
    lives, since, alone = [], 0, 0
    for nth, (deleted, gone, created, former) in enumerate(changes, start=1):
        at = time.strftime("%H:%M:%S", time.gmtime(deleted / 1e6))
        which = f"id {former}" if former else f"life {nth} of {len(changes) + 1}, no id"
        lives.append(Life(f"{topic} (deleted {at}, {which})", since, alone, deleted))
        since, alone = gone, created + SETTLE_US
    return [*lives, Life(topic, since, alone)] if present else lives


def _bounds(lives: list[Life], first: int, last: int) -> tuple[Life, Life]:
    latest = [life for life in lives if life.since <= last][-1:] or lives[:1]
    earliest = [life for life in lives if life.alone_since <= first][-1:] or lives[:1]
    return min(earliest[0], latest[0], key=lives.index), latest[0]


def _times(table: str, row: Row) -> tuple[int, int]:
    first, last = (row[name] for name in TIMES[table])
    return (-1 if first is None else first), (FOREVER if last is None else last)


def _perhaps_last(lives: list[Life], row: Row) -> bool:
    """Whether a send may have reached the topic that exists, or an earlier one."""
    earliest, latest = _bounds(lives, *_times("sends", row))
    return earliest != latest and latest.deleted is None


def _ended_between(lives: list[Life], table: str, row: Row) -> list[Life]:
    """The deleted topics that a row may belong to."""
    earliest, latest = _bounds(lives, *_times(table, row))
    between = lives[lives.index(earliest) : lives.index(latest) + 1]
    return [life for life in between if life.deleted is not None]


def _anywhere(lives: list[Life], row: Row) -> bool:
    """Whether a send that may have arrived, nobody knows where, may have reached several deleted topics."""
    unknown = row["outcome"] != "fail" and row["offset"] is None
    return unknown and len(_ended_between(lives, "sends", row)) > 1


def _steady(rows: dict[str, list[Row]], lives: Lives, compacted: frozenset[str]) -> set[tuple[str, int]]:
    """Lives of partitions with one leader epoch: what they acknowledged stays where it was."""
    starts = {(row["topic"], row["partition"]): row["start"] for row in rows["log_range"]}
    seen: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in rows["cluster"]:
        topic, _, number = row["entity"].rpartition("/")
        if row["key"] == "leader_epoch" and topic in lives.of and topic not in compacted:
            for life in lives.of[topic]:
                if life.since <= row["at_us"] < (FOREVER if life.deleted is None else life.deleted):
                    seen[life.label, int(number)].add(row["value"])
    return {place for place, epochs in seen.items() if len(epochs) == 1 and not _begins_late(place, starts, lives)}


def _begins_late(place: tuple[str, int], starts: dict[tuple[str, int], int], lives: Lives) -> bool:
    """Whether records at the start of the log were deleted since."""
    in_force = place[0] in lives.of and any(topic == place[0] for topic, _ in starts)
    return in_force and starts.get(place, 1) != 0


def _between(sends: list[Row], lives: Lives, steady: set[tuple[str, int]]) -> dict[Any, str | None]:
    """Where acknowledgements belong that time puts into one of several topics that were deleted.

    Offsets of one leader grow: what the earlier one had reached before is of the later one; what the later one had not
    reached yet is of the earlier one.
    """
    acks = [s for s in sends if s["outcome"] == "ok" and s["offset"] is not None]
    sure: dict[tuple[str, int], list[int]] = defaultdict(list)
    for send in acks:
        earliest, latest = _bounds(lives.of[send["topic"]], *_times("sends", send))
        if earliest == latest:
            sure[latest.label, send["partition"]].append(send["offset"])
    found: dict[Any, str | None] = {}
    for send in acks:
        chain, partition, offset = lives.of[send["topic"]], send["partition"], send["offset"]
        earliest, latest = _bounds(chain, *_times("sends", send))
        ended = _ended_between(chain, "sends", send)
        if len(ended) < 2 or None in _who(send):
            continue
        if chain.index(latest) > chain.index(earliest) + 1:
            found[send["topic"], _who(send), partition, offset] = f"{send['topic']} (deleted, life unknown)"
            continue
        old, new = sure[earliest.label, partition], sure[latest.label, partition]
        grown = (earliest.label, partition) in steady and send["invoked_us"] >= latest.since
        not_old = grown and bool(old) and offset <= max(old)
        done = (latest.label, partition) in steady and send["completed_us"] <= latest.alone_since
        not_new = done and bool(new) and offset >= min(new)
        label = f"{send['topic']} (deleted, life unknown)"
        if not_old != not_new:
            label = latest.label if not_old else earliest.label
        found[send["topic"], _who(send), partition, offset] = label
    return found


def _place(table: str, row: Row, lives: Lives, records: Any, steady: Any, unclear: Any, absent: bool) -> bool:
    """Give a row its label; and say whether it may be of several deleted topics, and has the label of the first."""
    topic = row["topic"]
    several = len(_ended_between(lives.of[topic], table, row)) > 1
    earliest, latest = _bounds(lives.of[topic], *_times(table, row))
    row["topic"] = earliest.label
    if table == "commits" and earliest != latest:
        row["topic"] = latest.label
        row["outcome"] = "unknown" if row["outcome"] == "ok" else row["outcome"]
    elif earliest != latest and latest.deleted is None:
        positions = records.get((topic, _who(row)), set()) if None not in _who(row) else set()
        if (row["offset"] is None and positions) or (row["partition"], row["offset"]) in positions:
            row["topic"] = latest.label
            return False
        if not absent and (row["offset"] is None or (latest.label, row["partition"]) not in steady):
            if table == "sends" and row["outcome"] == "ok":
                lives.undecided["lost_key" if topic in lives.compacted else "lost_write", topic] += 1
            if table == "deliveries" and (topic, _who(row)) in unclear:
                reader = row["group"] if row["mode"] == "subscribe" else row["consumer"]
                lives.undecided["dirty_read", reader] += 1
    return several and table != "commits"


def _among_ended(table: str, row: Row, lives: Lives, anywhere: Any) -> None:
    """A delivery is of the topic that acknowledged its record; without a position, nobody knows the topic."""
    topic = next(name for name, found in lives.of.items() if row["topic"] in [life.label for life in found])
    if table == "deliveries" and (topic, _who(row)) in anywhere:
        row["topic"] = f"{topic} (deleted, life unknown)"
    else:
        row["topic"] = lives.placed.get((topic, _who(row), row["partition"], row["offset"]), row["topic"])


def _assignments(rows: dict[str, list[Row]], lives: Lives) -> list[Row]:
    """An assignment that outlives its topic goes on in the next one, from a position that is not on record."""
    found, here = [], {(row["topic"], row["partition"]) for row in rows["log_range"]}
    for row in rows["assignments"]:
        if row["topic"] not in lives.of:
            found.append(row)
        elif row["event"] in ("assigned", "seek"):
            found += _goes_on(row, _end(row, rows), lives.of[row["topic"]], here)
        elif row["event"] in ("checkpoint", "position"):
            found.append(row | {"topic": _bounds(lives.of[row["topic"]], row["at_us"], row["at_us"])[0].label})
    return found


def _end(row: Row, rows: dict[str, list[Row]]) -> tuple[int, Row | None]:
    """When an assignment ended, by its own row if it has one."""

    def same(other: Row, *names: str) -> bool:
        return all(other[name] == row[name] for name in names)

    where = "consumer", "incarnation", "topic", "partition"
    mine = [r for r in rows["assignments"] if same(r, *where)]
    closing = [r for r in mine if r["event"] in ("revoked", "lost") and r["assignment"] == row["assignment"]]
    close = min(closing, key=lambda r: r["at_us"]) if closing else None
    ends = [r["at_us"] for r in mine if r["event"] in ("assigned", "seek") and r["assignment"] > row["assignment"]]
    lived = [r for r in rows["lifecycle"] if (r["client"], r["incarnation"]) == (row["consumer"], row["incarnation"])]
    for event in ("crashed", "stopped"):
        if over := [r["at_us"] for r in lived if r["event"] == event]:
            ends.append(min(over))
            break
    return min([*ends, close["at_us"] if close else FOREVER]), close


def _goes_on(row: Row, end: tuple[int, Row | None], lives: list[Life], here: set[tuple[str, int]]) -> list[Row]:
    end_us, close = end
    at = lives.index(_bounds(lives, row["at_us"], row["at_us"])[0])
    found, current = [row | {"topic": lives[at].label}], lives[at]

    def closed() -> Row:
        no_position = {"event": "deleted", "position": None, "source": None}
        return row | no_position | {"topic": current.label, "at_us": max(row["at_us"], current.deleted or 0)}

    for life in lives[at + 1 :]:
        exists = life.deleted is not None or (row["topic"], row["partition"]) in here
        if end_us <= life.since or not exists:
            break
        found.append(closed())
        goes_on = {"topic": life.label, "event": "assigned", "source": "recreated", "position": None}
        found.append(row | goes_on | {"at_us": max(row["at_us"], life.since)})
        current = life
    if close is not None:
        found.append(close | {"topic": current.label})
    elif current.deleted is not None:
        found.append(closed())
    return found
