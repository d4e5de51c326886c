"""Facts of a run derived from the first pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from checks.audit.arrays import NEVER_US, NONE, Ints
from checks.audit.engine import counters
from checks.audit.engine.segments import Segment
from checks.audit.engine.tally import Tally
from checks.audit.facts.epochs import KEY, Epochs, Key, Row
from checks.audit.facts.run_facts import TXN_ENDS, UNDECIDED, Sender, Transactions


def rows_of_parts(survey: Tally) -> dict[tuple[str, str], int]:
    """Return by table and path the rows of each part."""
    return {(table, path): rows for (table, path), rows in survey.each(counters.PART_ROWS)}


def later_offsets(survey: Tally) -> dict[tuple[str, int, str, int], tuple[Ints, Ints]]:
    """Return `RunFacts.later_offsets`: from the lowest offset of each block to the lowest of it and all later ones."""
    return {
        key: (blocks, np.minimum.accumulate(lowest[::-1])[::-1])
        for key, (blocks, lowest) in survey.each(counters.LOWEST_OFFSETS)
    }


def transactions(survey: Tally, rows: list[Row]) -> dict[Sender, Transactions]:
    """Return the transactions with sends. rows: table `transactions`; one without a row was cut off by a crash."""
    ends: dict[Sender, dict[int, int]] = {}
    times: dict[Sender, dict[int, list[tuple[int | None, int]]]] = {}
    for row in rows:
        seen = times.setdefault((row["producer"], row["incarnation"]), {}).setdefault(row["txn"], [])
        seen.append((row["requested_us"], row["ended_us"] if row["ended_us"] is not None else NEVER_US))
        by_number = ends.setdefault((row["producer"], row["incarnation"]), {})
        end = TXN_ENDS.get(row["outcome"], UNDECIDED)
        by_number[row["txn"]] = end if by_number.get(row["txn"], end) == end else UNDECIDED
    found = {}
    for (producer, incarnation), (numbers, last_us) in survey.each(counters.LAST_INVOKED):
        by_number = ends.get((producer, incarnation), {})
        codes = np.array([by_number.get(n, UNDECIDED) for n in numbers.tolist()], np.int64)
        requested = [_requested(times.get((producer, incarnation), {}).get(n, ())) for n in numbers.tolist()]
        requested_us, unsure_us = np.array(requested, np.int64).reshape(-1, 2).T
        found[producer, incarnation] = Transactions(numbers, codes, last_us, requested_us, unsure_us)
    return found


def _requested(seen: Sequence[tuple[int | None, int]]) -> tuple[int, int]:
    """Return `requested_us` and `unsure_us` of a transaction (see `Transactions`) from these times of its rows."""
    requested = [at_us for at_us, _ in seen if at_us is not None]
    if len(requested) < len(seen):
        return NONE, max(ended_us for _, ended_us in seen)
    return min(requested, default=NONE), NONE


def contested(survey: Tally) -> frozenset[tuple[str, int, int]]:
    """Return `RunFacts.contested`."""
    in_log = dict(survey.each(counters.LOG_DIGEST))
    transactional = {(topic, partition) for topic, partition, *_ in survey.members(counters.TRANSACTION_WRITERS)}
    return frozenset(
        (topic, partition, block)
        for (topic, partition, block), digest in survey.each(counters.ACKED_DIGEST)
        if (topic, partition) in transactional or in_log.get((topic, partition, block)) != digest
    )


def heads(survey: Tally, epochs: Epochs) -> dict[tuple[str, int], tuple[int, int]]:
    """Return `RunFacts.heads`."""
    found = {}
    for key, segments in survey.each(counters.SEGMENTS):
        epoch = epochs.by_key[key]
        due, reached = NONE if epoch.position is None else epoch.position, NONE
        for segment in _in_order(segments):
            found[segment["path"], epoch.index] = due, reached
            due = reached = max(reached, segment["high"] + 1)
    return found


def _in_order(segments: list[Segment]) -> list[Segment]:
    """Return the segments of an epoch in the order of delivery."""
    return sorted(segments, key=lambda s: (s["first"]["ordinal"], s["path"]))


def delivered_rows(survey: Tally) -> list[Row]:
    """Return the summary of each epoch's deliveries, as `epochs.build` takes it."""
    rows = []
    for key, unordered in survey.each(counters.SEGMENTS):
        segments = _in_order(unordered)
        row = dict(zip(KEY, key, strict=True))
        row |= {name: segments[0][name] for name in ("mode", "group")}
        row |= {"first": segments[0]["first"]["offset"], "last": segments[-1]["last"]}
        row |= {name: min(s[name] for s in segments) for name in ("low", "polled_us")}
        row |= {"rows": sum(s["rows"] for s in segments), "high": max(s["high"] for s in segments)}
        rows.append(row)
    return rows


def falls(survey: Tally) -> list[tuple[Key, int, list[dict[str, Any]]]]:
    """Return by epoch the number of offsets not above the one before, and some of those deliveries."""
    found = []
    for key, unordered in survey.each(counters.SEGMENTS):
        segments = _in_order(unordered)
        shown = [row for s in segments for row in s["fallen"]]
        count = sum(s["falls"] for s in segments)
        for before, after in pairwise(segments):
            if after["first"]["offset"] <= before["last"]:
                count += 1
                shown.append(after["first"] | {"before": before["last"]})
        if count:
            found.append((key, count, shown))
    return found
