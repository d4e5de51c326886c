"""The number of tasks for the files of a ledger."""

from __future__ import annotations

import pytest

from checks.spark import parts
from checks.spark.parts import tasks_for


def test_there_are_as_many_tasks_as_the_rows_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROWS_PER_TASK", 100)
    assert tasks_for({}, 0, 8) == 1
    assert tasks_for({"sends": ["/small.parquet"] * 50}, 50, 8) == 1
    assert tasks_for({"sends": ["/small.parquet"], "log": ["/large.parquet"]}, 501, 8) == 6
    assert tasks_for({"sends": ["/large.parquet"] * 50}, 25_000, 8) == 8
    assert tasks_for({"sends": ["hdfs://host/small.parquet"]}, 1, 8) == 8
