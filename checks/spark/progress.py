"""Telling how far Spark has come, while a stage that may take minutes works."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from chaos.run.events import Event

EVERY_S = 1.0


@contextmanager
def told(spark: Any, stage: str, listener: Callable[[Event], None] | None) -> Iterator[None]:
    """While the context lasts, tell once a second of tasks done and tasks there are, as events of kind `work`."""
    if listener is None:
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_tell, args=(spark, stage, listener, done), daemon=True, name="progress")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(EVERY_S)


def _tell(spark: Any, stage: str, listener: Callable[[Event], None], done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not done.wait(EVERY_S):
        stages = [info for number in tracker.getActiveStageIds() if (info := tracker.getStageInfo(number))]
        if stages:
            finished, total = sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)
            listener({"kind": "work", "stage": stage, "done": finished, "total": total})
