"""The clocks of a run with clients on several machines, as the drive compared them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

WORKER_COLUMNS = ("entity", "key", "value")


def several_clocks(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return why times of clients and faults cannot be compared; empty if all are from the clock of one machine.

    rows: of the table `cluster`. The offset of each clock is known only within its uncertainty, and it drifts, so no
    rule compares these times.
    """
    elsewhere: dict[str, str] = {}
    furthest: dict[str, tuple[int, int]] = {}
    for row in rows:
        if not str(row["entity"]).startswith("worker:") or row["value"] is None:
            continue
        worker, value = str(row["entity"]).removeprefix("worker:"), json.loads(row["value"])
        if row["key"] == "host" and not value["beside_drive"]:
            elsewhere[worker] = value["name"]
        elif row["key"] == "clock":
            ahead_us, uncertainty_us = value
            furthest[worker] = max(furthest.get(worker, (0, 0)), (abs(ahead_us), uncertainty_us))
    if not elsewhere:
        return ""
    shown = [f"{worker} on {host}: {_offset(furthest.get(worker))}" for worker, host in sorted(elsewhere.items())]
    return (
        f"clients ran on other machines than the drive, with other clocks ({', '.join(shown)}): put all workers on one "
        "machine to judge order and times"
    )


def _offset(furthest: tuple[int, int] | None) -> str:
    if furthest is None:
        return "never compared"
    return f"up to {furthest[0] / 1000:,.1f} ms apart, known within {furthest[1] / 1000:,.1f} ms"
