"""How long partitions were without their whole ISR, or without a leader, after each fault: from what the observer saw.

The observer samples the metadata every 150 ms, so times are as exact as that; and a change that was over between two
samples was not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checks.audit.epochs import Row
from checks.audit.observed import OFFSETS_TOPIC, Observed, Stretch

Window = tuple[int, int, int | None]
"""When a fault was injected, when the next one was (or the drive ended), and when it was healed."""


def windows(faults: list[Row], end_us: int) -> dict[str, Window]:
    """Of each fault that was injected."""
    injected: dict[str, int] = {}
    healed: dict[str, int] = {}
    for row in sorted(faults, key=lambda r: r["at_us"]):
        if row["phase"] in ("injected", "healed"):
            (injected if row["phase"] == "injected" else healed).setdefault(row["fault"], row["at_us"])
    found = {}
    for fault, at_us in injected.items():
        following = min((t for t in injected.values() if t > at_us), default=end_us)
        found[fault] = at_us, following, healed.get(fault)
    return found


def recoveries(observed: Observed, faults: list[Row]) -> Iterator[dict[str, Any]]:
    """Rows metric, scope (topic), fault, value_us, recovered: of each fault and each partition that it affected.

    isr_recovery: of partitions whose ISR became smaller before the next fault; from the heal of the fault (its
    injection, if it was never healed) until the ISR was again as large as before, 0 if it was by then.
    election_time: of partitions that got another leader, or one again, in a higher epoch before the fault was healed
    and the next one injected; from the injection.
    """
    for entity in observed.entities("isr"):
        topic = entity.rpartition("/")[0]
        if topic == OFFSETS_TOPIC:
            continue
        sizes = list(observed.stretches((entity, "isr")))
        led = list(observed.stretches((entity, "leader"), (entity, "leader_epoch")))
        for fault, (injected, following, healed) in windows(faults, observed.end_us).items():
            row = {"scope": topic, "fault": fault}
            shrunk = _shrunk(sizes, injected, following)
            if shrunk is not None:
                full = next((s.begin_us for s in sizes if s.begin_us > shrunk[0] and _size(s) >= shrunk[1]), None)
                since = injected if healed is None else healed
                value = max((observed.end_us if full is None else full) - since, 0)
                yield row | {"metric": "isr_recovery", "value_us": value, "recovered": full is not None}
            elected = _elected(led, injected, following if healed is None else min(following, healed))
            if elected is not None:
                yield row | {"metric": "election_time", "value_us": elected - injected, "recovered": True}


def _size(s: Stretch) -> int:
    isr = s.values["isr"]
    return len(isr) if isinstance(isr, list) else 0


def _shrunk(sizes: list[Stretch], injected: int, following: int) -> tuple[int, int] | None:
    """When the ISR became smaller than it was at the injection, and what it had been; None if it did not."""
    before = [_size(s) for s in sizes if s.begin_us <= injected]
    if not before:
        return None
    smaller = [s.begin_us for s in sizes if injected < s.begin_us <= following and _size(s) < before[-1]]
    return (smaller[0], before[-1]) if smaller else None


def _elected(led: list[Stretch], injected: int, until: int) -> int | None:
    """When another leader, or one after there had been none, was first seen in a higher epoch; None if none was."""
    before = [s.values for s in led if s.begin_us <= injected]
    if not before or not isinstance(before[-1]["leader_epoch"], int):
        return None
    had, epoch, gone = before[-1]["leader"], before[-1]["leader_epoch"], False
    for s in led:
        if not injected < s.begin_us <= until:
            continue
        leader, now = s.values["leader"], s.values["leader_epoch"]
        gone = gone or leader == -1
        if isinstance(now, int) and now > epoch and leader != -1 and (gone or leader != had):
            return s.begin_us
    return None
