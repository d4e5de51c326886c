"""The templates of the pages. A page is one file: it has its style and scripts, and loads nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from chaos.pages.drawing import look, script_digest

_FOLDER = Path(__file__).parent / "page"
_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_MARKS = dict.fromkeys([*range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F], "\ufffd")
_INVISIBLE = _CONTROLS | _MARKS | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def render(template: str, up: str, *, script: str = "", **values: Any) -> str:
    """Return a page as text. up: relative path from the page to the root of the pages, such as `../`."""
    source = (_FOLDER / script).read_text(encoding="utf-8") if script else ""
    values |= {
        "up": up,
        "style": Markup(f"{look().style}\n{(_FOLDER / 'pages.css').read_text(encoding='utf-8')}"),  # our own files
        "script": Markup(source),
        "digest": script_digest(source),
    }
    return _environment().get_template(template).render(values).encode("utf-8", "replace").decode("utf-8")


def page_scripts() -> list[str]:
    """Return the scripts that `render` writes into pages."""
    return [path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.js"))]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=select_autoescape(("html.j2",)),
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"wall": wall, "took": took, "number": number, "address": address, "count": count}
    return environment


def _visible(value: Any) -> Any:
    """Make control characters, direction marks and lone surrogates of foreign text visible."""
    return value.translate(_INVISIBLE) if isinstance(value, str) and not isinstance(value, Markup) else value


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


def number(value: float) -> str:
    """Format a number: `12,345`."""
    return f"{value:,.0f}"


def count(n: int, noun: str) -> str:
    """Format a count: `1 run`, `37 runs`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def address(path: str) -> str:
    """Return a relative path as part of a URL."""
    return quote(path, safe="/", errors="replace")
