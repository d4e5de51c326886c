"""What is kept of each block to compare its records with other blocks, against plain definitions."""

from __future__ import annotations

import numpy as np
import pytest

from checks.audit.engine.blocks import BLOCK_BITS
from checks.audit.engine.cut import _starts_of_runs
from checks.audit.rules.positions import EDGE, _first_of_two, _latest


@pytest.mark.parametrize("seed", range(40))
def test_the_edges_of_a_block(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 3 * EDGE))
    at_us, sender = rng.integers(0, 50, rows), rng.integers(3, 3 + int(rng.integers(1, 4)), rows)
    wrong = np.flatnonzero(rng.random(rows) < 0.2) if seed % 2 else np.array([], np.int64)
    left = [i for i in range(rows) if i not in set(wrong.tolist())]
    assert _latest(at_us, wrong) == sorted(left, key=lambda i: (at_us[i], i))[-EDGE:]
    firsts: dict[int, int] = {}
    for i in sorted(range(rows), key=lambda i: (at_us[i], i)):
        firsts.setdefault(int(sender[i]), i)
    assert _first_of_two(sender, at_us) == list(firsts.values())[:2]


@pytest.mark.parametrize("seed", range(40))
def test_a_run_of_acknowledgements_goes_on_with_equal_times_and_the_next_offset_and_seq(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, begin = int(rng.integers(0, 60)), (1 << BLOCK_BITS) - 20
    steps = {name: rng.random(rows) < 0.1 for name in ("invoked_us", "completed_us", "topic", "partition", "sender")}
    acked = {name: np.cumsum(step) for name, step in steps.items()}
    acked |= {name: begin + np.cumsum(1 + (rng.random(rows) < 0.1)) for name in ("offset", "seq")}
    expected = []
    for i in range(rows):
        same = i > 0 and all(acked[name][i] == acked[name][i - 1] for name in steps)
        on = same and all(acked[name][i] == acked[name][i - 1] + 1 for name in ("offset", "seq"))
        if not on or acked["offset"][i] >> BLOCK_BITS != acked["offset"][i - 1] >> BLOCK_BITS:
            expected.append(i)
    assert _starts_of_runs(acked).tolist() == expected
