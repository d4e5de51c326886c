"""Logs in memory, which rounds of a comparison read as a cluster's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from chaos.compare.model import Comparison, ComparisonResult, Pair, Side
from chaos.compare.rounds import Rounds
from chaos.kafka.security import Security
from chaos.run.directory import Run
from checks.compare import match, read, sides, topics
from checks.compare.stage import compare
from checks.compare.work import SMALL
from tests.checks.compare.tables import Record, columns


class Logs:
    """Topic `orders` on two sides. starts: what retention removed. stable: the last stable offsets, if set."""

    def __init__(self, folder: Path, partitions: int, monkeypatch: pytest.MonkeyPatch, every_s: float | None = 1.0):
        self.a: list[Record] = []
        self.b: list[Record] = []
        self.ids = ["one", "two"]
        self.starts: list[dict[int, int]] = [{}, {}]
        self.stable: list[dict[int, int]] = [{}, {}]
        self.run = Run.create(folder, "rounds")
        side = Side(bootstrap="a:1", security=Security()), Side(bootstrap="b:1", security=Security())
        self.asked = Comparison(a=side[0], b=side[1], pairs=[], every_s=every_s)
        self.partitions(partitions)
        monkeypatch.setattr(sides, "_ends", self._ends)
        monkeypatch.setattr(read, "read", self._read)
        monkeypatch.setattr(topics, "named", lambda asked, pair, examples: list(examples))
        monkeypatch.setattr(topics, "LATE_S", 0)

    def partitions(self, number: int) -> None:
        """Give both topics so many partitions."""
        self._partitions = number
        self.asked.pairs = [Pair(a="orders", b="orders", partitions=(number, number))]

    def _rows(self, side: int) -> dict[str, np.ndarray]:
        return columns((self.a, self.b)[side])

    def _ends(self, at: Side, pair: Pair, side: int) -> sides.Ends:
        partition = self._rows(side)["partition"]
        size = np.arange(self._partitions)
        ends = np.bincount(partition, minlength=self._partitions)
        starts = np.array([self.starts[side].get(p, 0) for p in size], np.int64)
        stable = np.array([self.stable[side].get(p, ends[p]) for p in size], np.int64)
        return sides.Ends(starts, stable, ends, self.ids[side])

    def _read(self, task: read.Task) -> read.Done:
        rows = self._rows(0 if task.part.bootstrap == "a:1" else 1)
        part = (rows["partition"] == task.part.partition) & (rows["offset"] >= task.part.start)
        rows = match.select(rows, part & (rows["offset"] < task.part.end))
        if len(rows["offset"]):
            read._write(task, rows, 0)
        return read.Done(len(rows["offset"]))

    def round(self, a: Sequence[Record] = (), b: Sequence[Record] = ()) -> tuple[ComparisonResult, ComparisonResult]:
        """Append records, and compare; return what this round found, and what all did."""
        assert len(self.a) + len(self.b) < SMALL
        self.a += a
        self.b += b
        self.asked.save(self.run)
        compare(self.run)
        rounds = Rounds(self.run)
        so_far = ComparisonResult.model_validate_json(self.run.result.read_text())
        return (rounds.result(rounds.numbers[-1]) if rounds.numbers else so_far), so_far


def found(result: ComparisonResult) -> dict[str, int]:
    """Return the numbers by kind, with those that are the same."""
    (topic,) = result.topics
    return {"same": topic.matched} | topic.found
