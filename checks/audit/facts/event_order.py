"""The order of events on machines with different clocks.

What rules derive from the order of begins, ends and commits on a partition is certain if any two of them on different
machines are further apart than both clocks may be wrong: then each comparison has the same result by the true times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from checks.audit.arrays import NEVER_US
from checks.audit.facts.epochs import Epoch, Epochs, OffsetFetch
from checks.audit.facts.machine_clocks import DRIVE, MachineClocks
from checks.audit.facts.moves import Move
from checks.audit.facts.starts import CommittedOffsets, Sighting

Event = tuple[int, str]
"""Time and machine."""
Sightings = Mapping[tuple[str, str, int], list[Sighting]]


def unsure_pairs(events: Iterable[Event], slack_us: int) -> int:
    """Return how many times an event is so close to one of another machine that their order is unknown."""
    found = list(events)
    if not found:
        return 0
    numbers = {name: i for i, name in enumerate(sorted({machine for _, machine in found}))}
    times = np.array([at_us for at_us, _ in found], np.int64)
    machines = np.array([numbers[machine] for _, machine in found], np.int64)
    order = np.argsort(times, kind="stable")
    times, machines = times[order], machines[order]
    return int(((np.diff(times) <= slack_us) & (np.diff(machines) != 0)).sum())


def events_of(
    epochs: Iterable[Epoch], fetches: Iterable[OffsetFetch], moves: Iterable[Move], clocks: MachineClocks
) -> Iterator[Event]:
    """Yield begins, fetches of offsets and ends of epochs, and moves by faults, which the drive recorded."""
    for e in epochs:
        machine = clocks.machine_of(e.consumer)
        yield e.begin_us, machine
        if e.end_reason != "open":
            yield e.end_us, DRIVE if e.end_reason == "crashed" else machine
    for fetch in fetches:
        if fetch.consumer:
            yield fetch.fetched_us, clocks.machine_of(fetch.consumer)
    for move in moves:
        yield from ((at_us, DRIVE) for at_us in (move.from_us, move.to_us) if at_us != NEVER_US)


def by_place(epochs: Epochs) -> dict[tuple[str, str, int], list[Epoch]]:
    """Return the epochs by (group, topic, partition); a reader without a group is one by itself."""
    found: dict[tuple[str, str, int], list[Epoch]] = {}
    for e in epochs.all:
        found.setdefault((e.group or e.reader, e.topic, e.partition), []).append(e)
    return found


def unsure_epochs(
    epochs: Epochs, fetches: Mapping[tuple[str, int], list[OffsetFetch]], moves: Iterable[Move], clocks: MachineClocks
) -> Counter[str]:
    """Return the number of unsure pairs by partition.

    A group that began again or lost its offsets counts as unsure: several more times decide then.
    """
    found, moves = Counter[str](), list(moves)
    for (group, topic, partition), here in by_place(epochs).items():
        asked = (f for f in fetches.get((topic, partition), ()) if f.group == group)
        moved = [m for m in moves if m.group == group]
        events = events_of(here, asked, (m for m in moved if m.fault), clocks)
        found[f"{topic}/{partition}"] += unsure_pairs(events, clocks.slack_us) + sum(not m.fault for m in moved)
    return found


def unsure_sightings(
    begun: Callable[[Sightings], Mapping[int, CommittedOffsets]], seen: Sightings, epochs: Epochs, slack_us: int
) -> Counter[str]:
    """Return the number of epochs, by partition, for which it matters when exactly an offset was observed.

    begun: returns what may have been committed when each epoch began.
    """
    exact, found = begun(seen), set[int]()
    for shift in (-slack_us, -slack_us // 2, slack_us // 2, slack_us):
        moved = begun({place: [(at_us + shift, offset) for at_us, offset in those] for place, those in seen.items()})
        found |= {i for i in {**exact, **moved} if exact.get(i) != moved.get(i)}
    return Counter(f"{epochs.all[i].topic}/{epochs.all[i].partition}" for i in found if i >= 0)
