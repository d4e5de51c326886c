"""ISR recovery and election time after each fault, from what the observer saw.

The observer samples the metadata every 150 ms. Times are as exact as that, and a change that was over between two
samples is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checks.audit.facts.epochs import Row
from checks.audit.facts.observed import OFFSETS_TOPIC, Observed, Span, phase_times


def recoveries(observed: Observed, faults: list[Row]) -> Iterator[dict[str, Any]]:
    """Yield metric, scope (topic), fault, value_us and recovered for each fault and partition that it affected.

    isr_recovery: partitions with an ISR that shrank before the next fault; from the heal of the fault (without a heal:
    its injection) until the ISR was as large as before, 0 if it was by then. election_time: partitions that got another
    leader, or one after having none, in a higher epoch before the heal and the next injection; from the injection.
    """
    injections, heals = phase_times(faults, "injected"), phase_times(faults, "healed")
    for entity in observed.entities("isr"):
        topic = entity.rpartition("/")[0]
        if topic == OFFSETS_TOPIC:
            continue
        sizes = list(observed.spans((entity, "isr")))
        led = list(observed.spans((entity, "leader"), (entity, "leader_epoch")))
        for fault, injected in injections.items():
            following = min((at_us for at_us in injections.values() if at_us > injected), default=observed.end_us)
            healed = heals.get(fault)
            row = {"scope": topic, "fault": fault}
            if shrunk := _shrunk(sizes, injected, following):
                shrunk_us, size = shrunk
                full = next((s.begin_us for s in sizes if s.begin_us > shrunk_us and _size(s) >= size), None)
                since = injected if healed is None else healed
                value = max((observed.end_us if full is None else full) - since, 0)
                yield row | {"metric": "isr_recovery", "value_us": value, "recovered": full is not None}
            elected = _elected(led, injected, following if healed is None else min(following, healed))
            if elected is not None:
                yield row | {"metric": "election_time", "value_us": elected - injected, "recovered": True}


def _size(s: Span) -> int:
    isr = s.values["isr"]
    return len(isr) if isinstance(isr, list) else 0


def _shrunk(sizes: list[Span], injected: int, following: int) -> tuple[int, int] | None:
    """Return when the ISR first shrank below its size at the injection, and that size; None if it did not."""
    before = [_size(s) for s in sizes if s.begin_us <= injected]
    if not before:
        return None
    smaller = [s.begin_us for s in sizes if injected < s.begin_us <= following and _size(s) < before[-1]]
    return (smaller[0], before[-1]) if smaller else None


def _elected(led: list[Span], injected: int, until: int) -> int | None:
    """Return when another leader, or one after there was none, was first seen in a higher epoch; None if never."""
    before = [s.values for s in led if s.begin_us <= injected]
    if not before or not isinstance(before[-1]["leader_epoch"], int):
        return None
    former, epoch, gone = before[-1]["leader"], before[-1]["leader_epoch"], False
    for s in led:
        if not injected < s.begin_us <= until:
            continue
        leader, now = s.values["leader"], s.values["leader_epoch"]
        gone = gone or leader == -1
        if isinstance(now, int) and now > epoch and leader != -1 and (gone or leader != former):
            return s.begin_us
    return None
