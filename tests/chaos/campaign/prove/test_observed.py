"""What a finished run proves: a broken promise, a held one, something undecided, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.campaign.prove.judge import NOTHING_READ, NOTHING_WRITTEN, _anomalies, _state
from chaos.campaign.prove.plan import task
from chaos.guarantees.contract import contract
from chaos.run.result import Result
from tests.chaos.campaign.prove.apps import APPS, read, sets
from tests.chaos.campaign.prove.test_judge import anomaly

READ = {"acked": 900, "readers": [{"reader": "billing", "mode": "subscribe", "delivered": 900, "distinct": 900}]}
UNPROVEN = {
    "name": "crash",
    "check": "fault_proof",
    "expected": "1",
    "seen": "0",
    "verdict": "inconclusive",
    "why": "no proof",
}


def result(verdict: str = "pass", counts: dict[str, Any] = READ, **values: Any) -> Result:
    identity = dict.fromkeys(["run_id", "run_dir", "scenario", "title", "sentence", "command"], "text")
    times = {"seed": 1, "began_us": 0, "ended_us": 1, "versions": {}}
    return Result.model_validate({**identity, **times, "verdict": verdict, "counts": counts, **values})


@pytest.mark.parametrize(
    ("found", "anomalies", "state"),
    [
        (result(), [], "held"),
        (result(), [anomaly(state="allowed")], "held"),
        (result("fail"), [anomaly()], "broken"),
        (result("fail", expectations=[UNPROVEN]), [anomaly()], "broken"),
        (result("inconclusive", expectations=[UNPROVEN]), [], "unknown"),
        (result("inconclusive", expectations=[UNPROVEN]), [anomaly(state="not decided")], "unknown"),
        (result("inconclusive"), [anomaly(state="not decided")], "undecided"),
        (result("inconclusive"), [], "unknown"),
        (result(counts={**READ, "acked": 0}), [], "unknown"),
        (result(counts={"acked": 900}), [], "unknown"),
    ],
)
def test_what_a_run_proves(tmp_path: Path, found: Result, anomalies: list[Any], state: str) -> None:
    app = read(tmp_path, APPS["reliable"])
    scenario = task(app, sets(app)["leader-crash"], 1).subject.scenario
    assert _state(found, anomalies, scenario)[0] == state


def test_a_run_that_proves_nothing_says_why(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["reliable"])
    scenario = task(app, sets(app)["leader-crash"], 1).subject.scenario
    assert _state(result("inconclusive", expectations=[UNPROVEN]), [], scenario)[1] == "no proof"
    lost = anomaly(state="allowed")
    found = _state(result("inconclusive", expectations=[UNPROVEN]), [lost], scenario)
    assert found == ("unknown", f"{lost.text}, which does not count as an effect of the fault: no proof")
    assert _state(result(counts={**READ, "acked": 0}), [], scenario)[1] == NOTHING_WRITTEN
    assert _state(result(counts={"acked": 900}), [], scenario)[1] == NOTHING_READ


def test_a_producer_alone_has_nothing_to_read(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["acks-1"])
    scenario = task(app, sets(app)["leader-crash"], 1).subject.scenario
    assert _state(result(counts={"acked": 900}), [], scenario)[0] == "held"


def test_anomalies_have_the_state_and_the_reason_of_the_contract(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["acks-1"])
    derived = contract(task(app, sets(app)["leader-isolated"], 1).subject.scenario)
    totals = [
        {"check": "lost_write", "scope": "orders", "count": 3, "examined": 9},
        {"check": "corrupt_record", "scope": "orders", "count": 1, "examined": 9},
        {"check": "phantom_write", "scope": "orders", "count": 0, "examined": 9},
    ]
    found = {a.name: a for a in _anomalies(result(totals=totals), derived)}
    assert {name: a.state for name, a in found.items()} == {"lost_write": "allowed", "corrupt_record": "forbidden"}
    assert "leader alone acknowledges" in found["lost_write"].reason
