"""The clients of a run as the fleet sees them: each incarnation with its process, its last progress and its end."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from chaos.errors import ClientError, WaitTimeout
from chaos.fleet.process import ClientProcess
from chaos.kafka.partition import TopicPartition
from chaos.processes.usage import UsageMeter
from chaos.scenario.model import Scenario
from chaos.setup.clients import Assign, Entry, Producer, StartAt
from chaos.wait import wait_until

MAX_ERRORS = 200
"""Errors that are kept of a client; a program may flood its stdout."""
MAX_WORDS = 400
_FRAME = re.compile(
    r"\s*$|\s+at |\s*File \"|\s+\^|\s{4,}|\.\.\. \d+ more|Traceback |During handling|The above exception|goroutine \d|"
    r"created by |\s*\S+\.go:\d+|[\w./*()]+\(.*\)$|exit status|Driver stacktrace"
)
"""Lines of a stack trace, in Python, Java and Go."""
_CLASS = re.compile(r"(?:Exception in thread \S+ )?(?:[a-z_]\w*\.)*([A-Z]\w*)(?::\s+|\()")
_PLAIN = {"ClientError", "IllegalStateException", "IllegalArgumentException", "KafkaException", "KafkaError"} | {
    *("Exception", "Error", "RuntimeException", "RuntimeError", "ValueError", "ExecutionException")
}
"""Classes of errors with names that say nothing."""
_STAMP = re.compile(r"(?:\d{16}|\d{4}-\d\d-\d\d[ T][\d:,.]+Z?|\[[^\]]*\]|ERROR|FATAL|panic:|fatal error:) *")
_SECRET = re.compile(r"(?i)((?:password|secret|access_?token)\w*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;)}]+)")


def last_words(errors: Sequence[str], log: Sequence[str]) -> str:
    """Return the error that ended a client, as its library words it: one line without stack frames and secrets.

    errors: what the client reported, last one last. log: the last lines of its log, which decide without a report, and
    where the process had no memory left and could not report. Empty if neither says anything.
    """
    lines = [line for line in log if not _FRAME.match(line)]
    memory = [line for line in lines if "OutOfMemoryError" in line or "out of memory" in line]
    reported = [line for line in errors[-1].splitlines() if not _FRAME.match(line)] if errors and not memory else []
    causes = [line.partition("Caused by:")[2].strip() for line in lines if line.startswith("Caused by:")]
    panics = [line for line in lines if line.startswith(("panic:", "fatal error:"))]
    text = next(iter(memory[-1:] or reported[:1] or causes[-1:] or panics[-1:] or lines[-1:]), "")
    while (stamp := _STAMP.match(text)) and stamp.end():
        text = text[stamp.end() :]
    while (name := _CLASS.match(text)) and name[1] in _PLAIN and ":" in name[0]:
        text = text[name.end() :]
    if (name := _CLASS.match(text)) and ":" in name[0]:
        text = text[name.start(1) :]  # without its package
    if said := re.search(r"KafkaError\{.*?str=\"(.*)\"\}", text):
        text = said[1]
    text = " ".join(_SECRET.sub(r"\1…", text).split()).rstrip(".")
    return text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]}…"


class ClientState:
    """One incarnation of a client. Its methods are thread-safe.

    Clients that are threads of one process are `mates`: each has a state, and they share the process and its exit.

    asked_to_end: the fleet ordered the client to stop, or killed it.
    killed_for: why the fleet killed the client; empty if it did not.
    exit_lines: last lines of the log at an exit without an order or a kill from the fleet.
    last_error: the last error that it reported, empty if it reported none.
    superseded: the fleet started the next incarnation while this one ran, which ends this one.
    """

    def __init__(self, client: str, role: str, incarnation: int, process: ClientProcess) -> None:
        self.client, self.role, self.incarnation, self.log = client, role, incarnation, process.log
        self.process = process
        self.mates: list[ClientState] = [self]
        self.started = threading.Event()
        self.gone = threading.Event()
        self.exit_code: int | None = None
        self.asked_to_end = False
        self.killed_for = ""
        self.superseded = False
        self.exit_lines: list[str] = []
        self.errors: list[str] = []
        self.last_error = ""
        self._lock = threading.Lock()
        self._progress: dict[str, Any] = {}
        self._shown_us: int | None = None

    @property
    def meter(self) -> UsageMeter:
        """The meter of the process, which mates share."""
        return self.process.meter

    @property
    def alive(self) -> bool:
        """Whether the fleet has not yet seen the process end."""
        return not self.gone.is_set()

    def progress(self) -> dict[str, Any]:
        """Return the last progress event; empty before the first."""
        with self._lock:
            return self._progress

    def count(self, name: str) -> int:
        """Return a count from the last progress event; 0 before the first."""
        return int(self.progress().get(name, 0))

    def assigned(self) -> list[str]:
        """Return the assigned partitions as `topic/partition`; empty if the client is gone."""
        return list(self.progress().get("assigned", [])) if self.alive else []

    def positions(self) -> dict[str, int]:
        """Return the next offset of each assigned partition; empty if the client is gone."""
        return dict(self.progress().get("positions", {})) if self.alive else {}

    def task_managers(self) -> dict[str, str]:
        """Return the task manager that reads each assigned `topic/partition`, of a job in a session cluster."""
        return dict(self.progress().get("task_managers", {})) if self.alive else {}

    def throttled(self) -> dict[str, tuple[int, int]]:
        """Return the number of throttled responses, and the longest time in ms, by side: producer or consumer."""
        sides: dict[str, list[int]] = self.progress().get("throttled", {})
        return {side: (responses, longest_ms) for side, (responses, longest_ms) in sides.items()}

    def listen(self, on_exit: Callable[[ClientState], None]) -> None:
        """Read events in a thread until the process exits; then call `on_exit` with this state and each mate."""
        name = f"{self.client}.{self.incarnation}"
        threading.Thread(target=self._listen, args=(on_exit,), name=name, daemon=True).start()

    def _listen(self, on_exit: Callable[[ClientState], None]) -> None:
        try:
            for line in self.process.read_events():
                self._receive(line)
            exit_code = self.process.wait()
            for mate in self.mates:
                mate.exit_code = exit_code
                on_exit(mate)
        finally:
            for mate in self.mates:
                mate.gone.set()

    def _receive(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, client = event.pop("event"), event.pop("client", self.client)
        except (ValueError, KeyError, AttributeError, TypeError):  # cut by a SIGKILL, or not of the protocol
            self._add_error("not an event" if self.process.hidden else f"not an event: {line[:200]!r}")
            return
        for mate in [m for m in self.mates if m.client == client]:
            mate._apply(kind, event)

    def _apply(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "started":
            self.meter.mark_started()
            self.started.set()
        elif kind == "progress":
            with self._lock:
                self._progress = event
        elif kind == "clock":
            self._shown_us = int(event["shown_us"])
        elif kind == "error":
            self.last_error = str(event.get("detail"))
            self._add_error(self.last_error)

    def _add_error(self, text: str) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(text)

    def order(self, order: dict[str, Any]) -> None:
        """Send an order. Raises `ClientError` if the client is gone."""
        if len(self.mates) > 1:
            order = {**order, "client": self.client}
        try:
            self.process.write(json.dumps(order).encode() + b"\n")
        except (BrokenPipeError, ValueError):
            raise ClientError(f"{self.client} is gone and takes no order; see {self.log}") from None

    def shown_us(self, timeout_s: float) -> int | None:
        """Ask the client what its clock shows, in microseconds since the epoch; None without an answer in time."""
        self._shown_us = None
        self.order({"do": "clock"})
        try:
            return wait_until(lambda: self._shown_us, timeout_s, "", every_s=0.005)
        except WaitTimeout:
            return None

    def kill(self, timeout_s: float) -> None:
        """Send SIGKILL and wait for the exit. Raises `ClientError` after `timeout_s`."""
        self.process.signal(signal.SIGKILL)
        if not self.gone.wait(timeout_s):
            raise ClientError(f"{self.client} (process {self.process.pid}) does not end after SIGKILL")

    def own_error(self) -> str:
        """Return the error that ended the client, see `last_words`; else how its process ended."""
        code = self.exit_code or 0
        killed = code < 0  # then an earlier error is not why
        if words := last_words([self.last_error] if self.last_error and not killed else [], self.exit_lines):
            return words
        how = f"signal {-code}" if killed else f"exit code {code}"
        return how if self.process.hidden else f"{how}, and its log is empty"

    def describe_exit(self) -> str:
        """Return a sentence about an unexpected exit: the client's own error, and where to look."""
        again = f" (incarnation {self.incarnation})" if self.incarnation > 1 else ""
        return f"{self.client}{again} died: {self.own_error()}; see logs/{self.log.name}"

    def last_lines(self) -> list[str]:
        """Return the last lines of the log; empty if it is not readable, or not to be shown."""
        return self.process.last_lines()


class Roster:
    """The clients of a scenario with all their incarnations. Its methods are thread-safe.

    A client is `<entry>/<number>`, numbered from 1. Counts include earlier incarnations. The counts of a killed
    incarnation come from its last progress event, so they may miss its last 100 ms. Methods that take a client raise
    `ClientError` if it does not exist.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._readers = scenario.readers
        self._lock = threading.RLock()
        self._incarnations: dict[str, list[ClientState]] = {}
        self._entries: dict[str, Entry] = {entry.name: entry for entry in scenario.entries}

    def clients(self, entry: str) -> list[str]:
        """Return the names of an entry's clients. Raises `ClientError` if the scenario has no such entry."""
        if entry not in self._entries:
            raise ClientError(f"the scenario has no client entry {entry!r} (known: {', '.join(self._entries)})")
        found = self._entries[entry]
        count = found.count if isinstance(found, Producer) else found.members
        return [f"{entry}/{number}" for number in range(1, count + 1)]

    def present(self, entry: str) -> list[str]:
        """Return the names of an entry's clients that were started; a client that joins later is left out."""
        with self._lock:
            return [client for client in self.clients(entry) if client in self._incarnations]

    def state(self, client: str) -> ClientState:
        """Return the current or last incarnation of a client."""
        with self._lock:
            states = self._incarnations.get(client)
            if not states:
                known = ", ".join(sorted(self._incarnations)) or "none yet"
                raise ClientError(f"there is no client {client} (known: {known})")
            return states[-1]

    def check(self) -> None:
        """Raise `ClientError` if something ended that nobody ended; every wait calls it."""

    def wait_assigned(self, timeout_s: float) -> None:
        """Wait until each group holds every partition exactly once, and each assign consumer holds all its partitions.

        Assign consumers that start at an offset or a time are left out: they may wait for it. Raises `WaitTimeout`, and
        `ClientError` as `check`.
        """
        wait_until(
            lambda: not self._unassigned(),
            timeout_s,
            lambda: f"not all partitions are assigned: {'; '.join(self._unassigned())}",
            during=self.check,
        )

    def _unassigned(self) -> list[str]:
        missing: list[str] = []
        groups: dict[str, tuple[dict[str, list[str]], set[str]]] = {}
        for entry in self._readers:
            if isinstance(entry, Assign) and isinstance(entry.start, StartAt):
                continue
            held = {c: self.state(c).assigned() for c in self.present(entry.name)}
            required = {
                str(TopicPartition(t.name, p))
                for t in self._scenario.topics
                if entry.topics_among([t.name]) and not t.later
                for p in range(t.partitions)
            }
            if isinstance(entry, Assign):
                missing += [
                    f"{c} holds {len(own)} of {len(required)}"
                    for c, own in held.items()
                    if sorted(own) != sorted(required)
                ]
            elif held:
                members, partitions = groups.setdefault(entry.group, ({}, set()))
                members.update(held)
                partitions |= required
        for group, (members, partitions) in groups.items():
            if sorted(p for own in members.values() for p in own) != sorted(partitions):
                missing.append(f"{group}: {', '.join(f'{c} holds {len(own)}' for c, own in members.items())}")
        return missing

    def total_acked(self) -> int:
        """Return the number of records acknowledged to all producers."""
        return sum(self.acked(p.name) for p in self._scenario.producers)

    def acked(self, entry: str) -> int:
        """Return the number of records acknowledged to the clients of a producer entry."""
        return self._count("acked", entry)

    def delivered(self, entry: str) -> int:
        """Return the number of records processed by the clients of an entry; redeliveries count again."""
        return self._count("delivered", entry)

    def _count(self, count: str, entry: str) -> int:
        with self._lock:
            states = [state for client in self.clients(entry) for state in self._incarnations.get(client, [])]
        return sum(state.count(count) for state in states)

    def producers_done(self) -> bool:
        """Return whether every producer sent all its records and has an answer or a time-out for each."""
        return all(s.progress().get("done", False) or (s.asked_to_end and not s.alive) for s in self._producer_states())

    def minimum_sent(self) -> bool:
        """Return whether every producer sent all its records. One that outlasts the faults sends more."""
        return all(
            state.progress().get("done", False) or (p.outlast_faults and state.count("sent") >= p.records)
            for p in self._scenario.producers
            for state in map(self.state, self.present(p.name))
        )

    def _producer_states(self) -> list[ClientState]:
        return [self.state(c) for p in self._scenario.producers for c in self.present(p.name)]

    def positions(self, *readers: str) -> dict[str, int]:
        """Return the offset after the last processed record of each assigned `topic/partition`.

        Each of `readers` is a client (`replay/1`) or an entry, which means all its members. If two members claim a
        partition, the lower offset counts.
        """
        positions: dict[str, int] = {}
        for client in self._clients_of(readers):
            for partition, offset in self.state(client).positions().items():
                positions[partition] = min(offset, positions.get(partition, offset))
        return positions

    def holders(self, *readers: str) -> dict[str, str]:
        """Return a client to which each `topic/partition` is assigned; readers: as for `positions`."""
        return {partition: c for c in self._clients_of(readers) for partition in self.state(c).assigned()}

    def _clients_of(self, readers: Iterable[str]) -> list[str]:
        return [c for reader in readers for c in ([reader] if "/" in reader else self.present(reader))]
