"""Strips of the lives of groups. A group ends when its offsets expire, are lost or are deleted, and may begin again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from checks.audit.facts.observed import UNKNOWN_GROUP
from checks.evidence import Row
from checks.report.lanes import Axis, Lane, Segment, look
from checks.report.tables import grouped


def group_lanes(rows: Sequence[Row], ownership: Sequence[Row], axis: Axis) -> list[Lane]:
    """Return a strip for each group that ended. Colour: one life of the group; text: its number.

    rows: table `cluster`. ownership: table `ownership`. A life ends when the coordinator does not know the group any
    more, or when its generations begin again.
    """
    states = grouped((r for r in rows if r["key"] == "state"), lambda r: r["entity"].removeprefix("group:"))
    owned = grouped((r for r in ownership if r["generation"] is not None), lambda r: r["group"])
    lanes = []
    for group, changes in sorted(states.items()):
        edges = _edges(changes, owned.get(group, []))
        lives = [begins for _, begins in edges].count(True)
        if len(edges) < 2:
            continue
        number, segments = 0, []
        for (at, begins), (until, _) in pairwise([*edges, (axis.end_us, False)]):
            number += begins
            begin, end = axis.at(at), axis.at(until)
            if begins and end > begin:
                about = f"life {number} of the group{_generations(owned.get(group, []), at, until)}"
                segments.append(Segment(begin, end, str(number), about, look(number - 1)))
            elif end > begin:
                segments.append(Segment(begin, end, "none", "the coordinator does not know the group", "none"))
        lanes.append(Lane(f"life:{group}", group, note=f"{lives} lives" if lives > 1 else "1 life", segments=segments))
    return lanes


def _edges(states: Sequence[Row], owned: Sequence[Row]) -> list[tuple[int, bool]]:
    """Return the times at which lives begin (True) and end (False)."""
    edges: list[tuple[int, bool]] = []
    for row in sorted(states, key=lambda r: r["at_us"]):
        alive = row["value"] != UNKNOWN_GROUP
        if alive != (edges[-1][1] if edges else False):
            edges.append((row["at_us"], alive))
    for at_us in _restarts(owned):
        ended_us = max((at for at, alive in edges if not alive and at <= at_us), default=None)
        if ended_us is None or any(ended_us < r["begin_us"] < at_us for r in owned):
            edges.append((at_us, True))
    return sorted(edges)


def _restarts(owned: Sequence[Row]) -> list[int]:
    """Return when the generations of a group began again.

    An assignment is in a lower generation than one before, or a member that had given up its partitions gets some in
    the same generation.
    """
    found: list[int] = []
    latest: dict[tuple[str, int], Row] = {}
    highest = 0
    for row in sorted(owned, key=lambda r: r["begin_us"]):
        member, generation = (row["consumer"], row["incarnation"]), row["generation"]
        before = latest.get(member)
        given_up = before is not None and before["end_reason"] in ("lost", "revoked")
        if generation < highest or (before and given_up and generation <= before["generation"]):
            found.append(row["begin_us"])
            latest, highest = {}, 0
        latest[member], highest = row, max(highest, generation)
    return found


def _generations(owned: Sequence[Row], begin_us: int, end_us: int) -> str:
    known = [r["generation"] for r in owned if begin_us <= r["begin_us"] < end_us]
    return f" · generations {min(known)} to {max(known)}" if known else ""
