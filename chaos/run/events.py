"""What a run is doing, as it does it: one JSON object a line in `events.jsonl`, for people, `watch` and scripts.

Kinds: `stage` (stage, state: begin | end | failed, seconds, detail), `progress` (sent, acked, delivered by entry, rates
per second), `fault` (fault, phase, words), `note` (words), `problem` (words: something that keeps the run from
proving what it should), `work` (stage, done, total: tasks of Spark; told, not kept), `verdict` (verdict, sentence,
report).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from chaos.run.directory import Run

Event = dict[str, Any]


def now_us() -> int:
    """Microseconds since the epoch: the one clock of every table and event."""
    return time.time_ns() // 1000


class EventLog:
    """Appends events to a run's `events.jsonl` and hands them to a listener in this process."""

    def __init__(self, run: Run, listener: Callable[[Event], None] | None = None) -> None:
        self._path = run.events
        self._listener = listener

    def emit(self, kind: str, **fields: Any) -> None:
        """Append one event. One write(2) a line, so several processes may append to one file."""
        event = {"at_us": now_us(), "kind": kind, **fields}
        # a run on a full disk must still be healed and ended, and the ledger's own writers do not pass over it
        with contextlib.suppress(OSError):
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(fd, (json.dumps(event) + "\n").encode())
            finally:
                os.close(fd)
        if self._listener:
            self._listener(event)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Emit the begin and the end of a stage, or its failure."""
        began = time.monotonic()
        self.emit("stage", stage=name, state="begin")
        try:
            yield
        except BaseException as e:
            seconds = round(time.monotonic() - began, 3)
            self.emit("stage", stage=name, state="failed", seconds=seconds, detail=str(e) or type(e).__name__)
            raise
        self.emit("stage", stage=name, state="end", seconds=round(time.monotonic() - began, 3))


def read_events(run: Run) -> list[Event]:
    """All whole events of a run; a torn last line is left out."""
    if not run.events.exists():
        return []
    events = []
    for line in run.events.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return events


def stages_broken_off(events: Iterable[Event], among: Container[str] | None = None) -> dict[str, str]:
    """Each stage that failed, or began and never ended, with the reason; a later success clears it.

    among: the stages that are asked for, all when left out. Of several with one reason the first is named: a stage
    within fails before the one around it, which repeats its reason.
    """
    last: dict[str, Event] = {}
    for e in events:
        if e.get("kind") == "stage" and (among is None or e.get("stage") in among):
            last.pop(e["stage"], None)
            last[e["stage"]] = e
    found: dict[str, str] = {}
    for name, event in last.items():
        if event.get("state") != "end" and (reason := _reason(event)) not in found.values():
            found[name] = reason
    return found


def _reason(event: Event) -> str:
    if event.get("state") == "failed":
        return str(event.get("detail") or "no reason was recorded")
    return "it began and never ended, so its process was killed"
