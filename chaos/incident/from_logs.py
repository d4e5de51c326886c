"""A draft of a scenario from the logs of an incident."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import UsageError
from chaos.incident.logs.scenario_draft import draft_scenario


@dataclass(frozen=True)
class FromLogsRequest:
    """A folder of broker logs. timezone: of times without one, UTC if None. clients: a file of client settings."""

    folder: Path
    out: Path | None = None
    timezone: str | None = None
    clients: Path | None = None


def from_logs(request: FromLogsRequest, say: Callable[[str], None]) -> str:
    """Return the draft as YAML, and write it to `out` if given. Raises `UsageError` if it cannot be read or written."""
    out = request.out
    if out is not None and out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file, such as {out / 'incident.yaml'}")
    text = draft_scenario(request.folder, request.timezone, request.clients, say)
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as e:
            raise UsageError(f"--out {out} cannot be written: {e.strerror}") from None
        say(f"{out}: {text.count('# TODO:')} TODOs to complete; then: python -m chaos show {out}")
    return text
