"""How a line of a broker's log is laid out. log4j leaves that to the user; these layouts are known, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_AT = r"(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{3,6})?)\s?(?P<zone>Z|[+-]\d\d:?\d\d)?"
_LEVEL = r"(?P<level>TRACE|DEBUG|INFO|WARN|ERROR|FATAL)"
_LOGGER = r"[\w.$-]+"


@dataclass(frozen=True)
class Layout:
    """One layout.

    pattern: log4j's notation. first: the first line of an entry. tail: where the logger stands at the end of the whole
    entry, which may be lines below; None where the first line has it.
    """

    name: str
    pattern: str
    first: re.Pattern[str]
    tail: re.Pattern[str] | None = None


LAYOUTS = (
    Layout(
        "Kafka's own",
        "[%d] %p %m (%c)%n",
        re.compile(rf"\[{_AT}\] {_LEVEL} +(?P<rest>.*)"),
        re.compile(rf"\((?P<logger>{_LOGGER})\)\s*\Z"),
    ),
    Layout(
        "Aftershock's",
        "%d{ISO8601} [%t] [%p] %c - %m%n",
        re.compile(rf"{_AT} \[(?P<thread>.+?)\] \[{_LEVEL}\] (?P<logger>{_LOGGER}) - (?P<rest>.*)"),
    ),
    Layout(
        "Strimzi's",
        "%d{ISO8601} %p %m (%c) [%t]%n",
        re.compile(rf"{_AT} {_LEVEL} +(?! *\[[^\]]*\] [\w.$]+(?::\d+)? - )(?P<rest>.*)"),
        re.compile(rf"\((?P<logger>{_LOGGER})\)(?: \[[^\[\]]*\])?\s*\Z"),
    ),
    Layout(
        "log4j's classic",
        "%d{ISO8601} %-5p [%t] %c:%L - %m%n",
        re.compile(rf"{_AT} {_LEVEL} +\[(?P<thread>[^\]]*)\] (?P<logger>[\w.$]+)(?::\d+)? - (?P<rest>.*)"),
    ),
)
EXPECTED = "one of " + ", ".join(layout.pattern.removesuffix("%n") for layout in LAYOUTS)
"""For messages: what a line of a log may look like."""


def layout_of(lines: Iterable[str]) -> Layout | None:
    """The layout that most of these lines have; None if no line has any."""
    lines = list(lines)
    counts = {layout.name: sum(1 for line in lines if layout.first.match(line)) for layout in LAYOUTS}
    best = max(LAYOUTS, key=lambda layout: counts[layout.name])
    return best if counts[best.name] else None
