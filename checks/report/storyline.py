"""Events of the run in order, as text: the timeline for screen readers and for close reading."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from checks.evidence import json_object
from checks.report.tables import Tables
from checks.report.text import count, natural
from checks.report.timeline import Picture

MOST = 120
_NOTABLE = {"crashed", "slowed", "resumed", "error"}


@dataclass(frozen=True, order=True)
class Moment:
    """One event. subject: the fault, partition, group or client."""

    at_us: int
    subject: str
    text: str


def storyline(tables: Tables, picture: Picture) -> tuple[list[Moment], int]:
    """Return the first `MOST` events in order, and the number of the others."""
    moments = [*_faults(tables), *_leaders(picture), *_rebalances(tables), *_clients(tables)]
    moments.sort()
    return moments[:MOST], max(0, len(moments) - MOST)


def _faults(tables: Tables) -> Iterator[Moment]:
    for row in tables.faults:
        if row["phase"] not in ("injecting", "healing"):
            evidence = json_object(row.get("evidence"))
            reason = f": {evidence['words']}" if evidence.get("words") else ""
            yield Moment(row["at_us"], f"fault {row['fault']}", f"{row['phase']}{reason}")


def _leaders(picture: Picture) -> Iterator[Moment]:
    """Yield the changes of leaders and coordinators; simultaneous equal changes are one event."""
    changes: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for lane in picture.lanes():
        what, _, name = lane.key.partition(":")
        if what in ("leader", "coordinator"):
            for before, after in pairwise(lane.segments):
                if before.text != after.text:
                    at_us = picture.axis.begin_us + round(after.begin * 1e6)
                    changes[at_us, what, f"{before.text} → {after.text}"].append(name)
    for (at_us, what, change), names in changes.items():
        subject = names[0] if len(names) == 1 else count(len(names), "partition" if what == "leader" else "group")
        members = f" ({', '.join(names[:8])}{', …' if len(names) > 8 else ''})" if len(names) > 1 else ""
        yield Moment(at_us, subject, f"{what} {change}{members}")


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
        if row["event"] in _NOTABLE or again:
            details = ", ".join(f"{k} {v}" for k, v in json_object(row["detail"]).items())
            event = f"{row['event']}: {details}" if details else row["event"]
            text = f"started again (incarnation {row['incarnation']})" if again else event
            yield Moment(row["at_us"], row["client"], text)
