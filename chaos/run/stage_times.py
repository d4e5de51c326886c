"""Stages of a run in `events.jsonl`: their names, their durations, and the limits that they reached."""

from __future__ import annotations

from chaos.run.events import Event

DRIVING = ("deploy", "clients", "load", "heal", "drain", "stop", "seal", "drive")
"""Stages that must succeed for a complete ledger; destroying the cluster is not one of them."""
CHECKING = ("readback", "audit", "validate")


def stage_times(events: list[Event]) -> dict[str, float]:
    """Return the seconds of the last execution of each stage, in the order of their first start."""
    times: dict[str, float] = {}
    for e in events:
        if e.get("kind") == "stage" and isinstance(e.get("seconds"), int | float):
            times[str(e.get("stage"))] = float(e["seconds"])
    return times


def notes(events: list[Event]) -> list[str]:
    """Return the notes of the drive about limits that it reached."""
    return [str(e["words"]) for e in events if e.get("kind") == "note" and "(limits." in str(e.get("words", ""))]
