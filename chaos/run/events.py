"""The events of a run: one JSON object per line in `events.jsonl`, for people, `watch` and scripts.

Kinds: `stage` (stage, state: begin | end | failed, seconds, detail, words: other words than usual), `progress` (sent,
acked, delivered by entry, rates per second; waits: for what the run waits), `fault` (fault, phase, words), `note`
(words: a sentence), `problem` (words: why a drive without an anomaly proves nothing), `undrained` (readers that made
progress when the drain ended, limit), `unsettled` (effects that may change after the end of their wait; for each, how
long it had not changed, and for how long it must not; limit), `unseen` (words: an instance of an application that the
relay does not see), `overdue` (fault, words: why its moment is not waited for any more), `outside` (words: an instance
that uses what the same one of another run would use, too), `work` (stage, done, total: Spark tasks; passed to the
listener only), `verdict` (verdict, sentence, report).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from chaos.run.directory import Run

Event = dict[str, Any]
StageState = Literal["begin", "end", "failed"]
DRIVING = ("deploy", "clients", "load", "heal", "drain", "settle", "stop", "seal", "drive")
"""Stages that must succeed for a complete ledger; destroying the cluster is not one of them."""
UNDRAINED, UNSETTLED, UNSEEN, REMARK = "undrained", "unsettled", "unseen", "remark"
FAILED_TASK = "failed_task"
"""An application of Kafka Connect with a connector or task that was failed at the end."""
OVERDUE = "overdue"
"""The event that the moment of a fault on the wire is not waited for any more."""
OUTSIDE = "outside"
"""The event that an instance uses what the same instance of another run would use, too: a port, a file, a database."""
MOMENTS = "moments"
"""The event with the moments of each instance on the wire: the step before it, the moment, how often it came."""
CHECKING = ("readback", "audit", "validate")
STAGE_TEXTS = {
    "deploy": "starting the brokers",
    "install": "installing Kafka and the client libraries",
    "topics": "creating the topics",
    "clients": "starting the clients",
    "apps": "starting the applications",
    "load": "producing, consuming, breaking",
    "heal": "healing the cluster",
    "drain": "waiting for consumers to reach the end",
    "settle": "waiting until effects change no more",
    "stop": "stopping the clients",
    "seal": "sealing the ledger",
    "commit_log": "reading the log of offset commits back",
    "readback": "reading the log back",
    "wire": "decoding the wire ledger",
    "effects": "reading the effects",
    "audit": "auditing every record",
    "validate": "checking the findings against the contract",
    "report": "writing the report",
    "destroy": "ending the brokers",
    "judge": "waiting for Spark",
    "spark": "ending Spark",
}
"""The stages that a view of a run names, and what each does, for people."""
WAIT = "judge"
"""The wait for Spark: a stage inside of `clients` (before the first record), or of the stage that starts Spark."""
NESTED = (WAIT, "install", "topics", "apps", "commit_log", "effects")
"""Stages inside of others, which do not count their time."""
ALL_STAGE_TEXTS = {"drive": "driving", **STAGE_TEXTS}
"""All stages: `drive` is the sum of those from `clients` to `seal`."""


MACHINE_CLOCK = "AFTERSHOCK_MACHINE_CLOCK"
"""An environment variable for a process with a wrong clock: `machine_clock` of the process that started it."""


def machine_clock() -> str:
    """Return how far the machine's clock is ahead of the monotonic one, in ns: that one is right in every process."""
    return str(time.time_ns() - time.monotonic_ns())


def now_us() -> int:
    """Return microseconds since the epoch, from the clock of every table and event, the clock of the machine."""
    return (time.monotonic_ns() + _AHEAD_NS) // 1000 if _AHEAD_NS else time.time_ns() // 1000


_AHEAD_NS = int(os.environ.get(MACHINE_CLOCK, 0))


class EventLog:
    """Appends events to `events.jsonl` of a run, and passes them to a listener in this process."""

    def __init__(self, run: Run, listener: Callable[[Event], None] | None = None) -> None:
        self._path = run.events
        self._listener = listener

    def emit(self, kind: str, **fields: Any) -> None:
        """Append an event, in one write(2), so several processes may append to one file."""
        event = {"at_us": now_us(), "kind": kind, **fields}
        # on a full disk, the run must still heal and stop; the writers of the ledger report the error
        with contextlib.suppress(OSError):
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(fd, (json.dumps(event) + "\n").encode())
            finally:
                os.close(fd)
        if self._listener:
            self._listener(event)

    def note(self, sentence: str, aside: bool = False) -> None:
        """Append a note. aside: whether it is not about what the run does now."""
        self.emit("note", words=sentence, **({"aside": True} if aside else {}))

    def problem(self, sentence: str) -> None:
        """Append a problem: it makes a run inconclusive that would pass. What proves as much without it, is a note."""
        self.emit("problem", words=sentence)

    @contextmanager
    def stage(self, name: str, words: str = "") -> Iterator[None]:
        """Append the begin of a stage, and its end or failure. words: what it does, if not what it usually does."""
        began, other = time.monotonic(), {"words": words} if words else {}
        self.emit("stage", stage=name, state="begin", **other)
        try:
            yield
        except BaseException as e:
            seconds = round(time.monotonic() - began, 3)
            detail = "interrupted" if isinstance(e, KeyboardInterrupt) else str(e) or type(e).__name__
            self.emit("stage", stage=name, state="failed", seconds=seconds, detail=detail, **other)
            raise
        self.emit("stage", stage=name, state="end", seconds=round(time.monotonic() - began, 3), **other)


def read_events(run: Run) -> list[Event]:
    """Return the events of a run; lines that are not complete JSON are left out."""
    if not run.events.exists():
        return []
    events = []
    for line in run.events.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            events.append(json.loads(line))
    return events


def stages_broken_off(events: Iterable[Event], among: Container[str] | None = None) -> dict[str, str]:
    """Return the stages that failed or never ended, with the reason; a later success of a stage clears it.

    among: the stages to consider; all if left out. If several stages have the same reason, only the first counts: a
    nested stage fails before the stage around it, which repeats the reason.
    """
    last: dict[str, Event] = {}
    for e in events:
        if e.get("kind") == "stage" and (among is None or e.get("stage") in among):
            last.pop(e["stage"], None)
            last[e["stage"]] = e
    broken: dict[str, str] = {}
    for name, event in last.items():
        if event.get("state") != "end" and (reason := _reason(event)) not in broken.values():
            broken[name] = reason
    return broken


def _reason(event: Event) -> str:
    if event.get("state") == "failed":
        return str(event.get("detail") or "no reason was recorded")
    return "it began and never ended, so its process was killed"


def killed_while(events: Iterable[Event]) -> str:
    """Return the innermost stage that a drive did not end because it was killed, for people; empty if it was not."""
    last = {e["stage"]: e for e in events if e.get("kind") == "stage" and e.get("stage") in DRIVING}
    going = [name for name, event in last.items() if event.get("state") == "begin"]
    return ALL_STAGE_TEXTS[going[-1]] if going else ""


@dataclass
class StageTime:
    """The last execution of a stage. seconds: its length so far, or in all, without the nested stages inside."""

    name: str
    state: StageState
    seconds: float
    detail: str = ""
    words: str = ""

    @property
    def text(self) -> str:
        """What the stage does, for people."""
        return self.words or ALL_STAGE_TEXTS.get(self.name, self.name)


def list_stages(events: Iterable[Event], now: int) -> list[StageTime]:
    """Return the stages in the order of their begin; a nested one is the sum of its executions inside of them.

    now: the time until which a stage that goes on is counted, in microseconds.
    """
    stages: dict[str, StageTime] = {}
    inside: dict[str, dict[str, float]] = {}  # seconds by nested stage, by the innermost stage around it
    around: dict[str, str] = {}
    for e in events:
        name, state, seconds, detail = str(e.get("stage")), e.get("state"), e.get("seconds"), e.get("detail")
        if e.get("kind") != "stage" or state not in ("begin", "end", "failed"):
            continue
        length = float(seconds) if isinstance(seconds, int | float) else max(0.0, (now - e["at_us"]) / 1e6)
        if state == "begin":
            going = [s.name for s in stages.values() if s.state == "begin" and s.name != name]
            stages.pop(name, None)
            inside.pop(name, None)
            around[name] = going[-1] if going else ""
        words = str(e.get("words") or "")
        stages[name] = StageTime(name, state, length, detail if isinstance(detail, str) else "", words)
        if name in NESTED:
            inside.setdefault(around.get(name, ""), {})[name] = length
    for name, parts in inside.items():
        for one in {name, "drive"} if name == "clients" else {name}:
            if one in stages:
                stages[one].seconds = max(0.0, stages[one].seconds - sum(parts.values()))
    for name in NESTED:
        if name in stages:
            stages[name].seconds = sum(parts.get(name, 0.0) for parts in inside.values())
    return list(stages.values())


def stage_times(events: Iterable[Event]) -> dict[str, float]:
    """Return the seconds of the stages that ended, as `list_stages`."""
    return {s.name: round(s.seconds, 3) for s in list_stages(events, now_us()) if s.state != "begin"}


def notes(events: list[Event]) -> list[str]:
    """Return the notes and problems of the drive about limits that it reached."""
    of_limits = (e for e in events if e.get("kind") in ("note", "problem") and "(limits." in str(e.get("words", "")))
    return [str(e["words"]) for e in of_limits]
