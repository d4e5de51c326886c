"""What `events.jsonl` tells of a run's stages: which there are, how long each took, and what limits it ran into."""

from __future__ import annotations

from chaos.run.events import Event

DRIVING = ("deploy", "clients", "load", "heal", "drain", "stop", "seal", "drive")
"""Stages that have to end well for the ledger to be whole; taking the cluster down is not one of them."""
CHECKING = ("readback", "audit", "validate")


def stage_times(events: list[Event]) -> dict[str, float]:
    """Seconds of each stage that ended or failed, the last time it ran, in the order in which they first began."""
    times: dict[str, float] = {}
    for e in events:
        if e.get("kind") == "stage" and isinstance(e.get("seconds"), int | float):
            times[str(e.get("stage"))] = float(e["seconds"])
    return times


def notes(events: list[Event]) -> list[str]:
    """What the drive had to say about limits it ran into."""
    return [str(e["words"]) for e in events if e.get("kind") == "note" and "(limits." in str(e.get("words", ""))]
