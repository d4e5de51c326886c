"""Log files of a folder: plain, compressed or rotated, in any encoding that a shell writes."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from chaos.errors import UsageError
from chaos.incident.logs.entries import EXPECTED, is_entry

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
    """Return the logs below a folder, or the one that a path names. Raises `UsageError` if none is a log."""
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
        lines = _head(path, name, result)
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


def _head(path: Path, name: str, result: LogFolder) -> list[str]:
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
