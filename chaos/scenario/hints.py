"""Hints at what a user may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint at the most similar name, or an empty text."""
    match = difflib.get_close_matches(str(name), list(names), n=1, cutoff=0.5)
    return f" (did you mean {match[0]}?)" if match else ""
