"""The rate of the reading: pauses, sizes, and no credit for idle time."""

from __future__ import annotations

import pytest

from chaos.forensics.pace import Pace
from chaos.kafka.offsets_log import FETCH_BYTES


class Clock:
    """A clock that only moves by sleeping and by hand."""

    now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def take(pace: Pace, clock: Clock, size: int, seconds: float = 0.0) -> None:
    with pace.taking() as took:
        clock.now += seconds
        took(size)


def test_a_pause_keeps_the_bytes_below_the_rate() -> None:
    clock = Clock()
    pace = Pace(1_000, clock=lambda: clock.now, sleep=clock.sleep)
    for _ in range(4):
        take(pace, clock, 500, seconds=0.1)
    assert (pace.bytes, pace.seconds, clock.now) == (2_000, pytest.approx(2.0), pytest.approx(2.0))


def test_idle_time_is_not_saved_for_a_burst() -> None:
    clock = Clock()
    pace = Pace(1_000, clock=lambda: clock.now, sleep=clock.sleep)
    clock.now = 100.0
    take(pace, clock, 500)
    assert (clock.now, pace.seconds) == (100.5, 0.5)


def test_a_slow_broker_needs_no_pause() -> None:
    clock = Clock()
    pace = Pace(1_000, clock=lambda: clock.now, sleep=clock.sleep)
    take(pace, clock, 500, seconds=3.0)
    assert clock.now == 3.0


def test_a_request_that_fails_is_timed() -> None:
    clock = Clock()
    pace = Pace(1_000, clock=lambda: clock.now, sleep=clock.sleep)
    with pytest.raises(OSError, match="gone"), pace.taking():
        clock.now += 2.0
        raise OSError("gone")
    assert (pace.bytes, pace.seconds) == (0, 2.0)


@pytest.mark.parametrize(("rate", "size"), [(1_000, 1_000), (1 << 20, 1 << 20), (1 << 30, FETCH_BYTES)])
def test_an_answer_is_at_most_a_second_of_the_rate(rate: int, size: int) -> None:
    assert Pace(rate).size == size
