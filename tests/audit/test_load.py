"""A ledger that is not whole is refused, with the table, the file and the column named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.errors import RunDirError
from chaos.ledger import TABLES
from chaos.rundir import RunDir
from checks.audit import audit
from checks.audit.load import load
from tests.audit.story import Story, make_run, read_audit, resolved_of


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return make_run(tmp_path / "run", [Story("orders", 1).wrote(0)])


def rewrite(path: Path, change: Any) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def test_a_missing_table(spark: Any, run: RunDir) -> None:
    (run.ledger / "sends.parquet").unlink()
    with pytest.raises(RunDirError, match=r"sends\.parquet is missing: table sends"):
        load(spark, run)


def test_a_log_that_was_never_read_back(spark: Any, run: RunDir) -> None:
    (run.ledger / "log" / "part-0.parquet").unlink()
    (run.ledger / "log").rmdir()
    with pytest.raises(RunDirError, match="never read back"):
        load(spark, run)


def test_a_missing_range(spark: Any, run: RunDir) -> None:
    (run.ledger / "log_range.parquet").unlink()
    with pytest.raises(RunDirError, match="log_range"):
        load(spark, run)


def test_a_damaged_file(spark: Any, run: RunDir) -> None:
    (run.ledger / "commits.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(RunDirError, match=r"commits\.parquet is not readable Parquet.*table commits"):
        load(spark, run)


def test_a_missing_column(spark: Any, run: RunDir) -> None:
    rewrite(run.ledger / "sends.parquet", lambda t: t.drop_columns(["outcome"]))
    with pytest.raises(RunDirError, match=r"sends\.parquet: table sends has no column outcome"):
        load(spark, run)


def test_a_column_of_another_type(spark: Any, run: RunDir) -> None:
    rewrite(run.ledger / "log" / "part-0.parquet", lambda t: t.set_column(2, "offset", t["offset"].cast(pa.string())))
    with pytest.raises(RunDirError, match=r"column offset of table log is string, not int64"):
        load(spark, run)


def test_another_schema_version(spark: Any, run: RunDir) -> None:
    rewrite(run.ledger / "faults.parquet", lambda t: t.replace_schema_metadata({"aftershock.schema": "7"}))
    with pytest.raises(RunDirError, match="table faults has schema version 7"):
        load(spark, run)


def test_rows_that_the_seal_does_not_know(spark: Any, run: RunDir) -> None:
    rewrite(run.ledger / "sends.parquet", lambda t: pa.concat_tables([t, t]))
    with pytest.raises(RunDirError, match=r"has 2 rows, seal\.json says 1"):
        load(spark, run)


def test_an_unsealed_ledger(spark: Any, run: RunDir) -> None:
    (run.ledger / "seal.json").unlink()
    with pytest.raises(RunDirError, match="seal"):
        load(spark, run)


def test_an_empty_ledger_is_audited_and_has_seen_nothing(spark: Any, tmp_path: Path) -> None:
    story = Story("orders", 1, mode="subscribe")
    run = make_run(tmp_path / "run", [story])
    for table in TABLES:
        rewrite(run.ledger / f"{table}.parquet", lambda t: t.slice(0, 0))
    seal = (run.ledger / "seal.json").read_text().replace('"rows":2', '"rows":0')
    (run.ledger / "seal.json").write_text(seal)
    audit(spark, run, resolved_of([story]))
    summary = read_audit(run, "summary")
    assert {r["count"] for r in summary} == {r["examined"] for r in summary} == {0}
    assert {r["check"] for r in summary} >= {"lost_write", "skipped_delivery", "double_ownership"}
