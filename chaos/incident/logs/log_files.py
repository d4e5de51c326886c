"""Log files of a folder: plain, compressed or rotated, each with its layout and its broker."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.errors import UsageError
from chaos.incident.logs.entries import EXPECTED, Layout, layout_of

HEAD_LINES = 2000
"""Number of non-empty lines that decide the layout and the broker of a file."""
MAX_LINE = 64 * 1024
"""Bytes of a line that are read; the rest of a longer line is dropped."""
NOT_A_BROKER = 0
"""Node of a file that belongs to a client."""

_LOG = re.compile(r"\.(log|out|txt)([.-][\w.-]+)?(\.gz)?\Z", re.IGNORECASE)
_IRRELEVANT = re.compile(
    r"(^|[-_.])(gc|log-cleaner|kafka-authorizer|kafka-request|reaper|verbs|zookeeper|checks|crash)[-_.]"
)
"""Logs in the same folder without events: of garbage collection, of the log cleaner, of single requests, ..."""
_BROKER_FILE = re.compile(r"(server|controller|state-change|kafkaServer)\.")
_NODE_IN_LINE = re.compile(
    r"\[(?:KafkaServer|BrokerServer|BrokerLifecycleManager|ControllerServer|SharedServer|QuorumController|Controller|"
    r"Broker|GroupCoordinator|TransactionCoordinator|KafkaApi|RaftManager)[ -](?:id=|nodeId=)?(\d+)"
    r"|\[ReplicaManager broker=(\d+)|\[Partition \S+ broker=(\d+)|^\s*(?:broker\.id|node\.id) = (\d+)\s*$"
)
_NODE_IN_NAME = re.compile(r"(?:broker|kafka|server|controller|node)[-_.]?(\d+)")
_LIBRDKAFKA = re.compile(r"%\d\|\d+\.\d+\|")


@dataclass(frozen=True)
class LogFile:
    """One log file. `name` is its path inside the folder; `layout` is None for the log of a librdkafka client."""

    path: Path
    name: str
    layout: Layout | None
    node: int


@dataclass
class LogFolder:
    """The log files of a folder. `problems` are notes for the user; reading a truncated file adds one."""

    logs: list[LogFile] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def brokers(self) -> list[int]:
        """The nodes with a log, in order."""
        return sorted({log.node for log in self.logs} - {NOT_A_BROKER})

    def lines(self, path: Path, name: str) -> Iterator[str]:
        """Yield the lines of a file without line ends. A truncated gzip file ends early and adds a problem.

        Raises `UsageError` if the file cannot be read or decompressed.
        """
        number = 0
        try:
            with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
                for raw in stream:
                    number += 1
                    yield raw[:MAX_LINE].decode("utf-8", errors="replace").rstrip("\r\n")
        except (EOFError, zlib.error, OSError) as e:
            if isinstance(e, OSError) and not isinstance(e, gzip.BadGzipFile):
                raise UsageError(f"{name} cannot be read: {e.strerror}") from None
            if number == 0:
                raise UsageError(f"{name} cannot be decompressed: {e}; fetch it again, or leave it out") from None
            problem = f"{name} is cut short after line {number:,}"
            if problem not in self.problems:
                self.problems.append(problem)


def find_logs(folder: Path) -> LogFolder:
    """Return the logs below a folder. Raises `UsageError` if there are none or one has an unknown layout."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; give one with the logs of the brokers, one folder or file each")
    candidates = sorted(p for p in folder.rglob("*") if p.is_file() and _LOG.search(p.name))
    result = LogFolder()
    heads: dict[Path, list[str]] = {}
    for path in candidates:
        name = str(path.relative_to(folder))
        if _IRRELEVANT.search(path.name):
            result.skipped.append(name)
        elif lines := _head(path, name, result):
            heads[path] = lines
        else:
            result.skipped.append(f"{name} (empty)")
    nodes = {path: _node_in_lines(lines) for path, lines in heads.items()}
    for path, lines in heads.items():
        name, layout = str(path.relative_to(folder)), layout_of(lines)
        if layout is None and not any(_LIBRDKAFKA.match(line) for line in lines):
            if _is_of_a_run(path) or (path.suffix == ".txt" and not _BROKER_FILE.match(path.name)):
                result.skipped.append(name)  # the log of an Aftershock client, or a note
                continue
            raise UsageError(f"{name}: no line has a known layout; expected {EXPECTED}")
        node = NOT_A_BROKER if layout is None else nodes[path] or _node_of_siblings(path, nodes) or _node_in_name(name)
        result.logs.append(LogFile(path, name, layout, node))
    _assign_free_nodes(result)
    if not result.brokers:
        examined = f"{len(candidates)} files examined" if candidates else "no file has the name of a log"
        raise UsageError(
            f"{folder}: no log of a broker in it ({examined}); expected server.log, controller.log or "
            "state-change.log, as they are, rotated or compressed by gzip, one folder or file for each broker"
        )
    return result


def _assign_free_nodes(result: LogFolder) -> None:
    """Give each folder with broker logs that name no broker a number that is free."""
    folders: dict[Path, int] = {}
    for i, log in enumerate(result.logs):
        if log.node == NOT_A_BROKER and log.layout is not None and _BROKER_FILE.match(log.path.name):
            parent = log.path.parent
            if parent not in folders:
                folders[parent] = max([0, *result.brokers, *folders.values()]) + 1
                result.problems.append(
                    f"{log.name} does not name its broker; it is read as the log of broker {folders[parent]}"
                )
            result.logs[i] = replace(log, node=folders[parent])


def _head(path: Path, name: str, result: LogFolder) -> list[str]:
    lines: list[str] = []
    for line in result.lines(path, name):
        if "\0" in line:
            raise UsageError(f"{name} is not text; expected a log in a layout that is {EXPECTED}")
        if line.strip():
            lines.append(line)
        if len(lines) >= HEAD_LINES:
            break
    return lines


def _node_in_lines(lines: list[str]) -> int:
    """Return the node that most lines name as the writer; 0 if none does."""
    matches = (match for line in lines if (match := _NODE_IN_LINE.search(line)))
    counts = Counter(int(next(filter(None, match.groups()))) for match in matches)
    return max(counts, key=lambda node: (counts[node], -node)) if counts else NOT_A_BROKER


def _node_of_siblings(path: Path, nodes: dict[Path, int]) -> int:
    """Return the only node of files with the same stem, such as rotated ones, else that of the folder; else 0."""
    siblings = {p: node for p, node in nodes.items() if p.parent == path.parent and node}
    same_stem = {node for p, node in siblings.items() if p.name.split(".")[0] == path.name.split(".")[0]}
    for candidates in (same_stem, set(siblings.values())):
        if len(candidates) == 1:
            return candidates.pop()
    return NOT_A_BROKER


def _node_in_name(name: str) -> int:
    """Return the number in a path such as kafka-2/server.log; 0 if there is none."""
    match = _NODE_IN_NAME.search(name)
    return int(match[1]) if match else NOT_A_BROKER


def _is_of_a_run(path: Path) -> bool:
    """Return whether the file is a log in a run directory, except that of a broker."""
    return (path.parent.parent / "resolved.json").is_file() and not path.name.startswith("broker-")
