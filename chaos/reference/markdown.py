"""Tables and words of the references."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; empty where there are no rows. Bars and line breaks in cells are made harmless."""
    lines = [" | ".join(_cell(c) for c in row) for row in rows]
    if not lines:
        return ""
    return "\n".join(f"| {line} |" for line in [" | ".join(head), " | ".join("---" for _ in head), *lines]) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(names: Iterable[str]) -> str:
    """Names as code, with commas."""
    return ", ".join(f"`{name}`" for name in names)


def anchor(title: str) -> str:
    """The fragment by which a heading is linked to: small letters, digits, `-` and `_`, spaces as `-`."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def sentence(text: str) -> str:
    """With a capital first and a full stop last."""
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
