"""The plain numbers: how much of everything there is, and how many rows each check had to look at."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from chaos.anomalies import ANOMALIES
from checks.audit.epochs import Epochs
from checks.audit.findings import UNDETERMINED, union
from checks.audit.load import Ledger
from checks.audit.readers import READER, Reader

Totals = dict[tuple[str, str], int]
"""(name, scope) -> number."""


def base_totals(ledger: Ledger, run: str) -> DataFrame:
    """What the tables hold: name, scope, value, in one pass per table; `drive_end_us` is the latest time in them."""
    ok = "outcome = 'ok'"
    return union(
        [
            _tally(
                ledger.sends,
                "topic",
                "rows.sends count(*)",
                f"acked count_if({ok})",
                f"located count_if({ok} AND offset IS NOT NULL)",
                "failed count_if(outcome = 'fail')",
                "unknown count_if(outcome = 'unknown')",
                "drive_end_us max(completed_us)",
            ),
            _tally(
                ledger.log,
                "topic",
                "rows.log count(*)",
                f"own count_if(run = '{run}' AND producer IS NOT NULL AND incarnation IS NOT NULL AND seq IS NOT NULL)",
                "checked count_if(crc_ok IS NOT NULL)",
            ),
            _tally(ledger.deliveries, READER, "rows.deliveries count(*)", "drive_end_us max(processed_us)"),
            _tally(
                ledger.commits,
                READER,
                "rows.commits count(*)",
                f"committed count_if({ok})",
                "drive_end_us max(completed_us)",
            ),
            _tally(ledger.assignments, READER, "rows.assignments count(*)", "drive_end_us max(at_us)"),
            _tally(ledger.lifecycle, "client", "rows.lifecycle count(*)", "drive_end_us max(at_us)"),
            _tally(ledger.faults, "fault", "rows.faults count(*)", "drive_end_us max(at_us)"),
            _tally(ledger.cluster, "key", "rows.cluster count(*)", "drive_end_us max(at_us)"),
            _tally(ledger.log_range, "topic", "offsets sum(`end` - `start`)"),
        ]
    )


def _tally(table: DataFrame, scope: str, *numbers: str) -> DataFrame:
    """Numbers per scope, each given as `name expression`, as rows of name, scope, value."""
    names, expressions = zip(*(n.split(" ", 1) for n in numbers), strict=True)
    sums = table.groupBy(F.expr(f"CAST({scope} AS STRING) AS scope")).agg(
        *(F.expr(f"CAST({e} AS BIGINT) AS v{i}") for i, e in enumerate(expressions))
    )
    rows = ", ".join(f"'{name}', v{i}" for i, name in enumerate(names))
    return sums.selectExpr("scope", f"stack({len(names)}, {rows}) AS (name, value)").select("name", "scope", "value")


def in_range(log: DataFrame, places: DataFrame) -> DataFrame:
    """Log records in each reader's range: name, scope, value. Those of a range that is not known are not in it."""
    joined = log.join(F.broadcast(places), ["topic", "partition"]).filter("offset >= range_start")
    return (
        joined.groupBy("reader")
        .agg(F.expr("count(*) AS value"))
        .selectExpr("'in_range' AS name", "reader AS scope", "value")
    )


def examined(check: str, scope: str, totals: Totals) -> int:
    """How many rows a check looked at in a scope."""
    return totals.get((_EXAMINED[check], scope), 0)


_EXAMINED = {
    "lost_write": "acked",
    "duplicate_write": "own",
    "reordered_write": "own",
    "misplaced_write": "located",
    "phantom_write": "rows.log",
    "corrupt_record": "checked",
    "skipped_delivery": "in_range",
    "stalled_delivery": "in_range",
    "lost_processing": "in_range",
    "duplicate_delivery": "rows.deliveries",
    "nonmonotonic_poll": "rows.deliveries",
    "poll_skip": "rows.deliveries",
    "dirty_read": "rows.deliveries",
    "overcommit": "committed",
    "commit_rewind": "committed",
    "double_ownership": "epochs",
    "foreign_commit": "epochs",
}
assert set(_EXAMINED) == set(ANOMALIES), "every check has to say what it looks at"


def epoch_totals(epochs: Epochs) -> Totals:
    """How many epochs each reader had."""
    totals: Totals = defaultdict(int)
    for e in epochs.all:
        totals["epochs", e.reader] += 1
    return dict(totals)


def scopes_of(check: str, topics: list[str], readers: list[Reader]) -> list[str]:
    """The scopes that a check applies to: topics, or the readers that can show it."""
    if ANOMALIES[check].path == "write":
        return topics
    if check == "double_ownership":
        return [r.name for r in readers if r.mode == "subscribe"]
    if check == "foreign_commit":
        return [r.name for r in readers if r.group is not None and r.commits]
    if check in ("overcommit", "commit_rewind"):
        return [r.name for r in readers if r.commits]
    return [r.name for r in readers]


def summary_rows(
    topics: list[str], readers: list[Reader], totals: Totals, counted: dict[tuple[str, str, str], int]
) -> list[dict[str, Any]]:
    """Table `summary`: a row for every check, split and scope, whether or not there was anything to find.

    counted: findings by (check, split, scope). A finding in a scope that the scenario does not name gets its row too.
    """
    wanted = {
        (check, split, scope): None
        for check, anomaly in ANOMALIES.items()
        for split in anomaly.splits or ("",)
        for scope in scopes_of(check, topics, readers)
    }
    for check, split, scope in counted:
        splits = (split,) if split != UNDETERMINED else (ANOMALIES[check].splits or ("",))
        wanted |= {(check, s, scope): None for s in splits}
    rows = []
    for check, split, scope in sorted(wanted, key=lambda k: (list(ANOMALIES).index(k[0]), k[1], k[2])):
        undetermined = counted.get((check, UNDETERMINED, scope), 0)
        seen = examined(check, scope, totals)
        if check in ("lost_write", "overcommit", "dirty_read"):  # their undetermined rows are among those counted
            seen -= undetermined
        count = counted.get((check, split, scope), 0)
        rows.append(
            {
                "check": check,
                "split": split,
                "scope": scope,
                "count": count,
                "examined": max(seen, count),
                "undetermined": undetermined,
            }
        )
    return rows


def count_rows(
    topics: list[str], readers: list[Reader], totals: Totals, ledger: Ledger, extra: Totals
) -> list[dict[str, Any]]:
    """Table `counts`. extra: out of the checks, unsent_present and evicted by topic, redelivered by reader."""
    rows: list[tuple[str, str, int]] = []
    for topic in topics:
        number = {
            name: totals.get((name, topic), 0)
            for name in ("rows.sends", "acked", "failed", "unknown", "rows.log", "offsets")
        }
        unsent = extra.get(("unsent_present", topic), 0)
        rows += [
            ("sent", topic, number["rows.sends"]),
            ("acked", topic, number["acked"]),
            ("failed", topic, number["failed"]),
            ("unknown", topic, number["unknown"] + unsent),
            ("in_log", topic, number["rows.log"]),
            ("evicted", topic, extra.get(("evicted", topic), 0)),
            ("log_gaps", topic, number["offsets"] - number["rows.log"]),
        ]
    for name in sorted({r.name for r in readers} | {scope for name, scope in totals if name == "rows.deliveries"}):
        delivered = totals.get(("rows.deliveries", name), 0)
        rows += [("delivered", name, delivered), ("distinct", name, delivered - extra.get(("redelivered", name), 0))]
    rows += [(name, scope, value) for (name, scope), value in sorted(extra.items()) if name.endswith("unrecovered")]
    for table, read in ledger.rows.items():
        audited = sum(value for (name, _), value in totals.items() if name == f"rows.{table}")
        rows += [("rows_read", table, read), ("rows_audited", table, audited)]
        rows.append(("torn_bytes", table, ledger.torn_bytes.get(table, 0)))
    return [{"name": name, "scope": scope, "value": value} for name, scope, value in rows]
