"""Hints at what a user may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

_MOST = 20
"""Most names that fit on a line."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint at the most similar name, or an empty text."""
    match = difflib.get_close_matches(str(name), list(names), n=1, cutoff=0.5)
    return f" (did you mean {match[0]}?)" if match else ""


def listed(names: Collection[str], what: str, command: str) -> str:
    """Return the valid names as the end of a line; if they are many, their number and the command that lists them."""
    many = f"there are {len(names)} {what}, which `{command}` lists"
    return f"the {what} are {', '.join(names)}" if len(names) <= _MOST else many


def either(choices: Collection[str]) -> str:
    """Return alternatives as text: `a, b or c`."""
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last
