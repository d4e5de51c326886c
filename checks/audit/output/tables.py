"""The tables that the audit writes to `audit/<table>/`, all of them or none.

| table | one row per |
|---|---|
| `summary` | check, split and scope, with the exact count; `examined` is 0 if the check had no rows |
| `anomalies` | finding, at most 200 of each check, split and scope |
| `counts` | number that accompanies the verdict |
| `metrics` | statistic of a measured time |
| `series` | 250 ms of a curve |
| `latency` | cell of a heat map |
| `ownership` | time span in which one consumer held one partition |
| `undecided` | reason for which rows of a check and scope, or commits of unknown outcome, could not be decided |
| `group_lives` | life of a group: it ends with its committed offsets, and may begin again |
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from checks.audit.facts.epochs import Epochs

_str, _i32, _i64 = pa.string(), pa.int32(), pa.int64()


def _table(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


AUDIT_TABLES: dict[str, pa.Schema] = {
    # `count` is exact. `examined`: rows examined. `undecided`: rows for which the rule could not be decided, such as
    # an acks=0 record without an offset where retention has removed records; they are in neither of the other two.
    # `why`: why the rule left out all rows that there were, empty if it did not.
    "summary": _table(check=_str, split=_str, scope=_str, count=_i64, examined=_i64, undecided=_i64, why=_str),
    # `count`: rows of `undecided` of one reason. `advice`: what decides them in another run, empty if nothing does.
    "undecided": _table(check=_str, scope=_str, why=_str, advice=_str, count=_i64),
    # `at_us`: when it happened, if known. `evidence`: a JSON object with all further details. `mechanism`: a sentence,
    # "not determined" if the evidence does not show the mechanism.
    "anomalies": _table(
        check=_str,
        split=_str,
        scope=_str,
        topic=_str,
        partition=_i32,
        offset=_i64,
        producer=_str,
        incarnation=_i32,
        seq=_i64,
        consumer=_str,
        at_us=_i64,
        evidence=_str,
        mechanism=_str,
    ),
    # Per topic: sent, acked, failed, unknown, in_log, evicted, log_gaps (offsets in range without a record). Per
    # reader: delivered, distinct. Per ledger table: rows_read, rows_audited, torn_bytes. Per table and client:
    # clock_backwards, the rows that ended before they began.
    "counts": _table(name=_str, scope=_str, value=_i64),
    # stat is count, p50, p95, p99 or max; for count, the value is the number of measurements. `fault` is empty for
    # times that belong to no fault.
    "metrics": _table(metric=_str, scope=_str, fault=_str, stat=_str, value_us=_i64),
    # series is acked (scope: topic), delivered or lag (scope: reader); lag is in records, at the end of the bucket.
    "series": _table(at_us=_i64, series=_str, scope=_str, value=_i64),
    # series is ack (scope: topic) or end_to_end (scope: reader); `bin_us` is the lower edge of a bin, four per decade.
    "latency": _table(at_us=_i64, series=_str, scope=_str, bin_us=_i64, count=_i64),
    # end_reason is revoked, lost, crashed, stopped, replaced (by a seek or a new assignment to the same consumer), or
    # open (its end was not recorded; end_us is then the end of the drive).
    "ownership": _table(
        group=_str,
        topic=_str,
        partition=_i32,
        consumer=_str,
        incarnation=_i32,
        member_id=_str,
        generation=_i32,
        begin_us=_i64,
        end_us=_i64,
        end_reason=_str,
    ),
    # Lives of the groups that the observer saw, by their number from 1. `end_us` is null if the group goes on; the
    # generations come from its assignments.
    "group_lives": _table(
        group=_str, life=_i32, begin_us=_i64, end_us=_i64, first_generation=_i32, last_generation=_i32
    ),
}


def ownership_table(epochs: Epochs) -> pa.Table:
    """Return table `ownership`: who held which partition from when to when."""
    schema = AUDIT_TABLES["ownership"]
    return pa.table([[getattr(e, name) for e in epochs.all] for name in schema.names], schema=schema)


def write_tables(audit: Path, tables: dict[str, pa.Table]) -> None:
    """Write every table as one Parquet file under `audit/<table>/`, replacing an earlier audit as a whole."""
    audit.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".audit.", dir=audit.parent))
    try:
        temporary.chmod(0o755)
        for name, schema in AUDIT_TABLES.items():
            (temporary / name).mkdir()
            table = tables[name].select(schema.names).cast(schema)
            pq.write_table(table, temporary / name / "part-0.parquet", compression="zstd")
        if audit.exists():
            shutil.rmtree(audit)
        temporary.rename(audit)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
