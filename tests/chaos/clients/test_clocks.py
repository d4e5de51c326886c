"""Clocks of clients: what a client sees, and the times of its rows."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.fleet.process import ClientClocks
from chaos.preload.libraries import RIGHT, Skew

NEAR_S = 5.0
SHOW = "import time; from chaos.run.events import now_us; print(time.time(), now_us() / 1e6)"


def shown_s(clocks: ClientClocks, client: str) -> tuple[float, float]:
    """Return how far the wall clock of a process, and the clock of its rows, are ahead."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        env=clocks.environment(client),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    wall, rows = map(float, done.stdout.split())
    return wall - time.time(), rows - time.time()


@pytest.mark.parametrize("ahead_s", [7200.0, -7200.0])
def test_a_client_sees_another_time_and_its_rows_have_that_of_the_machine(tmp_path: Path, ahead_s: float) -> None:
    clocks = ClientClocks(tmp_path / "clients", {"shop"})
    assert shown_s(clocks, "shop/1") == pytest.approx((0, 0), abs=NEAR_S)
    clocks.set("shop/1", Skew(ahead_s))
    assert clocks.ahead_s("shop/1") == ahead_s
    assert shown_s(clocks, "shop/1") == pytest.approx((ahead_s, 0), abs=NEAR_S)
    assert shown_s(clocks, "shop/2") == pytest.approx((0, 0), abs=NEAR_S)
    clocks.set("shop/1", RIGHT)
    assert shown_s(clocks, "shop/1") == pytest.approx((0, 0), abs=NEAR_S)


def test_a_client_of_another_entry_loads_no_library(tmp_path: Path) -> None:
    assert ClientClocks(tmp_path / "clients", {"shop"}).environment("billing/1") == {}
    assert ClientClocks(tmp_path / "clients", ()).environment("shop/1") == {}
    assert not (tmp_path / "clients").exists()
