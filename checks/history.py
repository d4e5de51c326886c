"""What `events.jsonl` tells of a run's stages: how long each took, and which broke off."""

from __future__ import annotations

from chaos.events import Event

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


def broken_off(events: list[Event], among: tuple[str, ...]) -> dict[str, str]:
    """Each of these stages that failed, or began and never ended, with the reason; a later success clears it."""
    last: dict[str, Event] = {}
    for e in events:
        if e.get("kind") == "stage" and e.get("stage") in among:
            last[e["stage"]] = e
    found: dict[str, str] = {}
    for name, event in last.items():
        if event.get("state") != "end" and (reason := _reason(event)) not in found.values():
            found[name] = reason  # a stage around others repeats the reason of the one within
    return found


def notes(events: list[Event]) -> list[str]:
    """What the drive had to say about limits it ran into."""
    return [str(e["words"]) for e in events if e.get("kind") == "note" and "(limits." in str(e.get("words", ""))]


def _reason(event: Event) -> str:
    if event.get("state") == "failed":
        return str(event.get("detail") or "no reason was recorded")
    return "it began and never ended, so its process was killed"
