"""What happened when, in words: the picture for those who read it aloud, and for those who read closely."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from checks.report.lanes import Lane
from checks.report.tables import Tables
from checks.report.timeline import Picture
from checks.report.words import count, natural

MOST = 120
_TOLD = {"crashed", "slowed", "resumed", "error"}


@dataclass(frozen=True, order=True)
class Moment:
    """One thing that happened."""

    at_us: int
    who: str
    words: str


def storyline(tables: Tables, picture: Picture) -> tuple[list[Moment], int]:
    """The moments in order, and how many more there were."""
    moments = [*_faults(tables), *_leaders(picture), *_rebalances(tables), *_clients(tables)]
    moments.sort()
    return moments[:MOST], max(0, len(moments) - MOST)


def _faults(tables: Tables) -> Iterator[Moment]:
    for row in tables.faults:
        if row["phase"] not in ("injecting", "healing"):
            evidence = _object(row.get("evidence"))
            said = f": {evidence['words']}" if evidence.get("words") else ""
            yield Moment(row["at_us"], f"fault {row['fault']}", f"{row['phase']}{said}")


def _leaders(picture: Picture) -> Iterator[Moment]:
    """Changes of leaders and coordinators; partitions that lost one at the same moment are told together."""
    told: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for lane in picture.lanes():
        what, _, name = lane.key.partition(":")
        if what in ("leader", "coordinator"):
            for at, before, after in _changes(lane):
                told[picture.axis.begin_us + round(at * 1e6), what, f"{before} → {after}"].append(name)
    for (at_us, what, change), names in told.items():
        who = names[0] if len(names) == 1 else count(len(names), "partition" if what == "leader" else "group")
        some = f" ({', '.join(names[:8])}{', …' if len(names) > 8 else ''})" if len(names) > 1 else ""
        yield Moment(at_us, who, f"{what} {change}{some}")


def _changes(lane: Lane) -> Iterator[tuple[float, str, str]]:
    for before, after in pairwise(lane.segments):
        if before.text != after.text:
            yield after.begin, before.text, after.text


def _rebalances(tables: Tables) -> Iterator[Moment]:
    begun: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for row in tables.ownership:
        if row["group"] is not None and row["generation"] is not None:
            begun[row["group"], row["generation"]].append((row["begin_us"], row["consumer"]))
    for (group, generation), grants in begun.items():
        owners = sorted({consumer for _, consumer in grants}, key=natural)
        yield Moment(
            min(at for at, _ in grants),
            f"group {group}",
            f"generation {generation}: {count(len(grants), 'partition')} to {', '.join(owners[:6])}",
        )


def _clients(tables: Tables) -> Iterator[Moment]:
    for row in tables.lifecycle:
        again = row["event"] == "started" and (row["incarnation"] or 1) > 1
        if row["event"] in _TOLD or again:
            detail = _object(row["detail"])
            said = ", ".join(f"{k} {v}" for k, v in detail.items())
            words = f"started again (incarnation {row['incarnation']})" if again else row["event"]
            yield Moment(row["at_us"], row["client"], f"{words}: {said}" if said and not again else words)


def _object(text: str | None) -> dict[str, object]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
