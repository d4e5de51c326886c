"""Counts of clients that the survey of several tables makes."""

from __future__ import annotations

import numpy as np

from checks.audit.arrays import Ints, Mask
from checks.audit.engine import counters
from checks.audit.engine.group import runs, sections
from checks.audit.engine.tally import Tally


def add_senders(codes: Ints, names: list[str], incarnation: Ints, tally: Tally) -> None:
    """Add every producer incarnation that occurs."""
    starts = runs(codes, incarnation)
    pairs = set(zip(codes[starts].tolist(), incarnation[starts].tolist(), strict=True))
    tally.add(counters.SENDERS, value={(names[c] if c >= 0 else None, n) for c, n in pairs})


def count_backwards(tally: Tally, table: str, codes: Ints, clients: list[str], wrong: Mask) -> None:
    """Count the rows that end before they begin: the clock of their client was set back between."""
    for (code,), rows in sections(codes[np.flatnonzero(wrong)]):
        tally.add(counters.CLOCK_BACKWARDS, f"{table} of {clients[code]}", value=len(rows))
