"""Where tasks of a comparison run: threads for few records, else Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from chaos.compare.model import Comparison
from chaos.run.directory import Run
from chaos.run.events import Event, EventLog

SMALL = 200_000
"""Number of records up to which threads finish before Spark would have started its workers."""
Listener = Callable[[Event], None]
T = TypeVar("T")
R = TypeVar("R")


@dataclass
class Work:
    """What all topics of a comparison share. Spark starts with the first step that has many records."""

    run: Run
    asked: Comparison
    listener: Listener | None = None
    small: int = SMALL
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)

    @property
    def events(self) -> EventLog:
        """The events of the run."""
        return EventLog(self.run, self.listener)

    def each(self, what: Callable[[T], R], tasks: Sequence[T], rows: int, stage: str) -> list[R]:
        """Return the result of each task. rows: records of all of them."""
        if rows <= self.small or not tasks:
            with ThreadPoolExecutor(self.cores) as pool:
                return list(pool.map(what, tasks))
        from checks.spark.session import reported

        with reported(self._spark, stage, self.listener):
            done: list[R] = self._spark.sparkContext.parallelize(tasks, len(tasks)).map(what).collect()
        return done

    @cached_property
    def _spark(self) -> Any:
        from checks import pipeline

        with self.events.stage("judge"):
            return pipeline.session(None)
