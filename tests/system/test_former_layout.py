"""A bundle that was made before the packages were rearranged: audited, replayed and recorded as one of today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.anomalies.shares import SHARES
from tests.support.platform import chaos, left_running

BUNDLE = Path(__file__).parent / "data" / "former-layout.aftershock.tar.gz"
"""A run of `acks1-leader-kill --variant acks-1`, which loses records."""
ADDED = (
    *("lost_key", "resurrected_key", "returned_record", "expired_commit", "lost_commit"),
    *("missing_output", "duplicate_output", "unconsumed_output", "wrong_count"),
    *SHARES,
    "competing_controllers",
    *("backdated_write", "overdue_record"),
)
"""Kinds that the audit finds since the run was made."""
COUNTED_SINCE: dict[str, Any] = {
    **{"gone": 0, "superseded": 0, "expired_tombstones": 0},  # no topic was deleted or compacted
    **{"evicted": 0, "evicted_by": "", "refused_timestamps": 0},  # retention removed nothing, and timestamps were right
    **{"commits_unknown": 0, "commits_by_log_ok": 0, "commits_by_log_fail": 0, "commits_left_out": {}},
}
"""Numbers that the audit reports since the run was made: all zero for this run, where every commit has its answer."""


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("former")


@pytest.fixture(scope="module")
def run_dir(runs_dir: Path) -> Path:
    unpacked = chaos("unbundle", BUNDLE, "--runs-dir", runs_dir)
    assert unpacked.code == 0, unpacked.err
    (found,) = (path for path in runs_dir.iterdir() if path.is_dir())
    return found


def test_the_audit_finds_what_it_found_then(run_dir: Path) -> None:
    then = json.loads((run_dir / "result.json").read_text())
    ended = chaos("audit", run_dir, "--json")
    assert ended.code == 0, ended.err
    found: dict[bool, list[Any]] = {True: [], False: []}
    for total in ended.result["totals"]:
        found[total["check"] in ADDED].append(total)
    assert found[False] == then["totals"]
    assert not any(total["count"] for total in found[True])
    assert ended.result["counts"] == then["counts"] | COUNTED_SINCE
    judged = [e for e in ended.result["expectations"] if e["check"] not in ADDED]
    assert ["pass" if e["verdict"] == "not applicable" else e["verdict"] for e in judged] == [
        e["verdict"] for e in then["expectations"]
    ]
    assert len(ended.result["findings"]) == len(then["findings"]) > 0


def test_the_history_records_it(run_dir: Path, runs_dir: Path) -> None:
    database = f"sqlite:///{runs_dir}/history.sqlite"
    imported = chaos("history", "import", run_dir, "--history", database)
    assert imported.code == 0, imported.err
    shown = chaos("history", "--history", database, "--json")
    assert run_dir.name in shown.out


@pytest.mark.nightly(twin="system/test_incident.py::test_a_replay_shows_the_same_with_the_same_releases")
@pytest.mark.kafka
def test_a_replay_loses_records_again(runs_dir: Path) -> None:
    ended = chaos("replay", BUNDLE, "--json", "--runs-dir", runs_dir / "again")
    assert (ended.code, json.loads(ended.out)["same"]) == (0, True), ended.err[-3000:]
    assert left_running(runs_dir) == []
