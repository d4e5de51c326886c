"""YAML with comments: values by a YAML library, comments on lines of their own; neither can break out."""

from __future__ import annotations

import re
from typing import Any

import yaml

WIDTH = 118


def value(data: Any) -> str:
    """A value in flow style, quoted and escaped where it has to be."""
    text = yaml.safe_dump(data, default_flow_style=True, width=10**6, allow_unicode=False, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def plain(text: str) -> str:
    r"""Text on one line, for a comment: control characters and what is not ASCII as \x1b or \u2028."""
    return "".join(c if c.isascii() and c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def name_for(text: str, taken: dict[str, str], most: int = 12, usual: str = "client") -> str:
    """A name that a scenario allows for a client, made from any text; `taken` keeps them apart: what by name."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:most].strip("-_") or usual
    base, n = name, 1
    while taken.get(name, text) != text:
        n += 1
        name = f"{base[: most - 2]}-{n}"
    taken[name] = text
    return name


class Page:
    """Lines of YAML under construction."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def comment(self, text: str, indent: int = 0) -> None:
        """A comment; long ones go on in further lines."""
        room = WIDTH - indent - 2
        for line in _wrapped(plain(text), room):
            self._lines.append(f"{' ' * indent}# {line}".rstrip())

    def todo(self, text: str, indent: int = 0) -> None:
        """What somebody has to decide or find out."""
        self.comment(f"TODO: {text}", indent)

    def put(self, key: str, data: Any, indent: int = 0, source: object = "", item: bool = False) -> None:
        """`key: value`, with the source of it behind; `item` begins an entry of a list."""
        behind = f"  # {plain(str(source))}" if source else ""
        self._lines.append(f"{' ' * indent}{'- ' if item else ''}{value(key)}: {value(data)}{behind}")

    def head(self, key: str, indent: int = 0, source: object = "") -> None:
        """`key:`, with more below."""
        self._lines.append(f"{' ' * indent}{key}:" + (f"  # {plain(str(source))}" if source else ""))

    def gap(self) -> None:
        """An empty line."""
        self._lines.append("")

    def text(self) -> str:
        """All of it."""
        return "\n".join(self._lines) + "\n"


def _wrapped(text: str, room: int) -> list[str]:
    lines: list[str] = []
    while len(text) > room:
        cut = text.rfind(" ", 0, room)
        cut = cut if cut > room // 2 else room
        lines.append(text[:cut])
        text = "  " + text[cut:].lstrip()
    return [*lines, text]
