"""Gaps: the offsets that an epoch left out between two deliveries, or between its position and its first delivery."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checks.audit.arrays import NONE, Columns, Ints
from checks.audit.engine.blocks import BLOCK_BITS
from checks.audit.facts.run_facts import RunFacts


def gaps_of(
    ordinal: Ints,
    offset: Ints,
    processed_us: Ints,
    head: tuple[int, int],
    polls: Callable[[], Ints] | None = None,
) -> Columns:
    """Return where an epoch continued above the offset that was due: its position, then the highest offset + 1.

    head: see `RunFacts.heads`. polls: for a consumer with workers, returns all ordinals of the incarnation in the part.
    Columns: begin, next_offset, processed_us, polled.
    """
    in_order_offset, in_order_us = offset, processed_us
    if (ordinal[1:] < ordinal[:-1]).any():
        order = np.argsort(ordinal, kind="stable")
        in_order_offset, in_order_us = offset[order], processed_us[order]
    due = np.empty_like(in_order_offset)
    first, reached = head
    due[0] = first if first != NONE else in_order_offset[0]
    np.maximum.accumulate(in_order_offset[:-1] + 1, out=due[1:])
    np.maximum(due[1:], reached, out=due[1:])
    gap = np.flatnonzero(in_order_offset > due)
    gaps = {"begin": due[gap], "next_offset": in_order_offset[gap], "processed_us": in_order_us[gap]}
    gaps["polled"] = np.zeros(len(gap), np.int64)
    if polls is not None and len(gap):
        gaps["polled"] = _polled(gaps, ordinal, offset, polls())
    return gaps


def _polled(gaps: Columns, ordinal: Ints, offset: Ints, polls: Ints) -> Ints:
    """Return 1 for gaps with records that were polled and lost with their workers, else 0.

    Ordinals count what an incarnation polled. If at least as many ordinals without a row as the gap has offsets are
    between the deliveries on both sides of the gap, they belong to the gap. A poll that leaves records out leaves no
    ordinals out.
    """
    order = np.argsort(ordinal, kind="stable")
    ordinal, offset = ordinal[order], offset[order]
    if not (offset[1:] > offset[:-1]).all():  # the reader went back: no gap is excused
        return np.zeros(len(gaps["begin"]), np.int64)
    recorded = np.sort(polls)
    after = np.searchsorted(offset, gaps["next_offset"])
    until = ordinal[after]
    since = np.where(after > 0, ordinal[np.maximum(after - 1, 0)], -1)
    rows = np.searchsorted(recorded, until, "left") - np.searchsorted(recorded, since, "right")
    absent = until - since - 1 - rows
    return (absent >= gaps["next_offset"] - gaps["begin"]).astype(np.int64)


def split_by_block(gaps: Columns, epoch: int, topic: int, partition: int, facts: RunFacts) -> Columns:
    """Return gaps limited to the log and split at the borders of blocks; columns: kind `gaps`, topic, partition."""
    key = facts.topics[topic], partition
    begin = np.maximum(gaps["begin"], facts.log_ranges.get(key, (None, None))[0] or 0)
    end = np.minimum(gaps["next_offset"], facts.log_ends.get(key, 0))
    kept = np.flatnonzero(begin < end)
    begin, end = begin[kept], end[kept]
    blocks = ((end - 1) >> BLOCK_BITS) - (begin >> BLOCK_BITS) + 1
    gap = np.repeat(np.arange(len(kept)), blocks)
    nth = np.arange(len(gap)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    first = (((begin >> BLOCK_BITS)[gap] + nth) << BLOCK_BITS).astype(np.int64)
    split = {n: gaps[n][kept][gap] for n in ("next_offset", "processed_us", "polled")}
    split |= {
        n: np.full(len(gap), v, np.int64) for n, v in (("epoch", epoch), ("topic", topic), ("partition", partition))
    }
    split["expected"] = gaps["begin"][kept][gap]
    split["begin"] = np.maximum(begin[gap], first)
    split["end"] = np.minimum(end[gap], first + (1 << BLOCK_BITS))
    return split
