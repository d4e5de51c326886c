"""The offset of a clock from exchanges: the shortest of a window counts, and the truth is within its uncertainty."""

from __future__ import annotations

import random

from chaos.units import CLOCK_RATE
from chaos.workers.clock import WINDOW, ClockComparison, Offset


def test_the_true_offset_is_within_the_uncertainty_however_the_round_trip_is_divided():
    rng = random.Random(7)
    for _ in range(200):
        truth, clock, at = rng.randint(-(10**7), 10**7), ClockComparison(), 10**15
        for _ in range(WINDOW):
            there, back = rng.randint(0, 5000), rng.randint(0, 5000)
            best = clock.add(at, at + there + truth, there + back)
            at += 1_000_000
            assert abs(best.ahead_us - truth) <= best.uncertainty_us


def test_the_shortest_round_trip_counts_until_it_leaves_the_window():
    clock = ClockComparison()
    assert clock.add(0, 5, 10) == Offset(0, 6)
    assert [clock.add(0, 500, 1000) for _ in range(WINDOW - 1)][-1] == Offset(0, 6)
    assert clock.add(0, 600, 1000) == Offset(0, 501)


def test_an_exchange_is_worth_less_the_older_it_is():
    clock = ClockComparison()
    assert clock.add(0, 5, 10) == Offset(0, 6)
    assert clock.add(1_000_000, 1_000_500, 1000) == Offset(0, 501)  # 6 us, and 500 us for a second
    assert clock.add(2_000_000, 2_000_005, 10) == Offset(0, 6)


def test_a_clock_that_was_set_is_seen_at_once():
    clock = ClockComparison()
    assert clock.add(0, 5, 10) == Offset(0, 6)
    assert clock.add(1_000_000, 1_000_000 + 2_000_050, 100) == Offset(2_000_000, 51)
    assert clock.add(2_000_000, 2_000_000 + 2_000_050, 100) == Offset(2_000_000, 51)


def test_the_true_offset_of_a_clock_that_drifts_is_within_the_uncertainty():
    rng = random.Random(8)
    for _ in range(50):
        drift, truth, clock, at = (
            rng.uniform(-CLOCK_RATE, CLOCK_RATE),
            float(rng.randint(-(10**7), 10**7)),
            ClockComparison(),
            0,
        )
        for _ in range(3 * WINDOW):
            there, back = rng.randint(0, 5000), rng.randint(0, 5000)
            best = clock.add(at, at + there + round(truth + there * drift), there + back)
            assert abs(best.ahead_us - truth) <= best.uncertainty_us + 5, best
            at, truth = at + 1_000_000, truth + 1_000_000 * drift
