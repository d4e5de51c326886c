"""The number of tasks for the files of a ledger."""

from __future__ import annotations

from pathlib import Path

from checks.spark.parts import BYTES_PER_TASK, tasks_for


def test_there_are_as_many_tasks_as_the_bytes_need(tmp_path: Path) -> None:
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    small.write_bytes(b"PAR1")
    with large.open("wb") as file:
        file.truncate(5 * BYTES_PER_TASK)
    assert tasks_for({}, 8) == 1
    assert tasks_for({"sends": [str(small)] * 50}, 8) == 1
    assert tasks_for({"sends": [str(small)], "log": [str(large)]}, 8) == 6
    assert tasks_for({"sends": [str(large)] * 50}, 8) == 8
    assert tasks_for({"sends": ["hdfs://host/small.parquet"]}, 8) == 8
