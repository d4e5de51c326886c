"""A draft of a scenario from the logs of an incident."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaos.errors import UsageError
from chaos.incident.logs.scenario_draft import draft_scenario


def from_logs(
    folder: Path,
    out: Path | None,
    timezone: str | None,
    clients: Path | None,
    say: Callable[[str], None],
    select: tuple[str, ...] = (),
) -> str:
    """Return a draft from the broker logs below a folder as YAML, and write it to `out` if given.

    timezone: of times without one, UTC if None. clients: a file of client settings; select: what is chosen in it.
    Raises `UsageError` if a file cannot be read or written.
    """
    if out is not None and out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file, such as {out / 'incident.yaml'}")
    text = draft_scenario(folder, timezone, clients, say, select)
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as e:
            raise UsageError(f"--out {out} cannot be written: {e.strerror}") from None
        say(f"{out}: {text.count('# TODO:')} TODOs to complete; then: python -m chaos show {out}")
    return text
