"""Strips of the lives of groups. A group ends when its offsets expire, are lost or are deleted, and may begin again."""

from __future__ import annotations

from collections.abc import Sequence

from checks.evidence import Row
from checks.report.lanes import Axis, Lane, Segment, look
from checks.report.tables import grouped


def group_lanes(rows: Sequence[Row], axis: Axis) -> list[Lane]:
    """Return a strip for each group that ended. Colour: one life of the group; text: its number.

    rows: table `group_lives`; none in results of an audit that did not write it.
    """
    lanes = []
    for group, lives in sorted(grouped(rows, lambda r: r["group"]).items()):
        if len(lives) == 1 and lives[0]["end_us"] is None:
            continue
        segments = []
        begins = [life["begin_us"] for life in lives[1:]]
        for life, next_us in zip(lives, [*begins, None], strict=True):
            begin, end = axis.at(life["begin_us"]), axis.at(_at(life["end_us"], axis))
            if end > begin:
                about = f"life {life['life']} of the group{_generations(life)}"
                segments.append(Segment(begin, end, str(life["life"]), about, look(life["life"] - 1)))
            until = axis.at(_at(next_us, axis))
            if until > end:
                segments.append(Segment(end, until, "none", "the coordinator does not know the group", "none"))
        note = f"{len(lives)} lives" if len(lives) > 1 else "1 life"
        lanes.append(Lane(f"life:{group}", group, note=note, segments=segments))
    return lanes


def _at(at_us: int | None, axis: Axis) -> int:
    return axis.end_us if at_us is None else at_us


def _generations(life: Row) -> str:
    first, last = life["first_generation"], life["last_generation"]
    return "" if first is None else f" · generations {first} to {last}"
