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


def listed(names: Collection[str], command: str) -> str:
    """Return names for the end of a line; if they are many, how many there are and the command that lists them."""
    return ", ".join(names) if len(names) <= _MOST else f"{len(names)} of them; `{command}` lists them"
