"""Who speaks: from the connections of a tap to the processes behind them, and to the names that reports have.

All clients come to the addresses of one front, so a process is what connections have in common: the host, the process
id if it is one of this machine, and the client id. Where all connections of a process closed and others came later, it
is the same process if it goes on as a member or as a producer that it was before, and another one if not.

A process of this machine is looked up when the first bytes of its connection are read. A connection that has closed by
then is the process that speaks as the same member or producer, else the only one with its client id at that time. Where
there are several, nothing of their groups is decided.

Two members of one group at a time with all of that in common cannot be told apart: then nothing of the group is
decided.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from chaos.setup.names import MOST_OF_ENTRY

OPEN_US = 1 << 62
NAME_LENGTH = MOST_OF_ENTRY - 3
"""Most characters of a group or client id in a name; the others are for groups that are equal once shortened."""


@dataclass
class Connection:
    """What one connection has shown.

    pid: the process of this machine, 0 if this user may not see it, None if it is not known (another machine, or
    closed when it was looked up). members: first and last time at which a member of a group spoke here, by both.
    """

    number: int
    host: str
    opened_us: int
    pid: int | None = None
    client: str = ""
    library: str = ""
    works: bool = False
    """Whether it did more than to ask for versions, brokers and topics, as each client does on its first connection."""
    closed_us: int = OPEN_US
    members: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    in_transactions: set[tuple[str, str]] = field(default_factory=set)
    """Groups and members for which a producer committed offsets in a transaction."""
    producers: set[int] = field(default_factory=set)

    @property
    def key(self) -> tuple[str, int, str]:
        """What connections of one process have in common."""
        return self.host, self.pid or 0, self.client

    def spoke(self, group: str, member: str, at_us: int) -> None:
        """Note that a member spoke."""
        times = self.members.setdefault((group, member), [at_us, at_us])
        times[1] = max(times[1], at_us)


@dataclass
class Process:
    """The connections of one process."""

    connections: list[Connection]

    @property
    def opened_us(self) -> int:
        """When the first connection opened."""
        return min(c.opened_us for c in self.connections)

    @property
    def closed_us(self) -> int:
        """When the last connection closed."""
        return max(c.closed_us for c in self.connections)

    @property
    def members(self) -> dict[tuple[str, str], list[int]]:
        """First and last time of each member, by group and member."""
        found: dict[tuple[str, str], list[int]] = {}
        for connection in self.connections:
            for key, (first, last) in connection.members.items():
                times = found.setdefault(key, [first, last])
                times[:] = min(times[0], first), max(times[1], last)
        return found

    @property
    def groups(self) -> set[str]:
        """The groups of which it is a member."""
        return {group for group, _ in self.members}

    def goes_on_as(self, other: Process) -> bool:
        """Return whether a later process is the same one: it is a member or a producer that this one was."""
        producers = set().union(*(c.producers for c in self.connections))
        later = set().union(*(c.producers for c in other.connections))
        return bool(producers & later or self.members.keys() & other.members.keys())

    def absorb(self, other: Process) -> None:
        """Take the connections of another process."""
        self.connections += other.connections


def processes(connections: Iterable[Connection]) -> list[Process]:
    """Return the processes of some connections, in the order in which they were seen first."""
    working = [c for c in connections if c.works]
    _look_up_closed(working)
    by_key: dict[tuple[str, int, str], list[Connection]] = defaultdict(list)
    for connection in working:
        by_key[connection.key].append(connection)
    found = [process for of_key in by_key.values() for process in _in_turn(of_key)]
    return sorted(_joined(found), key=lambda process: process.opened_us)


def _look_up_closed(connections: list[Connection]) -> None:
    """Give the connections that closed before their process was looked up the process that they can only be."""
    known = _by_client(connections)
    for connection in connections:
        if connection.pid is None:
            candidates = _candidates(connection, known[connection.host, connection.client])
            if len(candidates) == 1:
                connection.pid = candidates[0].connections[0].pid


def _by_client(connections: Iterable[Connection]) -> dict[tuple[str, str], list[Process]]:
    """Return the processes with a process id, by host and client id."""
    of_pid: dict[tuple[str, int, str], Process] = {}
    for connection in connections:
        if connection.pid is not None:
            of_pid.setdefault(connection.key, Process([])).connections.append(connection)
    found: dict[tuple[str, str], list[Process]] = defaultdict(list)
    for (host, _, client), process in of_pid.items():
        found[host, client].append(process)
    return found


def _candidates(connection: Connection, known: list[Process]) -> list[Process]:
    """Return the processes that a connection without process id may be of: the one that goes on as it, or all then."""
    own = Process([connection])
    certain = [process for process in known if process.goes_on_as(own)]
    at_that_time = [p for p in known if p.opened_us <= connection.closed_us and connection.opened_us <= p.closed_us]
    return certain or at_that_time


def _in_turn(connections: list[Connection]) -> list[Process]:
    """Return the processes with one key, one after the other. With a process id, there is one."""
    found: list[Process] = []
    for connection in sorted(connections, key=lambda c: c.opened_us):
        own = Process([connection])
        if found and (connection.pid or connection.opened_us <= found[-1].closed_us):
            found[-1].absorb(own)
        else:
            found.append(own)
    merged: list[Process] = []
    for process in found:
        if merged and merged[-1].goes_on_as(process):
            merged[-1].absorb(process)
        else:
            merged.append(process)
    return merged


def _joined(found: list[Process]) -> list[Process]:
    """Join a producer with the consumer for which it commits offsets in transactions."""
    owner = {key: process for process in found for key in process.members}
    left = []
    for process in found:
        asked = {key for c in process.connections for key in c.in_transactions if key[1]}
        own = {id(owner[key]): owner[key] for key in asked if key in owner}
        if not process.members and len(own) == 1:
            next(iter(own.values())).absorb(process)
        else:
            left.append(process)
    return left


def ambiguous(found: Iterable[Process]) -> dict[str, str]:
    """Return the groups where it is not certain which process spoke, each with a sentence.

    They have two members at a time in one process, or a connection that may be of several processes.
    """
    found = [*found]
    whys = _unknown(found)
    for process in found:
        by_group: dict[str, list[list[int]]] = defaultdict(list)
        for (group, _), times in process.members.items():
            by_group[group].append(times)
        for group, of_members in by_group.items():
            if any(later[0] < earlier[1] for earlier, later in pairwise(sorted(of_members))):
                c = process.connections[0]
                whys[group] = (
                    f"several members of group {group} speak from {c.host} with the client id {c.client!r}, and cannot "
                    "be told apart; give each process its own client.id, or run the tap on the machine and as the user "
                    "of the applications"
                )
    return whys


def _unknown(found: list[Process]) -> dict[str, str]:
    """Return the groups that a connection without process id may be of, where several processes are possible."""
    whys = {}
    every = [connection for process in found for connection in process.connections]
    known = _by_client(every)
    for connection in every:
        candidates = (
            [] if connection.pid is not None else _candidates(connection, known[connection.host, connection.client])
        )
        if len(candidates) > 1:
            for group in sorted(set().union(*(process.groups for process in candidates))):
                whys[group] = (
                    f"a connection from {connection.host} with the client id {connection.client!r} closed before its "
                    f"process was looked up, and {len(candidates)} processes had that client id then, so it is not "
                    f"known which of them read for group {group}; give each process its own client.id"
                )
    return whys


def entry_name(process: Process) -> str:
    """Return the name of a process without its number: its group if it has one, else its client id."""
    groups = sorted(process.groups)
    text = groups[0] if len(groups) == 1 else process.connections[0].client
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:NAME_LENGTH].strip("-_")
    return plain or "client"


def named(found: Iterable[Process]) -> dict[str, Process]:
    """Return the processes by name, such as `billing/1`, numbered in the order in which they came."""
    counts: dict[str, int] = defaultdict(int)
    entries: dict[tuple[str, ...], str] = {}
    names = {}
    for process in found:
        entry = entry_name(process)
        of_entry = tuple(sorted(process.groups)) if len(process.groups) == 1 else ("",)
        while entries.setdefault((entry,), "\0".join(of_entry)) != "\0".join(of_entry):
            entry += "x"  # two groups with names that are equal once shortened
        counts[entry] += 1
        names[f"{entry}/{counts[entry]}"] = process
    return names
