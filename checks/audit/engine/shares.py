"""The tables of share groups in both passes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checks.audit.arrays import NONE, Ints
from checks.audit.engine import counters
from checks.audit.engine.blocks import (
    ACKNOWLEDGEMENTS,
    OUTCOMES,
    REFUSALS,
    Piece,
    by_offset,
    sender_numbers,
    topic_numbers,
)
from checks.audit.engine.counters import add_senders, count_backwards
from checks.audit.engine.group import runs, sections
from checks.audit.engine.parts import Part
from checks.audit.engine.tally import Tally
from checks.audit.facts.run_facts import RunFacts

_PLACE = ("consumer", "incarnation", "group", "topic", "partition", "offset")
COLUMNS = {
    "acquisitions": (*_PLACE, "producer", "producer_incarnation", "acquired_us"),
    "acknowledgements": (*_PLACE, "type", "outcome", "error", "requested_us", "completed_us"),
}
"""The columns that the survey reads."""
CUT_COLUMNS = {
    "acquisitions": (*COLUMNS["acquisitions"], "ordinal", "delivery_count", "seq", "sent_us"),
    "acknowledgements": (*COLUMNS["acknowledgements"], "ordinal"),
}
"""The columns that are cut into blocks."""


def survey_acquisitions(part: Part, tally: Tally) -> None:
    """Add a part of `acquisitions`: members, producers, numbers of rows and lowest offsets."""
    codes, producers = part.codes("producer")
    add_senders(codes, producers, part.ints("producer_incarnation"), tally)
    tally.add(counters.DRIVE_END_US, value=int(part.ints("acquired_us").max()))
    (groups, group_names), (topics, names) = part.codes("group"), part.codes("topic")
    offset = part.ints("offset")
    for (group, topic, partition), rows in sections(groups, topics, part.ints("partition")):
        tally.add(counters.ACQUIRED, group_names[group], value=len(rows))
        lowest = int(rows.ints(offset).min())
        tally.add(counters.LOWEST_ACQUIRED, group_names[group], names[topic], partition, value=lowest)
    _add_members(part, part.ints("acquired_us"), tally)


def survey_acknowledgements(part: Part, tally: Tally) -> None:
    """Add a part of `acknowledgements`: members, and numbers of rows by type and outcome."""
    (groups, group_names), (consumers, clients) = part.codes("group"), part.codes("consumer")
    requested, completed = part.ints("requested_us"), part.ints("completed_us")
    tally.add(counters.DRIVE_END_US, value=int(completed.max()))
    count_backwards(tally, "acknowledgements", consumers, clients, completed < requested)
    types, type_names = part.codes("type")
    for (group, kind, outcome), rows in sections(groups, types, _outcomes(part)):
        tally.add(counters.ACKNOWLEDGED, group_names[group], type_names[kind], outcome, value=len(rows))
    _add_members(part, requested, tally)


def _add_members(part: Part, at_us: Ints, tally: Tally) -> None:
    (consumers, clients), (groups, names) = part.codes("consumer"), part.codes("group")
    for (c, life, g), rows in sections(consumers, part.ints("incarnation"), groups):
        tally.add(counters.LAST_ACTIVE, clients[c], life, names[g], value=int(rows.ints(at_us).max()))
    tally.add(counters.TOPICS, value=set(part.codes("topic")[1]))


def _outcomes(part: Part) -> Ints:
    outcomes, names = part.codes("outcome")
    found = np.array([OUTCOMES[name] for name in names], np.int64)[outcomes]
    for error, outcome in REFUSALS.items():
        found = np.where(part.equals("error", error), outcome, found)
    return found


def cut_acquisitions(part: Part, facts: RunFacts) -> Iterator[Piece]:
    """Yield the pieces of a part of `acquisitions`."""
    columns = {n: part.ints(n) for n in ("ordinal", "partition", "offset", "seq", "sent_us", "acquired_us")}
    columns |= {"count": part.ints("delivery_count"), "member": _members(part, facts)}
    columns["topic"] = topic_numbers(part, facts)
    columns["sender"] = sender_numbers(*part.codes("producer"), part.ints("producer_incarnation"), facts)
    yield from by_offset(facts, columns, "acquisitions")


def cut_acknowledgements(part: Part, facts: RunFacts) -> Iterator[Piece]:
    """Yield the pieces of a part of `acknowledgements`."""
    columns = {n: part.ints(n) for n in ("ordinal", "partition", "offset", "requested_us", "completed_us")}
    columns |= {"outcome": _outcomes(part), "member": _members(part, facts), "topic": topic_numbers(part, facts)}
    types, names = part.codes("type")
    columns["type"] = np.array([ACKNOWLEDGEMENTS.get(name, NONE) for name in names], np.int64)[types]
    yield from by_offset(facts, columns, "acknowledgements")


def _members(part: Part, facts: RunFacts) -> Ints:
    """Return the index of each row's member."""
    (consumers, clients), (groups, names) = part.codes("consumer"), part.codes("group")
    lives = part.ints("incarnation")
    starts = runs(consumers, lives, groups)
    found = [
        facts.shares.numbers[clients[c], life, names[g]]
        for c, life, g in zip(*(column[starts].tolist() for column in (consumers, lives, groups)), strict=True)
    ]
    return np.repeat(np.array(found, np.int64), np.diff(starts, append=part.rows))
