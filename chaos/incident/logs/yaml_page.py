"""YAML with comments. All values are quoted by a YAML library: text from logs cannot break out of one."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import yaml

WIDTH = 118


def to_yaml(data: Any) -> str:
    """Return a value in flow style, quoted and escaped where necessary."""
    text = yaml.safe_dump(data, default_flow_style=True, width=10**6, allow_unicode=False, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def plain(text: str) -> str:
    r"""Return text as one line of printable ASCII; other characters are escaped, such as \x1b or \u2028."""
    return "".join(c if c.isascii() and c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def client_name(text: str, used: dict[str, str]) -> str:
    """Return a client name that scenarios allow, made from any text, and add it to `used` (text by name)."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:12].strip("-_") or "client"
    base, n = name, 1
    while used.get(name, text) != text:
        n += 1
        name = f"{base[:10]}-{n}"
    used[name] = text
    return name


class YamlPage:
    """Writer of YAML lines and comments. `indent` is a number of spaces."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def comment(self, text: str, indent: int = 0) -> None:
        """Write a comment; long text is wrapped."""
        margin = f"{' ' * indent}# "
        self._lines += textwrap.wrap(
            plain(text), WIDTH, initial_indent=margin, subsequent_indent=f"{margin}  ", break_on_hyphens=False
        )

    def todo(self, text: str, indent: int = 0) -> None:
        """Write a comment about a decision or missing information."""
        self.comment(f"TODO: {text}", indent)

    def put(self, key: str, data: Any, indent: int = 0, source: object = "") -> None:
        """Write `key: value` with its source as a comment."""
        self._line(f"{to_yaml(key)}: {to_yaml(data)}", indent, source)

    def item(self, mapping: Mapping[str, Any], sources: Mapping[str, object]) -> None:
        """Write a mapping as an item of a list, without values that are None. `sources` are by key."""
        dash = "- "
        for key, data in mapping.items():
            if data is not None:
                self._line(f"{dash}{to_yaml(key)}: {to_yaml(data)}", 2, sources.get(key, ""))
                dash = "  "

    def head(self, key: str, indent: int = 0) -> None:
        """Write `key:`, for the lines below it."""
        self._line(f"{key}:", indent, "")

    def gap(self) -> None:
        """Write an empty line."""
        self._lines.append("")

    def text(self) -> str:
        """Return everything written so far."""
        return "\n".join(self._lines) + "\n"

    def _line(self, text: str, indent: int, source: object) -> None:
        self._lines.append(f"{' ' * indent}{text}" + (f"  # {plain(str(source))}" if source else ""))


def clock_time(at_us: int) -> str:
    """Return the time of day in UTC, with milliseconds."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%H:%M:%S.%f}"[:-3]
