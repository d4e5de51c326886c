"""Summaries in Markdown that fit into a comment of a pull request and a step summary of hosted CI."""

from __future__ import annotations

from typing import Any

from checks.report.pages import render_text

MOST_CHARACTERS = 60_000
"""GitHub accepts 65,536 characters in a comment and 1 MiB in a step summary; GitLab accepts more."""
CUT = "\n\n**The rest does not fit here: see report.html.**\n"
_OPEN, _CLOSE = "<details>", "</details>"


def render_summary(template: str, **values: Any) -> str:
    """Render a template of Markdown, with at most `MOST_CHARACTERS`."""
    return fit(render_text(template, **values))


def size(text: str) -> int:
    """Return the number of characters as hosted CI counts them: UTF-16 units, so an emoji may be two."""
    return len(text.encode("utf-16-le", "replace")) // 2


def fit(text: str) -> str:
    """Return a text with at most `MOST_CHARACTERS`: cut after a whole line, with a line that says so.

    What comes first in the text stays: the verdict, and what failed. A cut inside of a folded part closes it.
    """
    if size(text) <= MOST_CHARACTERS:
        return text
    room = MOST_CHARACTERS - len(CUT) - len(_CLOSE) - 2
    kept = text.encode("utf-16-le", "replace")[: 2 * room].decode("utf-16-le", "ignore")
    kept = kept[: kept.rfind("\n")] if "\n" in kept else kept
    folded = kept.count(_OPEN) > kept.count(_CLOSE)
    return kept.rstrip() + (f"\n\n{_CLOSE}" if folded else "") + CUT
