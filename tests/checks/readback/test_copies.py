"""The read-back looks for records that are in a part more than once, across batches and files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.ledger.schemas import LOG
from checks.readback import source
from checks.readback.source import _Copies

Row = tuple[str | None, int, int]


def offsets(tmp_path: Path, rows: list[Row], size: int = 3) -> tuple[int, ...]:
    """Return the offsets of copies among records (producer, incarnation, seq) in batches, each in a separate file."""
    copies, files = _Copies(), []
    for begin in range(0, len(rows), size):
        of_batch = enumerate(rows[begin : begin + size], begin)
        fields = [
            {"offset": at, "producer": name, "incarnation": name and life, "seq": name and seq}
            for at, (name, life, seq) in of_batch
        ]
        batch = pa.RecordBatch.from_pylist([dict.fromkeys(LOG.names) | row for row in fields], LOG)
        copies.add(batch)
        files.append(tmp_path / f"{begin:03}.parquet")
        pq.write_table(pa.table(batch), files[-1])
    return copies.offsets(files)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("a", 1, 0), ("a", 1, 1), ("b", 1, 0), ("a", 1, 2)], ()),
        ([("a", 1, 0), ("a", 1, 1), ("a", 1, 1)], (1, 2)),
        ([("a", 1, 0), ("a", 1, 1), ("b", 1, 0), ("a", 1, 0), ("b", 1, 1)], (0, 3)),  # in another batch
        ([("a", 1, 5), ("a", 1, 3), ("a", 1, 4)], ()),  # out of order, but each once
        ([("a", 1, 0), ("a", 2, 0), ("b", 1, 0)], ()),  # another incarnation
        ([(None, 0, 0), ("a", 1, 0), (None, 0, 0), ("a", 1, 0)], (1, 3)),  # between foreign records
        ([("a", 1, 7)] * 4, (0, 1, 2, 3)),
        ([], ()),
    ],
)
def test_a_record_that_is_there_twice_is_found_with_its_first_copy(
    tmp_path: Path, rows: list[Row], found: tuple[int, ...]
) -> None:
    assert offsets(tmp_path, rows) == found


def test_only_so_many_records_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "COPIES", 2)
    assert offsets(tmp_path, [("a", 1, seq) for seq in [*range(6), *range(6)]], size=4) == (0, 1, 6, 7)
