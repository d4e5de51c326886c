"""The moments from which an outage is measured."""

from __future__ import annotations

import json
from typing import Any

from checks.audit.facts.observed import injections


def row(fault: str, phase: str, at_us: int, **evidence: Any) -> dict[str, Any]:
    return {"fault": fault, "phase": phase, "at_us": at_us, "evidence": json.dumps({"words": "", **evidence})}


def test_each_node_that_a_fault_restarts_in_turn_is_a_moment_of_its_own() -> None:
    steps = [{"node": "broker 1", "down_us": 12}, {"node": "broker 2", "down_us": 20}]
    rows = [
        row("kill", "injecting", 1),
        row("kill", "injected", 2),
        row("upgrade", "injecting", 10, steps=[]),
        row("upgrade", "injected", 30, steps=steps),
        row("upgrade", "proven", 31, steps=steps),
    ]
    assert injections(rows) == {"kill": 2, "upgrade": 30, "upgrade: broker 1": 12, "upgrade: broker 2": 20}


def test_a_fault_that_failed_has_no_moment() -> None:
    assert injections([row("upgrade", "failed", 9, steps=[{"node": "broker 1", "down_us": 5}])]) == {}
