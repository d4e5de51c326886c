"""Progress of Spark's tasks during a stage that may take minutes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from chaos.run.events import Event

INTERVAL_S = 1.0


@contextmanager
def reported(spark: Any, stage: str, listener: Callable[[Event], None] | None) -> Iterator[None]:
    """While the context lasts, pass an event `work` with the finished and total tasks to the listener every second."""
    if listener is None:
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_report, args=(spark, stage, listener, done), daemon=True, name="progress")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(INTERVAL_S)


def _report(spark: Any, stage: str, listener: Callable[[Event], None], done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not done.wait(INTERVAL_S):
        stages = [info for number in tracker.getActiveStageIds() if (info := tracker.getStageInfo(number))]
        if stages:
            finished, total = sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)
            listener({"kind": "work", "stage": stage, "done": finished, "total": total})
