"""Counts of events of which the order is unknown, because clocks of different machines gave their times."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from checks.audit.engine.commits import CommitHistory
from checks.audit.engine.counters import UNSURE_ORDER
from checks.audit.engine.tally import Tally
from checks.audit.facts.event_order import (
    Event,
    Sightings,
    by_place,
    events_of,
    unsure_epochs,
    unsure_pairs,
    unsure_sightings,
)
from checks.audit.facts.run_facts import RunFacts
from checks.audit.facts.starts import CommittedOffsets


def add_unsure_commits(topic: str, partition: int, history: CommitHistory, facts: RunFacts, tally: Tally) -> None:
    """Count the commits on a partition that are too close to an event on another machine.

    A commit that the log of offset commits decided has a time of a broker, which nobody compared.
    """
    clocks = facts.clocks
    if not clocks.clocks:
        return
    places = {place: epochs for place, epochs in by_place(facts.epochs).items() if place[1:] == (topic, partition)}
    machines = [clocks.machine_of(committer.consumer) for committer in history.committers]
    for group in sorted({committer.group for committer in history.committers}):
        own = history.where(history.made_by("group", group))
        fetches = (f for f in facts.fetches.get((topic, partition), ()) if f.group == group)
        moves = (m for m in facts.moves if m.group == group and m.fault)
        events: list[Event] = list(events_of(places.get((group, topic, partition), ()), fetches, moves, clocks))
        of_row = [machines[committer] for committer in own["committer"].tolist()]
        for column in ("from_us", "to_us"):
            events += zip(own[column].tolist(), of_row, strict=True)
        unsure = unsure_pairs(events, clocks.slack_us) + int((own["by_log"] != 0).sum())
        tally.add(UNSURE_ORDER, f"{topic}/{partition}", value=unsure)


def add_unsure_epochs(
    facts: RunFacts,
    begun: Callable[[Sightings], Mapping[int, CommittedOffsets]],
    seen: Sightings,
    more: int,
    tally: Tally,
) -> None:
    """Count the epochs that are too close to an event on another machine.

    begun: see `unsure_sightings`. more: the number of topics that were deleted, and of committed
    offsets that may have vanished, which times of several machines decide.
    """
    if not facts.clocks.clocks:
        return
    found = unsure_epochs(facts.epochs, facts.fetches, facts.moves, facts.clocks)
    found += unsure_sightings(begun, seen, facts.epochs, facts.clocks.slack_us)
    found["__consumer_offsets"] += more
    for place, number in found.items():
        tally.add(UNSURE_ORDER, place, value=number)
