"""Lines to entries: one instant, one logger, one message of one or many lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from chaos.errors import UsageError
from chaos.incident.logs.layouts import Layout

MOST_BELOW = 1000
"""Lines below the first one that belong to an entry and are kept: the settings of a broker are some 400."""
_HOUR_US = 3600 * 10**6


@dataclass(frozen=True)
class Entry:
    """One entry of a log. `line` is where it begins, counted from 1; `logger` is empty where the layout hides it."""

    at_us: int
    line: int
    level: str
    logger: str
    message: str


def zone_of(name: str) -> ZoneInfo:
    """The time zone of that name. Raises `UsageError`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"--timezone {name!r} is not known; give a name of the IANA database, such as UTC or Europe/Berlin"
        ) from None


class Clock:
    """Local times of one file as microseconds since the epoch.

    In the hour that comes twice when summer time ends, a step back of most of an hour tells the second from the first.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._last_local: datetime | None = None
        self._fold = 0
        self.guessed_zone = False
        """Whether any time came without a zone of its own."""

    def instant(self, at: str, zone: str | None) -> int:
        """Microseconds since the epoch of a time as it was written."""
        local = datetime.fromisoformat(at.replace(",", "."))
        if zone:
            return _us(datetime.fromisoformat(f"{local.isoformat()}{'+00:00' if zone == 'Z' else zone}"))
        self.guessed_zone = True
        if self._last_local and local < self._last_local - timedelta(minutes=30) and self._ambiguous(local):
            self._fold = 1
        elif not self._ambiguous(local):
            self._fold = 0
        self._last_local = local
        return _us(local.replace(tzinfo=self._zone, fold=self._fold))

    def _ambiguous(self, local: datetime) -> bool:
        first, second = (local.replace(tzinfo=self._zone, fold=fold).utcoffset() for fold in (0, 1))
        return first != second


def entries(lines: Iterable[str], layout: Layout, clock: Clock) -> Iterator[Entry]:
    """The entries of a file. What stands above the first one belongs to none and is left out."""
    began: tuple[int, int, str, str] | None = None
    text: list[str] = []
    for number, line in enumerate(lines, start=1):
        match = layout.first.match(line)
        if match is None:
            if began and len(text) < MOST_BELOW:
                text.append(line)
            continue
        if began:
            yield _entry(began, text, layout)
        try:
            at_us = clock.instant(match["at"], match["zone"])
        except ValueError:  # such as the 30th of February: not a time, so not a beginning either
            began = None
            continue
        logger = match["logger"] if layout.tail is None else ""
        began, text = (at_us, number, match["level"], logger), [match["rest"]]
    if began:
        yield _entry(began, text, layout)


def _entry(began: tuple[int, int, str, str], text: list[str], layout: Layout) -> Entry:
    at_us, line, level, logger = began
    if layout.tail is None:
        return Entry(at_us, line, level, logger, "\n".join(text))
    # the logger stands behind the message, and a stack trace comes after both
    for i, part in enumerate(text):
        if match := layout.tail.search(part):
            before = [*text[:i], part[: match.start()].rstrip(), *text[i + 1 :]]
            return Entry(at_us, line, level, match["logger"], "\n".join(before))
    return Entry(at_us, line, level, "", "\n".join(text))


def _us(at: datetime) -> int:
    return (at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
