"""Pieces of blocks: rows of one part that belong to one block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checks.audit.arrays import Columns, Ints
from checks.audit.engine.blocks import BLOCK_BITS, KINDS, block_name, pack
from checks.audit.engine.group import Rows, runs, sections
from checks.audit.engine.parts import Part
from checks.audit.facts.run_facts import RunFacts

Piece = tuple[str, str, bytes]
"""Name of the block, kind of rows, packed rows."""


def piece(block: str, kind: str, columns: Columns, rows: Rows) -> Piece:
    """Return some rows as a piece of a block."""
    return block, kind, pack({name: rows.ints(columns[name]) for name in KINDS[kind]})


def by_offset(facts: RunFacts, columns: Columns, kind: str, by: str = "offset") -> Iterator[Piece]:
    """Yield rows by block of offsets. columns: those of the kind, topic and partition. by: the column of offsets."""
    for (topic, partition, block), rows in sections(columns["topic"], columns["partition"], columns[by] >> BLOCK_BITS):
        yield piece(block_name("read", facts.topics[topic], partition, block), kind, columns, rows)


def topic_numbers(part: Part, facts: RunFacts) -> Ints:
    """Return the index of each row's topic."""
    codes, names = part.codes("topic")
    return np.array([facts.topic_ids[name] for name in names], np.int64)[codes]


def sender_numbers(codes: Ints, producers: list[str], incarnation: Ints, facts: RunFacts) -> Ints:
    """Return the index of each row's producer and incarnation."""
    starts = runs(codes, incarnation)
    names = [*producers, None]  # the code of a null is -1
    pairs = zip(codes[starts].tolist(), incarnation[starts].tolist(), strict=True)
    numbers = np.array([facts.sender_ids[names[c], n] for c, n in pairs], np.int64)
    return np.repeat(numbers, np.diff(starts, append=len(codes)))
