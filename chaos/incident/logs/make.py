"""All steps in a row, from a folder of logs to the text of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaos.incident.logs import clients, history, inventory, losses, members, outages, plan, reading
from chaos.incident.logs import skeleton as writer


def skeleton(
    folder: Path,
    timezone: str | None = None,
    client_settings: Path | None = None,
    progress: Callable[[str], None] = lambda words: None,
) -> str:
    """The skeleton as YAML; UTC if no time zone is given. Raises `UsageError` for input that it cannot read."""
    zone = reading.zone_of(timezone or "UTC")
    settings = clients.read(client_settings)
    told = history.read(folder, zone, progress)
    there = inventory.take(told)
    away = outages.find(told)
    found = plan.Found(
        away, members.find(told, there), losses.cuts(told), losses.unclean(told), losses.shorter(told, away)
    )
    numbers = writer.numbers(there)
    planned = plan.make(told, there, found, settings, lambda broker: numbers.get(broker, 1))
    return writer.write(told, there, planned, settings, writer.Origin(str(folder), zone.key, timezone is not None))
