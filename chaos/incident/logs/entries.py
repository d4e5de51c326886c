"""Log entries: one instant, one logger and one message of one or many lines.

log4j lets the user choose the layout of a line. `LAYOUTS` is the table of the known ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from chaos.errors import UsageError

MAX_LINES = 1000
"""Lines of an entry that are kept; the settings of a broker have about 400."""
_TIME = r"(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{3,6})?)\s?(?P<zone>Z|[+-]\d\d:?\d\d)?"
_LEVEL = r"(?P<level>TRACE|DEBUG|INFO|WARN|ERROR|FATAL)"
_LOGGER = r"[\w.$-]+"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Layout:
    """Layout of a log. `pattern` is the notation of log4j; `first` matches the first line of an entry.

    `tail` finds the logger at the end of the entry, which may be several lines below; None if the first line has it.
    """

    name: str
    pattern: str
    first: re.Pattern[str]
    tail: re.Pattern[str] | None = None


LAYOUTS = (
    Layout(
        "Kafka's own",
        "[%d] %p %m (%c)%n",
        re.compile(rf"\[{_TIME}\] {_LEVEL} +(?P<rest>.*)"),
        re.compile(rf"\((?P<logger>{_LOGGER})\)\s*\Z"),
    ),
    Layout(
        "Aftershock's",
        "%d{ISO8601} [%t] [%p] %c - %m%n",
        re.compile(rf"{_TIME} \[(?P<thread>.+?)\] \[{_LEVEL}\] (?P<logger>{_LOGGER}) - (?P<rest>.*)"),
    ),
    Layout(
        "Strimzi's",
        "%d{ISO8601} %p %m (%c) [%t]%n",
        re.compile(rf"{_TIME} {_LEVEL} +(?! *\[[^\]]*\] [\w.$]+(?::\d+)? - )(?P<rest>.*)"),
        re.compile(rf"\((?P<logger>{_LOGGER})\)(?: \[[^\[\]]*\])?\s*\Z"),
    ),
    Layout(
        "log4j's classic",
        "%d{ISO8601} %-5p [%t] %c:%L - %m%n",
        re.compile(rf"{_TIME} {_LEVEL} +\[(?P<thread>[^\]]*)\] (?P<logger>[\w.$]+)(?::\d+)? - (?P<rest>.*)"),
    ),
)
EXPECTED = "one of " + ", ".join(layout.pattern.removesuffix("%n") for layout in LAYOUTS)
"""Known layouts, for error messages."""


def layout_of(lines: Iterable[str]) -> Layout | None:
    """Return the layout that most of these lines have; None if no line has a known layout."""
    lines = list(lines)
    counts = {layout.name: sum(1 for line in lines if layout.first.match(line)) for layout in LAYOUTS}
    best = max(LAYOUTS, key=lambda layout: counts[layout.name])
    return best if counts[best.name] else None


@dataclass(frozen=True)
class Source:
    """Position of a log line: the file (a path inside the folder), the line from 1, and the start of the text."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Entry:
    """One entry in the log of `node`. `line` is its first line, from 1; `logger` is empty if the layout hides it."""

    at_us: int
    node: int
    file: str
    line: int
    level: str
    logger: str
    message: str

    @property
    def source(self) -> Source:
        """Position and first line of the entry."""
        return Source(self.file, self.line, self.message.split("\n", 1)[0][:300])


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of that name. Raises `UsageError` if it is unknown."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"--timezone {name!r} is unknown; give a name of the IANA database, such as UTC or Europe/Berlin"
        ) from None


class Clock:
    """Converter of the local times in one file to microseconds since the epoch.

    When summer time ends, one hour occurs twice. A step back by more than 30 minutes marks its second occurrence.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._last_local: datetime | None = None
        self._fold = 0
        self.assumed_zone = False
        """Whether any time in the file has no zone."""

    def instant(self, at: str, zone: str | None) -> int:
        """Return a time of the log as microseconds since the epoch. Raises `ValueError` if there is no such time."""
        local = datetime.fromisoformat(at.replace(",", "."))
        if zone:
            return _us(datetime.fromisoformat(f"{local.isoformat()}{'+00:00' if zone == 'Z' else zone}"))
        self.assumed_zone = True
        if not self._is_ambiguous(local):
            self._fold = 0
        elif self._last_local and local < self._last_local - timedelta(minutes=30):
            self._fold = 1
        self._last_local = local
        return _us(local.replace(tzinfo=self._zone, fold=self._fold))

    def _is_ambiguous(self, local: datetime) -> bool:
        first, second = (local.replace(tzinfo=self._zone, fold=fold).utcoffset() for fold in (0, 1))
        return first != second


def entries(lines: Iterable[str], layout: Layout, clock: Clock, file: str = "", node: int = 0) -> Iterator[Entry]:
    """Yield the entries of a file. Lines before the first entry are skipped."""
    head: tuple[int, int, re.Match[str]] | None = None
    text: list[str] = []
    for number, line in enumerate(lines, start=1):
        match = layout.first.match(line)
        if match is None:
            if head and len(text) < MAX_LINES:
                text.append(line)
            continue
        if head:
            yield _entry(*head, text, layout, file, node)
        try:
            head, text = (clock.instant(match["at"], match["zone"]), number, match), [match["rest"]]
        except ValueError:  # a date that does not exist, such as 30 February: the line begins no entry
            head = None
    if head:
        yield _entry(*head, text, layout, file, node)


def _entry(at_us: int, line: int, first: re.Match[str], text: list[str], layout: Layout, file: str, node: int) -> Entry:
    logger = "" if layout.tail else first["logger"]
    if layout.tail:  # the logger follows the message; a stack trace follows both
        for i, part in enumerate(text):
            if match := layout.tail.search(part):
                logger = match["logger"]
                text[i] = part[: match.start()].rstrip()
                break
    return Entry(at_us, node, file, line, first["level"], logger, "\n".join(text))


def _us(at: datetime) -> int:
    return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
