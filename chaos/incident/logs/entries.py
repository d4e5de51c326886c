"""Log entries: one instant, one logger and one message of one or many lines; and the log files that have them.

A line has up to three parts: prefixes of what collected it (Compose, Kubernetes, systemd), the head of an entry in one
of `LAYOUTS` or as JSON, and the message. `PREFIXES` and `LAYOUTS` are the tables of the known forms.
Files are plain, compressed or rotated, in any encoding that a shell writes.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from chaos.errors import UsageError

NO_NODE = -1
"""Node of a client, and of an entry before its writer is known. 0 is a broker."""
MAX_LINES = 1000
"""Lines of an entry that are kept; the settings of a broker have about 400."""
_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
_TIME = rf"(?P<at>{_DATE}(?:[.,]\d{{1,9}})?)\s?(?P<zone>Z|[+-]\d\d:?\d\d)?"
_LEVELS = r"TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL"
_LEVEL = rf"(?P<level>{_LEVELS})"
_LOGGER = r"[\w.$-]+"
_TAIL = re.compile(rf"\((?P<logger>{_LOGGER})\)(?: \[[^\[\]]*\])?\s*\Z")
"""The logger at the end of an entry, perhaps with the thread behind it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTER, _WIDEST = timedelta(minutes=15), timedelta(hours=14)
"""Unit and maximum of the offsets between time zones and UTC."""
_DELAY = timedelta(minutes=2)
"""Maximum time between a log line and its collection."""


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
        _TAIL,
    ),
    Layout(
        "log4j's classic",
        "%d{ISO8601} %-5p [%t] %c:%L - %m%n",
        re.compile(rf"{_TIME} {_LEVEL} +\[(?P<thread>[^\]]*)\] (?P<logger>[\w.$]+)(?::\d+)? - (?P<rest>.*)"),
    ),
)
"""Layouts of text. A line matches at most one of them."""
_WITHOUT_TIME = Layout(
    "without a time",
    "%p %m (%c)%n",
    re.compile(rf"{_LEVEL} +(?P<rest>.*)"),
    _TAIL,
)
"""Layout of a log for a collector that writes the time itself, with a date and a zone."""
EXPECTED = "one of " + ", ".join(layout.pattern.removesuffix("%n") for layout in LAYOUTS) + ", or JSON by line"
"""Known layouts, for error messages."""

_OUTER = r"(?P<outer>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d))"
PREFIXES = (
    # Kubernetes CRI
    re.compile(rf"{_OUTER} (?:stdout|stderr) (?P<tag>[FP])(?: |\Z)"),
    # systemd
    re.compile(rf"(?:[A-Z][a-z]{{2}} [ \d]\d [\d:.]{{8,15}}|{_OUTER}) (?P<label>\S+ [\w./@:-]+?)(?:\[\d+\])?: "),
    # Compose
    re.compile(r"(?P<label>[\w.-]+) *\| ?"),
    # kubectl logs --prefix
    re.compile(r"\[(?!\d{4}-)(?P<label>(?:pod/)?[\w.-]+/[\w.-]+)\] "),
    # stern
    re.compile(rf"(?P<label>[\w.-]+(?: \u203a | )[\w.-]+) (?=\[?{_DATE}|\{{\")"),
    # docker logs --timestamps, kubectl logs --timestamps
    re.compile(rf"{_OUTER}(?: |\Z)"),
)
"""Prefixes of collectors. `outer`: time of the collector; `label`: what wrote the line; tag P: the line continues."""
_ANSI = re.compile(r"\x1b\[[\d;]*[A-Za-z]")

_JSON_KEYS = {
    "at": ("@timestamp", "timestamp", "time", "timeMillis", "ts", "date"),
    "level": ("log.level", "level", "severity", "loglevel", "level_name"),
    "logger": ("log.logger", "loggerName", "logger_name", "logger", "_logger"),
    "message": ("message", "msg", "short_message", "log"),
    "error": ("error.stack_trace", "stack_trace", "thrown.extendedStackTrace", "exception.stacktrace", "full_message"),
    "label": (
        "kubernetes.pod_name",
        "kubernetes.pod.name",
        "container_name",
        "pod",
        "host.name",
        "hostname",
        "source_host",
    ),
}
"""Keys of the JSON layouts of log4j2, ECS, logstash, GELF and container engines, by part of an entry."""


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
    """One entry. `line` is its first line, from 1; `logger` is empty if the layout hides it.

    `node` is the broker or controller that wrote it. `label` is what a collector says of the writer.
    """

    at_us: int
    node: int
    file: str
    line: int
    level: str
    logger: str
    message: str
    label: str = ""

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
    """Converter of the local times of one writer to microseconds since the epoch.

    When summer time ends, one hour occurs twice. A step back by more than 30 minutes marks its second occurrence.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._last_local: datetime | None = None
        self._fold = 0
        self.assumed_zone = False
        """Whether any time has neither a zone nor the time of a collector."""

    def instant(self, at: str, zone: str | None, outer: str | None = None) -> int:
        """Return a time of the log as microseconds since the epoch. Raises `ValueError` if there is no such time.

        outer: the time of a collector, with a zone: its distance in quarters of an hour is the zone of the log.
        """
        local = _date(at)
        if zone:
            return _us(_date(f"{at}{'+00:00' if zone == 'Z' else zone}"))
        if outer:
            collected = _date(outer)
            away = local - collected.astimezone(UTC).replace(tzinfo=None)
            offset = round(away / _QUARTER) * _QUARTER
            # further away, the collector wrote its own time much later: it says nothing about the zone
            if abs(offset) <= _WIDEST and abs(away - offset) <= _DELAY:
                return _us((local - offset).replace(tzinfo=UTC))
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


def _date(text: str) -> datetime:
    """Return an ISO time; digits below microseconds are dropped."""
    if len(text) > len("2026-01-01T00:00:00.000000"):
        text = re.sub(r"(?<=[.,]\d{6})\d+", "", text)
    return datetime.fromisoformat(text.replace(",", "."))


def _us(at: datetime) -> int:
    return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


@dataclass
class _Line:
    """A line without its prefixes. `partial`: the next line continues it.

    `fields`: values of a JSON object; `head`: layout of a text with its match. Both are None inside an entry.
    """

    text: str
    label: str = ""
    outer: str | None = None
    fields: dict[str, Any] | None = None
    head: tuple[Layout, re.Match[str]] | None = None
    partial: bool = False


@dataclass
class _Open:
    """The entry of one label that is being read."""

    head: tuple[int, int, str, str] | None = None
    """Time, number of the line, level, logger."""
    layout: Layout | None = None
    text: list[str] = field(default_factory=list)
    partial: str = ""


def is_entry(line: str) -> bool:
    """Return whether a line begins an entry in a known layout."""
    parsed = _strip(line)
    return parsed.fields is not None or parsed.head is not None


def entries(lines: Iterable[str], zone: ZoneInfo, file: str = "") -> tuple[Iterator[Entry], dict[str, Clock]]:
    """Return the entries of a file and the clocks by label, which fill while the entries are read.

    Lines before the first entry of a label are skipped, such as the rest of an entry that a rotation cut.
    """
    clocks: dict[str, Clock] = {}
    return _entries(lines, zone, file, clocks), clocks


def _entries(lines: Iterable[str], zone: ZoneInfo, file: str, clocks: dict[str, Clock]) -> Iterator[Entry]:
    opened: dict[str, _Open] = {}
    for number, raw in enumerate(lines, start=1):
        line = _strip(raw)
        entry = opened.setdefault(line.label, _Open())
        if line.partial or entry.partial:
            line.text = entry.partial + line.text
            entry.partial = line.text if line.partial else ""
            line.head = _head(line)
        if line.partial:
            continue
        if line.fields is None and line.head is None:
            if entry.head and len(entry.text) < MAX_LINES:
                entry.text.append(line.text)
            continue
        if entry.head:
            yield _closed(entry, file, line.label)
        clock = clocks.setdefault(line.label, Clock(zone))
        try:
            opened[line.label] = (
                _of_json(line, number, clock) if line.head is None else _of_text(line, line.head, number, clock)
            )
        except ValueError:  # a date that does not exist, such as 30 February: the line begins no entry
            opened[line.label] = _Open()
    yield from (_closed(entry, file, label) for label, entry in opened.items() if entry.head)


def _head(line: _Line) -> tuple[Layout, re.Match[str]] | None:
    """Return the layout of the head in this line, with its match."""
    for layout in LAYOUTS:
        if match := layout.first.match(line.text):
            return layout, match
    if line.outer and (match := _WITHOUT_TIME.first.match(line.text)):
        return _WITHOUT_TIME, match
    return None


def _of_text(line: _Line, match: tuple[Layout, re.Match[str]], number: int, clock: Clock) -> _Open:
    layout, head = match
    groups = head.groupdict()
    at, zone = groups.get("at"), groups.get("zone")
    at_us = clock.instant(at, zone, line.outer) if at else _us(_date(line.outer or ""))
    return _Open((at_us, number, head["level"], groups.get("logger") or ""), layout, [head["rest"]])


def _of_json(line: _Line, number: int, clock: Clock) -> _Open:
    """Return the entry of a JSON object. Raises `ValueError` if its time is none."""
    fields = line.fields or {}
    if "instant.epochSecond" in fields:
        at_us = int(fields["instant.epochSecond"]) * 10**6 + int(fields.get("instant.nanoOfSecond", 0)) // 1000
    else:
        at = _first(fields, "at") or line.outer or ""
        if re.fullmatch(r"\d+(\.\d+)?", at):  # milliseconds since the epoch have 13 digits, seconds 10
            at_us = round(float(at) * (1000 if len(at.partition(".")[0]) >= 12 else 10**6))
        else:
            parts = re.fullmatch(_TIME, at)
            if parts is None:
                raise ValueError(at)
            at_us = clock.instant(parts["at"], parts["zone"], line.outer)
    text = [_first(fields, "message")]
    if error := _first(fields, "error"):
        text.append(error)
    elif "thrown.name" in fields:
        text.append(f"{fields['thrown.name']}: {fields.get('thrown.message', '')}")
    level, logger = _first(fields, "level").upper() or "INFO", _first(fields, "logger")
    return _Open((at_us, number, level, logger), None, "\n".join(text).split("\n")[:MAX_LINES])


def _closed(entry: _Open, file: str, label: str) -> Entry:
    assert entry.head is not None
    at_us, line, level, logger = entry.head
    if entry.layout and entry.layout.tail:  # the logger follows the message; a stack trace follows both
        for i, part in enumerate(entry.text):
            if match := entry.layout.tail.search(part):
                logger = match["logger"]
                entry.text[i] = part[: match.start()].rstrip()
                break
    return Entry(at_us, NO_NODE, file, line, level, logger, "\n".join(entry.text), label)


def _strip(raw: str) -> _Line:
    """Return a line without the prefixes of collectors, with its head."""
    text = raw.replace("\0", "") if "\0" in raw else raw
    line = _Line(_ANSI.sub("", text) if "\x1b" in text else text)
    for _ in range(4):  # such as Compose, then the time of the engine, then JSON
        if line.text.startswith("{") and (fields := _fields(line.text)):
            message = _first(fields, "message")
            wrapped = _Line(message.rstrip("\n"), line.label or _first(fields, "label"), _first(fields, "at") or None)
            if "log" not in fields or _first(fields, "logger"):
                line.fields, line.label = fields, wrapped.label
                return line
            line = wrapped  # a container engine wraps each line
            continue
        line.head = next(((x, m) for x in LAYOUTS if (m := x.first.match(line.text))), None)
        match = next((m for prefix in PREFIXES if (m := prefix.match(line.text))), None) if line.head is None else None
        if match is None:
            break
        groups = match.groupdict()
        line.text = line.text[match.end() :]
        line.label = " ".join(filter(None, (line.label, groups.get("label"))))
        line.outer = groups.get("outer") or line.outer
        line.partial |= groups.get("tag") == "P"
    line.head = line.head or _head(line)
    return line


def _fields(text: str) -> dict[str, Any] | None:
    """Return the values of a JSON object by dotted name; None if the text is none, or no entry of a log."""
    try:
        data = json.loads(text)
    except ValueError:
        return None
    fields = dict(_flat("", data)) if isinstance(data, dict) else {}
    return fields if _first(fields, "message") and ("instant.epochSecond" in fields or _first(fields, "at")) else None


def _flat(prefix: str, data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


def _first(fields: Mapping[str, Any], part: str) -> str:
    """Return the first value of a part of an entry as text; empty if the object has none."""
    found = next((fields[key] for key in _JSON_KEYS[part] if fields.get(key) is not None), "")
    return found if isinstance(found, str) else repr(found)


HEAD_LINES = 2000
"""Number of non-empty lines that decide whether a file is a log."""
MAX_LINE = 64 * 1024
"""Characters of a line that are read; the rest of a longer line is dropped."""

_LOG = re.compile(r"(\.(log|out|txt|jsonl?|ndjson)([.-][\w.-]+)?(\.gz)?)\Z", re.IGNORECASE)
_SEGMENT = re.compile(r"\d{20}\.(log|index|timeindex|snapshot)")
"""Files of records in a data folder of a broker: they are named like logs."""
_IRRELEVANT = re.compile(
    r"(^|[-_.])(gc|log-cleaner|kafka-authorizer|kafka-request|reaper|verbs|zookeeper|checks|crash)[-_.]"
)
"""Logs in the same folder without events: of garbage collection, of the log cleaner, of single requests, ..."""
BROKER_FILE = re.compile(r"(server|controller|state-change|kafkaServer)\.")
_LIBRDKAFKA = re.compile(r"%\d\|\d+\.\d+\|")
_ENCODINGS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}
"""Encodings by byte order mark; PowerShell writes UTF-16."""


@dataclass(frozen=True)
class LogFile:
    """One log file. `name` is its path inside the folder; `librdkafka`: it is the log of such a client."""

    path: Path
    name: str
    librdkafka: bool = False


@dataclass
class LogFolder:
    """The log files of a folder. `problems` are notes for the user; reading a truncated file adds one."""

    logs: list[LogFile] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def lines(self, path: Path, name: str) -> Iterator[str]:
        """Yield the lines of a file without line ends. A truncated gzip file ends early and adds a problem.

        Raises `UsageError` if the file cannot be read or decompressed.
        """
        number = 0
        try:
            with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
                for line in _decoded(cast(BinaryIO, stream)):
                    number += 1
                    yield line[:MAX_LINE].rstrip("\r\n")
        except (EOFError, zlib.error, OSError) as e:
            if isinstance(e, OSError) and not isinstance(e, gzip.BadGzipFile):
                raise UsageError(f"{name} cannot be read: {e.strerror}") from None
            if number == 0:
                raise UsageError(f"{name} cannot be decompressed: {e}; fetch it again, or leave it out") from None
            problem = f"{name} is cut short after line {number:,}"
            if problem not in self.problems:
                self.problems.append(problem)


def _decoded(stream: BinaryIO) -> io.TextIOWrapper:
    start = stream.read(4)
    stream.seek(0)
    encoding = next((name for mark, name in _ENCODINGS.items() if start.startswith(mark)), "utf-8")
    # a lone carriage return is no line end: it may stand inside a message
    return io.TextIOWrapper(stream, encoding, errors="replace", newline="\n")


def find_logs(folder: Path) -> LogFolder:
    """Return the logs below a folder, or the log that a path names. Raises `UsageError` if none is a log."""
    if not folder.exists():
        raise UsageError(f"{folder} does not exist; give a folder with the logs of the brokers, or one log")
    root = folder if folder.is_dir() else folder.parent
    named = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if p.is_file())
    candidates = [p for p in named if p == folder or (_LOG.search(p.name) and not _SEGMENT.match(p.name))]
    result = LogFolder()
    unknown: list[str] = []
    for path in candidates:
        name = str(path.relative_to(root))
        if path != folder and _IRRELEVANT.search(path.name):
            result.skipped.append(name)
            continue
        lines = _first_lines(path, name, result)
        if not lines:
            result.skipped.append(f"{name} (empty)")
        elif any(is_entry(line) for line in lines):
            result.logs.append(LogFile(path, name))
        elif any(_LIBRDKAFKA.match(line) for line in lines):
            result.logs.append(LogFile(path, name, librdkafka=True))
        else:
            result.skipped.append(name)
            if not _is_no_broker(path):
                unknown.append(f"{name}: {_why_unknown(lines)}")
    if not result.logs:
        examined = f"{len(candidates)} files examined" if candidates else "no file has the name of a log"
        reason = f"; {unknown[0]}" if unknown else ""
        raise UsageError(
            f"{folder}: no log of a broker in it ({examined}{reason}); expected server.log, controller.log or "
            "state-change.log, as they are, rotated, compressed by gzip, or from Compose, kubectl or journalctl"
        )
    result.problems += [f"{reason}; it is left out" for reason in unknown]
    return result


def _first_lines(path: Path, name: str, result: LogFolder) -> list[str]:
    lines: list[str] = []
    for line in result.lines(path, name):
        if line.strip("\0 \t"):
            lines.append(line)
        if len(lines) >= HEAD_LINES:
            break
    return lines


def _why_unknown(lines: list[str]) -> str:
    binary = sum(line.count("\0") + line.count("\ufffd") for line in lines)
    if binary > sum(map(len, lines)) / 10:
        return "it is not text"
    return f"no line has a known layout; expected {EXPECTED}"


def _is_no_broker(path: Path) -> bool:
    """Return whether the file is a note, or a log in a run directory of a client or a tool."""
    of_a_run = (path.parent.parent / "resolved.json").is_file() and not path.name.startswith("broker-")
    return of_a_run or (path.suffix in (".txt", ".json") and not BROKER_FILE.match(path.name))
