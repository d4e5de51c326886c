"""One run judged twice: by the ledgers of its clients, and by what passed on the wire alone. The two agree.

`twice.tar.gz` has such a run: records without idempotence are written twice when an answer is lost, and a member of the
group dies. `tests/system/test_wire_judged.py` records it, and compares runs of the whole catalogue. To record it again,
for another version of the ledger or of the capture:

    tar czf twice.tar.gz -C RUN resolved.json ledger wire/seal.json wire/log $(cd RUN; ls wire/*.wire)

with `"name": "twice.yaml"` in resolved.json, and `RECORDED` set to the id of the run.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from chaos.anomalies import ANOMALIES
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved, read
from checks.audit import audit
from checks.wire import ledger, tables

pytestmark = pytest.mark.slow

RECORDED = "twice-20261127-184858-3a1a"
"""The id of the recorded run, which its records carry."""
Summary = dict[tuple[str, str, str], dict[str, Any]]


def summary(run: Run) -> Summary:
    """Return the rows of the summary of an audit, by check, split and scope."""
    rows = pq.read_table(run.audit / "summary", partitioning=None).to_pylist()
    return {(row["check"], row["split"], row["scope"]): row for row in rows}


def differences(own: Summary, wire: Summary) -> list[tuple[Any, ...]]:
    """Return the scopes in which the two disagree though both decide."""
    found = []
    for key, row in own.items():
        check, other = key[0], wire.get(key)
        if ANOMALIES[check].hidden or row["undecided"] or not row["examined"]:
            continue
        if other is None or other["undecided"]:
            continue
        agrees = row["count"] == other["count"]
        agrees |= bool(ANOMALIES[check].fewer) and other["count"] <= row["count"]
        agrees |= bool(ANOMALIES[check].more) and other["count"] >= row["count"]
        if not (agrees and other["examined"]):
            found.append((*key, row["count"], other["count"], other["examined"]))
    return found


def on_wire(run: Run) -> Resolved:
    """Change a run to one that is judged by the wire, and return it."""
    resolved = json.loads(run.resolved.read_text())
    resolved["scenario"]["capture"]["judged"] = "wire"
    run.resolved.write_text(json.dumps(resolved))
    return read(run)


@pytest.fixture(scope="module")
def recorded(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Summary, Summary]:
    """The summaries of the recorded run: by its ledgers, and by the wire."""
    run = Run(tmp_path_factory.mktemp("recorded") / RECORDED)
    with tarfile.open(Path(__file__).with_name("twice.tar.gz")) as archive:
        archive.extractall(run.path, filter="data")
    audit(spark, run, read(run).audited())
    own, resolved = summary(run), on_wire(run)
    tables.write_tables(spark, run)
    ledger.write_ledger(run, resolved.scenario)
    audit(spark, run, resolved.audited(ledger.seen(run)), ledger.folder_of(run))
    return own, summary(run)


def test_the_wire_and_the_ledgers_agree_on_duplicates_and_on_a_rebalance(recorded):
    own, wire = recorded
    assert differences(own, wire) == []
    key = "duplicate_write", "", "orders"
    assert own[key]["count"] == wire[key]["count"] > 0
    both = {k[0] for k, row in wire.items() if row["examined"] and own[k]["examined"] and not row["undecided"]}
    assert both >= {"lost_write", "reordered_write", "skipped_delivery", "double_ownership", "commit_rewind"}


def test_another_number_or_nothing_examined_is_a_difference(recorded):
    """The comparison can fail."""
    own, wire = recorded
    key = "duplicate_write", "", "orders"
    for change in ({"count": own[key]["count"] + 1}, {"examined": 0}):
        assert len(differences(own, wire | {key: wire[key] | change})) == 1
    assert differences(own, wire | {key: wire[key] | {"undecided": 1, "count": 0}}) == []
