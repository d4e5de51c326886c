"""Gaps that an epoch left out: by polls, without records that were lost with workers, inside of the log."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from checks.audit.arrays import NONE
from checks.audit.engine.blocks import BLOCK_BITS
from checks.audit.engine.cut import _gaps, _split_by_block

BLOCK = 1 << BLOCK_BITS


def gaps(ordinals: list[int], offsets: list[int], head: tuple[int, int], polls: list[int] | None = None) -> list[Any]:
    """Return begin, end and whether it was polled of each gap between deliveries, which are given as they were done."""
    at_us = np.arange(len(offsets)) * 10
    of_life = None if polls is None else partial(np.array, polls)
    found = _gaps(np.array(ordinals), np.array(offsets), at_us, head, of_life)
    columns = (found[name].tolist() for name in ("begin", "next_offset", "polled"))
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("ordinals", "offsets", "head", "expected"),
    [
        ([0, 1, 2], [5, 6, 7], (5, 5), []),
        ([0, 1, 2], [5, 6, 8], (5, 5), [(7, 8, 0)]),
        ([0, 1, 2], [5, 6, 7], (3, 3), [(3, 5, 0)]),
        ([0, 1, 2], [5, 6, 7], (NONE, NONE), []),  # nobody knows where it began
        ([0, 2, 1], [5, 7, 6], (5, 5), []),  # workers end in another order than they were given records
        ([2, 1, 0], [7, 6, 5], (5, 5), []),
        ([0, 1, 2], [5, 3, 6], (5, 5), []),  # it went back, and then on from where it had been
        ([0, 1], [5, 6], (3, 5), [(3, 5, 0)]),
        ([0, 1], [5, 9], (5, 9), []),  # a part before this one has the rest
    ],
)
def test_a_gap_is_what_lies_between_polls(ordinals, offsets, head, expected):
    assert gaps(ordinals, offsets, head) == expected


@pytest.mark.parametrize(
    ("ordinals", "offsets", "head", "others", "polled"),
    [
        ([0, 3], [5, 8], (5, 5), [], 1),  # ordinals 1 and 2 have no row: their workers were lost
        ([0, 2], [5, 8], (5, 5), [], 0),  # one ordinal is too few for two offsets
        ([0, 3], [5, 8], (5, 5), [1], 0),  # ordinal 1 is of another partition
        ([2, 3], [5, 6], (3, 3), [], 1),  # before the first delivery
        ([1, 2], [5, 6], (3, 3), [], 0),
        ([3, 4], [5, 6], (3, 3), [0, 1], 0),
        ([0, 2, 3], [5, 6, 8], (5, 5), [], 0),  # ordinal 1 is before the gap
        ([0, 1, 4], [5, 4, 8], (5, 5), [], 0),  # it went back
        ([0, 1, 4], [5, 5, 8], (5, 5), [], 0),
    ],
)
def test_a_gap_was_polled_if_as_many_ordinals_have_no_row(ordinals, offsets, head, others, polled):
    assert [found[2] for found in gaps(ordinals, offsets, head, [*others, *ordinals])] == [polled]


@pytest.mark.parametrize(
    ("begin", "until", "log", "expected"),
    [
        (10, 20, (0, 30), [(10, 20)]),
        (10, 20, (12, 15), [(12, 15)]),  # what the log does not have is no gap
        (10, 20, (20, 30), []),
        (10, 20, (0, 10), []),
        (
            BLOCK - 3,
            2 * BLOCK + 5,
            (0, 3 * BLOCK),
            [(BLOCK - 3, BLOCK), (BLOCK, 2 * BLOCK), (2 * BLOCK, 2 * BLOCK + 5)],
        ),
        (BLOCK - 3, BLOCK, (0, 3 * BLOCK), [(BLOCK - 3, BLOCK)]),
    ],
)
def test_a_gap_is_judged_inside_of_the_log_and_in_each_of_its_blocks(begin, until, log, expected):
    facts: Any = SimpleNamespace(topics=["orders"], log_ranges={("orders", 0): log}, log_ends={("orders", 0): log[1]})
    one = {"begin": [begin], "next_offset": [until], "processed_us": [0], "polled": [0]}
    found = _split_by_block({name: np.array(values) for name, values in one.items()}, 0, 0, 0, facts)
    assert list(zip(found["begin"].tolist(), found["end"].tolist(), strict=True)) == expected
    assert set(found["expected"].tolist()) <= {begin} and set(found["next_offset"].tolist()) <= {until}
