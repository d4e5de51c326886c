"""Which files of a folder are logs, whose they are, and how to read them: plain, compressed, rotated."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.errors import UsageError
from chaos.incident.logs.layouts import EXPECTED, Layout, layout_of

HEAD_LINES = 2000
"""So many lines are looked at to know a file's layout and whose it is."""
MOST_LINE = 64 * 1024
"""Characters of a line that are read; a longer one is cut."""

_LOG = re.compile(r"\.(log|out|txt)([.-][\w.-]+)?(\.gz)?\Z", re.IGNORECASE)
_OTHER = re.compile(
    r"(^|[-_.])(gc|log-cleaner|kafka-authorizer|kafka-request|reaper|verbs|zookeeper|checks|crash)[-_.]"
)
"""Logs that lie beside and tell nothing about this: of garbage collection, of the log cleaner, of each request, ..."""
_BROKERS_OWN = re.compile(r"(server|controller|state-change|kafkaServer)\.")
_IDENTITY = re.compile(
    r"\[(?:KafkaServer|BrokerServer|BrokerLifecycleManager|ControllerServer|SharedServer|QuorumController|Controller|"
    r"Broker|GroupCoordinator|TransactionCoordinator|KafkaApi|RaftManager)[ -](?:id=|nodeId=)?(\d+)"
    r"|\[ReplicaManager broker=(\d+)|\[Partition \S+ broker=(\d+)|^\s*(?:broker\.id|node\.id) = (\d+)\s*$"
)
_LIBRDKAFKA = re.compile(r"%\d\|\d+\.\d+\|")
NOT_A_BROKER = 0
"""The node of a file that is not a broker's: a client's own log."""


@dataclass(frozen=True)
class LogFile:
    """One file. `name` is its path inside the folder; `layout` is None for the log of a librdkafka client."""

    path: Path
    name: str
    layout: Layout | None
    node: int


@dataclass
class Found:
    """The files of a folder. `cut` is what is to be told of them, and grows while they are read."""

    logs: list[LogFile] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)

    @property
    def brokers(self) -> list[int]:
        """The nodes that have a log."""
        return sorted({log.node for log in self.logs} - {NOT_A_BROKER})


def find(folder: Path) -> Found:
    """The logs below a folder. Raises `UsageError` where there are none, or one is laid out in an unknown way."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; give one with the logs of the brokers, one folder or file each")
    candidates = sorted(p for p in folder.rglob("*") if p.is_file() and _LOG.search(p.name))
    found = Found()
    heads: list[tuple[Path, str, list[str]]] = []
    for path in candidates:
        name = str(path.relative_to(folder))
        if _OTHER.search(path.name):
            found.skipped.append(name)
        elif lines := _head(path, name, found):
            heads.append((path, name, lines))
        else:
            found.skipped.append(f"{name} (empty)")
    known = {path: _identity(lines) for path, _, lines in heads}
    for path, name, lines in heads:
        layout = layout_of(lines)
        if layout is None and not any(_LIBRDKAFKA.match(line) for line in lines):
            if _is_of_a_run(path) or (path.suffix == ".txt" and not _BROKERS_OWN.match(path.name)):
                found.skipped.append(name)  # a client of ours, or a note: it is for people
                continue
            raise UsageError(f"{name}: no line of it is laid out in a known way; expected {EXPECTED}")
        node = NOT_A_BROKER if layout is None else known[path] or _of_siblings(path, known) or _of_name(name)
        found.logs.append(LogFile(path, name, layout, node))
    _number(found)
    if not found.brokers:
        looked = f"{len(candidates)} files looked at" if candidates else "no file is named like one"
        raise UsageError(
            f"{folder}: no log of a broker in it ({looked}); expected server.log, controller.log or state-change.log, "
            "as they are, rotated or compressed by gzip, one folder or file for each broker"
        )
    return found


def _number(found: Found) -> None:
    """Logs of brokers, by their names, that nowhere tell whose they are: each folder gets a number that is free."""
    folders: dict[Path, int] = {}
    for i, log in enumerate(found.logs):
        if log.node == NOT_A_BROKER and log.layout is not None and _BROKERS_OWN.match(log.path.name):
            if log.path.parent not in folders:
                folders[log.path.parent] = max([0, *found.brokers, *folders.values()]) + 1
                found.cut.append(
                    f"{log.name} does not tell whose it is; it was taken for broker {folders[log.path.parent]}'s"
                )
            found.logs[i] = replace(log, node=folders[log.path.parent])


def lines_of(file: Path, name: str, found: Found) -> Iterator[str]:
    """Every line, without its end. A compressed file that is cut short ends early and is noted in `found.cut`."""
    number = 0
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            for raw in stream:
                number += 1
                yield raw[:MOST_LINE].decode("utf-8", errors="replace").rstrip("\r\n")
    except (EOFError, zlib.error, OSError) as e:
        if isinstance(e, OSError) and not isinstance(e, gzip.BadGzipFile):
            raise UsageError(f"{name} cannot be read: {e.strerror}") from None
        if number == 0:
            raise UsageError(f"{name} cannot be decompressed: {e}; fetch it again, or leave it out") from None
        note = f"{name} is cut short after line {number:,}"
        if note not in found.cut:
            found.cut.append(note)


def _head(path: Path, name: str, found: Found) -> list[str]:
    lines = []
    for line in lines_of(path, name, found):
        if "\0" in line:
            raise UsageError(f"{name} is not text; expected a log whose lines are laid out as {EXPECTED}")
        if line.strip():
            lines.append(line)
        if len(lines) >= HEAD_LINES:
            break
    return lines


def _identity(lines: list[str]) -> int:
    """The node that most lines name as their own; 0 where none does."""
    counts: dict[int, int] = {}
    for line in lines:
        if match := _IDENTITY.search(line):
            node = int(next(group for group in match.groups() if group))
            counts[node] = counts.get(node, 0) + 1
    return max(counts, key=lambda node: (counts[node], -node)) if counts else NOT_A_BROKER


def _of_siblings(path: Path, known: dict[Path, int]) -> int:
    """Of a rotated file: whoever the same log belongs to, else the whole folder if that is one broker's."""
    stem = path.name.split(".")[0]
    same = {node for p, node in known.items() if p.parent == path.parent and p.name.split(".")[0] == stem and node}
    folder = {node for p, node in known.items() if p.parent == path.parent and node}
    return next(iter(same)) if len(same) == 1 else next(iter(folder)) if len(folder) == 1 else NOT_A_BROKER


def _of_name(name: str) -> int:
    """A number in the name, such as that of kafka-2/server.log, if the name is one that brokers' logs have."""
    if not re.search(r"(broker|kafka|server|controller|state-change|node)", name):
        return NOT_A_BROKER
    digits = re.search(r"(?:broker|kafka|server|controller|node)[-_.]?(\d+)", name)
    return int(digits[1]) if digits else NOT_A_BROKER


def _is_of_a_run(path: Path) -> bool:
    """Whether it lies in logs/ of a run directory of Aftershock."""
    return (path.parent.parent / "resolved.json").is_file() and not path.name.startswith("broker-")
