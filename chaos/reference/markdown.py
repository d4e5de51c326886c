"""Tables, anchors and sentences in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, or an empty text without rows. Bars and line breaks in cells are escaped."""
    lines = [" | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) for row in rows]
    if not lines:
        return ""
    return "\n".join(f"| {line} |" for line in [" | ".join(head), " | ".join("---" for _ in head), *lines]) + "\n"


def code(names: Iterable[str]) -> str:
    """Return names as inline code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def anchor(title: str) -> str:
    """Return the fragment that links to a heading: small letters, digits, `-` and `_`, with spaces as `-`."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def sentence(text: str) -> str:
    """Return text with a capital first letter and a full stop."""
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?", '."')) else ".")
