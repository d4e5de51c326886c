"""The clocks of a run with clients on several machines: why a check or a time cannot be judged across them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from checks.audit.rules.rule import ALWAYS, BY_ROW, IN_ORDER

WORKER_COLUMNS = ("entity", "key", "value")
Counts = Mapping[str, Mapping[str, int]]
"""The table `counts`: value by name and scope."""


def several_clocks(rows: Iterable[Mapping[str, Any]], counts: Counts, across: str) -> str:
    """Return why times of clients and faults cannot be compared; empty if they can.

    rows: of the table `cluster`. across: see `Rule.across`. A clock is known within its uncertainty, by which the audit
    corrects the times. It does so only if each clock is known well enough.
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
    if not elsewhere or across == ALWAYS:
        return ""
    known = slack_us(counts) > 0
    if known and across == BY_ROW:
        return ""
    unsure = counts.get("unsure_order", {})
    if known and across == IN_ORDER and not unsure:
        return ""
    shown = [f"{worker} on {host}: {_offset(furthest.get(worker))}" for worker, host in sorted(elsewhere.items())]
    apart = f"clients ran on other machines than the drive, with other clocks ({', '.join(shown)}): "
    if known and across == IN_ORDER:
        apart += (
            f"{sum(unsure.values()):,} events on {', '.join(sorted(unsure)[:3])} are within {ms(slack_us(counts))} "
        )
        apart += "of one on another machine, so their order is unknown; "
    return apart + "put all workers on one machine to judge order and times"


def slack_us(counts: Counts) -> int:
    """Return the maximum error of a difference between times of two machines, as far as the audit knows it; else 0."""
    return counts.get("clock_slack_us", {}).get("", 0)


def ms(us: int) -> str:
    """Return a time in ms as text."""
    return f"{us / 1000:,.1f} ms"


def _offset(furthest: tuple[int, int] | None) -> str:
    if furthest is None:
        return "never compared"
    return f"up to {ms(furthest[0])} apart, known within {ms(furthest[1])}"
