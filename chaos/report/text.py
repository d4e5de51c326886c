"""Formatting of numbers, times and foreign text for people."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

FAR_US = 7 * 86_400_000_000
"""From which distance to the start a time is a date: no run is so long, but timestamps may be anything."""
YEAR_US = 31_556_952_000_000
LONGEST = 240
"""Maximum characters of a foreign value; the tables have the complete value."""


def _replacements() -> dict[int, str]:
    """Return replacements for characters that are invisible, change the direction of text or are not valid UTF-8."""
    table = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
    table[0x7F] = "\u2421"
    table |= dict.fromkeys(range(0x80, 0xA0), "\ufffd")
    table |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F], "\ufffd")
    return table | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


_REPLACEMENTS = _replacements()


def visible(value: Any) -> Any:
    """Make control characters, direction marks and lone surrogates visible; return values other than text unchanged."""
    return value.translate(_REPLACEMENTS) if isinstance(value, str) and not isinstance(value, Markup) else value


def number(value: float) -> str:
    """Format a number: `12,345`."""
    return f"{value:,.0f}"


def short(value: float) -> str:
    """Format a number for an axis: `0.5`, `42`, `1.2k`, `3M`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def duration(us: float) -> str:
    """Format microseconds with three significant digits: `312 µs`, `4.2 ms`, `1.35 s`, `2 min 3 s`."""
    if abs(us) < 1_000:
        return f"{us:.0f} µs"
    if abs(us) < 999_500:
        return f"{us / 1e3:.3g} ms"
    if abs(us) < 59_950_000:
        return f"{us / 1e6:.3g} s"
    minutes, seconds = divmod(round(us / 1e6), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def minutes(seconds: float) -> str:
    """Return a time such as `12 min`."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def count(n: int, noun: str) -> str:
    """Format a count: `1 record`, `37 records`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


@dataclass(frozen=True)
class Clock:
    """Formatting of times, relative to the start of the run and as wall clock time."""

    zero_us: int

    def relative(self, us: int) -> str:
        """Format a time relative to the start: `+12.250 s`, `+3 min 12.250 s`; one far away as `wall` does."""
        if abs(us - self.zero_us) > FAR_US:
            return self.wall(us)
        ms = round((us - self.zero_us) / 1000)
        sign, ms = ("+", ms) if ms >= 0 else ("\N{MINUS SIGN}", -ms)
        minutes, ms = divmod(ms, 60_000)
        hours, minutes = divmod(minutes, 60)
        parts = [f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(hours or minutes)
        return sign + " ".join([*parts, f"{ms / 1000:.3f} s"])

    def wall(self, us: int) -> str:
        """Format a time as wall clock time: `2026-02-03 14:03:12.250 UTC`."""
        try:
            moment = datetime.fromtimestamp(us // 1_000_000, UTC)
        except (OverflowError, OSError, ValueError):  # beyond the years 1 to 9999
            return f"year {1970 + us // YEAR_US}"
        return f"{moment:%Y-%m-%d %H:%M:%S}.{us // 1000 % 1000:03d} UTC"

    def evidence(self, pairs: Mapping[str, Any]) -> list[tuple[str, str, str]]:
        """Return evidence as (name, value, wall clock time or empty); values that are times become relative."""
        return [(name.removesuffix("_us").replace("_", " "), *self._value(name, pairs[name])) for name in pairs]

    def _value(self, name: str, value: Any) -> tuple[str, str]:
        if name.endswith("_us") and isinstance(value, int | float) and math.isfinite(value):
            if name.endswith("timestamp_us") and value < 0:
                return "none", ""
            moment = value > 1e14 or name.endswith("timestamp_us")  # a time of day, not a span
            return (self.relative(int(value)), self.wall(int(value))) if moment else (duration(value), "")
        if isinstance(value, bool) or value is None:
            return {True: "yes", False: "no", None: "none"}[value], ""
        if isinstance(value, Mapping):
            return cut(", ".join(f"{part} {shown}" for part, shown, _ in self.evidence(value)) or "none"), ""
        if isinstance(value, list) and any(isinstance(v, Mapping) for v in value):
            return cut("; ".join(self._value("", v)[0] for v in value)), ""
        if isinstance(value, list) and all(isinstance(v, int | str) for v in value):
            return cut(", ".join(map(str, value)) or "none"), ""
        return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)), ""


def natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders `billing/2` before `billing/10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def cut(text: str) -> str:
    """Cut foreign text to `LONGEST` characters."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
