"""A ledger that is not whole is refused, with the table, the file and the column named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.errors import RunDirError
from chaos.ledger.schemas import TABLES
from chaos.ledger.seal import part_name
from chaos.run.directory import Run
from checks.audit import audit
from checks.audit.load import load
from tests.checks.audit.story import Story, make_run, read_audit, resolved_of


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "run", [Story("orders", 1).wrote(0)])


def rewrite(path: Path, change: Any) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def part(run: Run, table: str, index: int = 0) -> Path:
    return run.ledger / f"{table}.parquet" / part_name(index)


def test_a_missing_table(run: Run) -> None:
    shutil.rmtree(run.ledger / "sends.parquet")
    with pytest.raises(RunDirError, match=r"sends\.parquet is missing: table sends"):
        load(run)


def test_a_log_that_was_never_read_back(run: Run) -> None:
    (run.ledger / "log" / "part-0.parquet").unlink()
    (run.ledger / "log").rmdir()
    with pytest.raises(RunDirError, match="never read back"):
        load(run)


def test_a_missing_range(run: Run) -> None:
    (run.ledger / "log_range.parquet").unlink()
    with pytest.raises(RunDirError, match="log_range"):
        load(run)


def test_a_damaged_file(run: Run) -> None:
    part(run, "commits").write_bytes(b"PAR1 no more")
    with pytest.raises(
        RunDirError, match=r"commits\.parquet/part-00000\.parquet is not readable Parquet.*table commits"
    ):
        load(run)


def test_a_missing_column(run: Run) -> None:
    rewrite(part(run, "sends"), lambda t: t.drop_columns(["outcome"]))
    with pytest.raises(RunDirError, match=r"sends\.parquet/part-00000\.parquet: table sends has no column outcome"):
        load(run)


def test_a_column_of_another_type(run: Run) -> None:
    rewrite(run.ledger / "log" / "part-0.parquet", lambda t: t.set_column(2, "offset", t["offset"].cast(pa.string())))
    with pytest.raises(RunDirError, match=r"column offset of table log is string, not int64"):
        load(run)


def test_another_schema_version(run: Run) -> None:
    rewrite(part(run, "faults"), lambda t: t.replace_schema_metadata({"aftershock.schema": "7"}))
    with pytest.raises(RunDirError, match="table faults has schema version 7"):
        load(run)


def test_a_ledger_of_today_has_all_columns(run: Run) -> None:
    rewrite(run.ledger / "log_range.parquet", lambda t: t.drop_columns(["topic_id"]))
    with pytest.raises(RunDirError, match="table log_range has no column topic_id"):
        load(run)


def test_rows_that_the_seal_does_not_know(run: Run) -> None:
    rewrite(part(run, "sends"), lambda t: pa.concat_tables([t, t]))
    with pytest.raises(RunDirError, match=r"part-00000\.parquet has 2 rows, seal\.json says 1"):
        load(run)


def test_a_part_that_the_seal_does_not_know(run: Run) -> None:
    shutil.copy(part(run, "sends"), part(run, "sends", 1))
    with pytest.raises(RunDirError, match=r"sends\.parquet has 2 parts, seal\.json says 1"):
        load(run)


def test_a_part_that_is_gone(run: Run) -> None:
    part(run, "sends").unlink()
    with pytest.raises(RunDirError, match=r"sends\.parquet has 0 parts, seal\.json says 1"):
        load(run)


def test_rows_of_all_parts_are_loaded(spark: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [Story("orders", 1).wrote(*range(5))])
    table = pq.read_table(part(run, "sends"))
    pq.write_table(table.slice(3), part(run, "sends", 1))
    rewrite(part(run, "sends"), lambda t: t.slice(0, 3))
    seal = (run.ledger / "seal.json").read_text().replace('"parts":[5]', '"parts":[3,2]')
    (run.ledger / "seal.json").write_text(seal)
    ledger = load(run)
    assert ledger.rows["sends"] == 5
    assert ledger.files["sends"] == [str(part(run, "sends")), str(part(run, "sends", 1))]


def test_an_unsealed_ledger(run: Run) -> None:
    (run.ledger / "seal.json").unlink()
    with pytest.raises(RunDirError, match="seal"):
        load(run)


def test_an_empty_ledger_is_audited_and_has_seen_nothing(spark: Any, tmp_path: Path) -> None:
    story = Story("orders", 1, mode="subscribe")
    run = make_run(tmp_path / "run", [story])
    for table in TABLES:
        rewrite(part(run, table), lambda t: t.slice(0, 0))
    seal = (run.ledger / "seal.json").read_text().replace('"rows":2', '"rows":0').replace('"parts":[2]', '"parts":[0]')
    (run.ledger / "seal.json").write_text(seal)
    audit(spark, run, resolved_of([story]))
    summary = read_audit(run, "summary")
    assert {r["count"] for r in summary} == {r["examined"] for r in summary} == {0}
    assert {r["check"] for r in summary} >= {"lost_write", "skipped_delivery", "double_ownership"}


def damaged(run: Run, table: str) -> None:
    """Keep the footer, break the pages."""
    path = part(run, table)
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("table", ["sends", "deliveries", "commits"])
def test_damaged_pages_under_a_sound_footer(spark: Any, tmp_path: Path, table: str) -> None:
    story = Story("orders", 1).wrote(0)
    story.assigned().got(0).commit(1)
    run = make_run(tmp_path / "run", [story])
    damaged(run, table)
    with pytest.raises(RunDirError, match=rf"{table}\.parquet/part-00000\.parquet is not readable.*table {table}"):
        audit(spark, run, resolved_of([story]))


def test_nulls_where_a_row_says_nothing_without_the_column(spark: Any, run: Run) -> None:
    rewrite(part(run, "sends"), lambda t: t.set_column(2, "seq", pa.array([None], pa.int64())))
    with pytest.raises(RunDirError, match=r"part-00000\.parquet: column seq of table sends is null in 1 rows"):
        audit(spark, run, resolved_of([Story("orders", 1)]))


def test_a_clock_that_ran_backwards_is_counted_by_table_and_client(spark: Any, tmp_path: Path) -> None:
    story = Story("orders", 1).wrote(0).send(1, outcome="unknown", completed_us=1)
    story.assigned().got(0, polled_us=10**15).commit(1, completed_us=2)
    run = make_run(tmp_path / "run", [story])
    audit(spark, run, resolved_of([story]))
    counts = {r["scope"]: r["value"] for r in read_audit(run, "counts") if r["name"] == "clock_backwards"}
    assert counts == {"sends of p1/1": 1, "deliveries of c1/1": 1, "commits of c1/1": 1}
