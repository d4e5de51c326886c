"""The histories that `tests.bench` measures with, small: what they say is planted is what oracle and audit find."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from chaos.ledger.record import run_token
from chaos.ledger.schemas import TABLES
from chaos.run.directory import Run
from checks.audit import audit
from tests.bench.bench_audit import meant
from tests.bench.histories import Kind, Plan, make, resolved
from tests.checks.audit.histories import differences, found_in, meant_by
from tests.checks.audit.oracle import Judgement, judge
from tests.checks.audit.story import read_audit

RECORDS, PER_TICK, TICKS = 2_300, 12, 20
"""Five slices, so two rebalances."""


def by_oracle(run: Run, plan: Plan) -> Judgement:
    rows = {table: pq.read_table(run.ledger / f"{table}.parquet").to_pylist() for table in (*TABLES, "log_range")}
    rows |= {"log": pq.read_table(run.ledger / "log").to_pylist()}
    return judge(rows, resolved(plan).scenario, run_token(plan.run_id))


PLANTED: dict[Kind, set[str]] = {
    "clean": {"duplicate_delivery.legal"},
    "rich": {"lost_write", "duplicate_write", "offset_reuse", "duplicate_delivery.legal"},
    "recreated": {"duplicate_delivery.legal"},
    "compacted": {"duplicate_delivery.legal", "superseded"},
}


OTHERS = pytest.mark.nightly(
    twin="checks/audit/test_long_histories.py::test_a_history_holds_what_it_says_and_nothing_else[rich]"
)


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind == "rich" else OTHERS) for kind in PLANTED])
@pytest.mark.landing
def test_a_history_holds_what_it_says_and_nothing_else(tmp_path: Path, spark: Any, kind: Kind) -> None:
    plan, run = Plan(RECORDS, kind, per_tick=PER_TICK, ticks=TICKS), Run(tmp_path / "run")
    planted = meant(asdict(make(run.path, plan)))
    assert set(planted) == PLANTED[kind]
    superseded = planted.pop("superseded", 0)
    verdict = by_oracle(run, plan)
    assert meant_by(verdict) == planted
    audit(spark, run, resolved(plan))
    assert sum(r["value"] for r in read_audit(run, "counts") if r["name"] == "superseded") == superseded
    tables = {table: read_audit(run, table) for table in ("summary", "anomalies")}
    assert found_in(tables) == planted
    # evidence is capped, so the oracle names more; what the audit names, and every count, is the oracle's
    assert not [line for line in differences(tables, verdict) if not line.startswith("only the oracle finds")]
