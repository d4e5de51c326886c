"""The number of tasks for the files of a ledger."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.spark import parts
from checks.spark.parts import tasks_for


def test_there_are_as_many_tasks_as_the_rows_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged, small, large = (str(tmp_path / f"{name}.parquet") for name in ("damaged", "small", "large"))
    Path(damaged).write_bytes(b"PAR1")
    for path, rows in ((small, 1), (large, 500)):
        pq.write_table(pa.table({"seq": pa.repeat(7, rows)}), path)  # of the same bytes, nearly
    monkeypatch.setattr(parts, "ROWS_PER_TASK", 100)
    assert tasks_for({}, 8) == 1
    assert tasks_for({"sends": [small] * 50 + [damaged]}, 8) == 1
    assert tasks_for({"sends": [small], "log": [large]}, 8) == 6
    assert tasks_for({"sends": [large] * 50}, 8) == 8
    assert tasks_for({"sends": ["hdfs://host/small.parquet"]}, 8) == 8
