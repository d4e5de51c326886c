"""The templates of the pages. A page is one file: it has its style and scripts, and loads nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from chaos.report.pages import digest, environment, script_digests, style
from chaos.report.text import count, number

_FOLDER = Path(__file__).parent / "page"


def render(template: str, up: str, *, script: str = "", **values: Any) -> str:
    """Return a page as text. up: relative path from the page to the root of the pages, such as `../`."""
    source = (_FOLDER / script).read_text(encoding="utf-8") if script else ""
    values |= {
        "up": up,
        "style": Markup(f"{style()}\n{(_FOLDER / 'pages.css').read_text(encoding='utf-8')}"),  # our own files
        "script": Markup(source),
        "digest": digest(source),
    }
    return _environment().get_template(template).render(values).encode("utf-8", "replace").decode("utf-8")


@cache
def allowed_scripts() -> list[str]:
    """Return the digests of the scripts that this release writes into pages."""
    own = [path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.js"))]
    return [*script_digests(), *map(digest, own)]


@cache
def _environment() -> Environment:
    found = environment(_FOLDER)
    found.filters |= {"wall": wall, "took": took, "number": number, "address": address, "count": count}
    return found


def wall(us: int) -> str:
    """Format a time: `2026-02-03 14:03:12 UTC`."""
    return f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def took(us: float) -> str:
    """Format a length: `42 s`, `3 min 7 s`, `2 h 5 min`."""
    minutes, seconds = divmod(max(0, round(us / 1e6)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def address(path: str) -> str:
    """Return a relative path as part of a URL."""
    return quote(path, safe="/", errors="replace")
