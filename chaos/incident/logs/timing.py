"""Faults as they are planned, and when they come: times become triggers.

The first fault waits for progress where the logs tell how many records there were, each later one for a phase of one
before it. Pauses of more than `LONGEST_S` in which nothing happened are shortened, in the order of everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chaos.incident.logs import events as e
from chaos.incident.logs.events import Source
from chaos.incident.logs.history import History
from chaos.incident.logs.inventory import Inventory, internal
from chaos.incident.logs.outages import How
from chaos.units import format_duration

LONGEST_S = 20.0
MOST_RECORDS = 20_000
"""A replay need not write more than that before the first fault."""
USUAL_RECORDS = 4000


@dataclass
class Planned:
    """One fault. `says` are the comments above it, `todo` what is to be decided, `signs` the lines it rests on."""

    name: str
    kind: str
    target: dict[str, Any]
    when: dict[str, Any]
    at_us: int
    back_us: int | None = None
    heal: dict[str, Any] | None = None
    more: dict[str, Any] = field(default_factory=dict)
    says: list[str] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)
    signs: tuple[Source, ...] = ()
    broker: int | None = None
    """Whose outage it is, by its id in the incident."""
    how: How | None = None


def records_before(history: History, at_us: int) -> tuple[int | None, list[Source]]:
    """How many records all partitions had that are known from their first offset on, at about that time."""
    ends: dict[str, tuple[int, Source]] = {}
    from_start: set[str] = set()
    for x in history.events:
        if isinstance(x, e.LeaderStarted) and not internal(x.partition):
            if x.offset == 0 and x.at_us <= at_us:
                from_start.add(x.partition)
            elif x.offset > 0 and x.partition not in ends and x.at_us >= at_us:
                ends[x.partition] = (x.offset, x.source)
        elif isinstance(x, e.IsrShrunk) and x.end_offset > 0 and not internal(x.partition) and x.at_us >= at_us:
            ends.setdefault(x.partition, (x.end_offset, x.source))
    known = {p: end for p, end in ends.items() if p in from_start}
    if not known:
        return None, []
    # of partitions whose leader stayed nothing is said: they are taken to have as many
    total = sum(offset for offset, _ in known.values()) * max(len(from_start), 1) // len(known)
    return total, [source for _, source in list(known.values())[:3]]


def place(inventory: Inventory, faults: list[Planned], records: int | None) -> None:
    """Triggers and ends, on an axis without long pauses."""
    instants = sorted({f.at_us for f in faults} | {f.back_us for f in faults if f.back_us is not None})
    axis, passed = {}, 0.0
    for i, at in enumerate(instants):
        if i:
            gap = (at - instants[i - 1]) / 1e6
            passed += min(gap, LONGEST_S)
        axis[at] = passed
    for i, fault in enumerate(faults):
        if i == 0:
            fault.when = _first(inventory, fault, records)
        else:
            before = faults[i - 1]
            ended = before.back_us is not None and before.back_us <= fault.at_us
            since = before.back_us if ended and before.back_us is not None else before.at_us
            delay = axis[fault.at_us] - axis[since]
            fault.when = {"after": f"{before.name}.healed" if ended else before.name}
            if delay >= 0.1:
                fault.when["after"] += f" + {_duration(delay)}"
            real = (fault.at_us - since) / 1e6
            if real > delay + LONGEST_S:
                fault.says.append(f"in the incident {real:,.0f} s after that; shortened")
        if fault.back_us is not None and fault.kind != "consumer.join":
            away = _duration(max(axis[fault.back_us] - axis[fault.at_us], 0.1))
            # of members it is told when they were put out, not when their trouble began
            proven = fault.kind in ("consumer.slow", "consumer.crash")
            fault.heal = {"when": {"after": f"{fault.name}.proven + {away}"}} if proven else {"after": away}
            real = (fault.back_us - fault.at_us) / 1e6
            if real > axis[fault.back_us] - axis[fault.at_us] + LONGEST_S:
                fault.says.append(f"back after {real:,.0f} s in the incident; shortened")


def _first(inventory: Inventory, fault: Planned, records: int | None) -> dict[str, Any]:
    if records is not None:
        if records > MOST_RECORDS:
            fault.says.append(f"in the incident there were {records:,} records before; fewer will do")
        return {"acked": min(max(records, 100), MOST_RECORDS)}
    begins = [t.created_us for t in inventory.topics.values() if t.created_us]
    begins += [g.formed_us for g in inventory.groups.values() if g.formed_us]
    since = (fault.at_us - max((b for b in begins if b <= fault.at_us), default=0)) / 1e6
    if records is None and 2 <= since <= 60:
        fault.says.append("how many records there were is not told, so it waits for as long as in the incident")
        return {"at": _duration(since)}
    fault.todo.append("how many records there were before that is not told")
    return {"acked": USUAL_RECORDS}


def _duration(seconds: float) -> str:
    return format_duration(round(seconds, 1))
