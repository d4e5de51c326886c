"""Competing controllers: rows of the observer by hand.

The rule concerns the whole run, so it is no story: all stories are audited as one run.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from checks.audit.engine.tally import FINDINGS, Tally
from checks.audit.facts.observed import Observed
from checks.audit.rules import quorum

SECOND = 1_000_000
Answer = tuple[int, int, int, int]
"""Controller, epoch, time of the first answer as active, time of the last request that was answered so."""


def rows_of(*answers: Answer) -> list[dict[str, Any]]:
    rows = []
    for controller, epoch, begun, asked in answers:
        last = json.dumps({"epoch": epoch, "asked_us": asked})
        for at_us, key, value in ((begun, "active", str(epoch)), (asked + 10, "active_last", last)):
            rows.append({"at_us": at_us, "entity": f"controller:{controller}", "key": key, "value": value})
        rows.append({"at_us": asked + 11, "entity": f"controller:{controller}", "key": "active", "value": "null"})
    return sorted(rows, key=lambda r: r["at_us"])


def judged(rows: list[dict[str, Any]], **config: Any) -> tuple[list[dict[str, Any]], int]:
    """Return the evidence of each finding, and the number of terms examined."""
    scenario = SimpleNamespace(cluster=SimpleNamespace(config=config))
    run: Any = SimpleNamespace(observed=Observed(rows, 100 * SECOND), scenario=scenario, last_fault=lambda at_us: "cut")
    tally = Tally()
    quorum.competing_controllers(run, tally)
    found = [row for _, (_, shown) in tally.each(FINDINGS) for row in shown]
    return [json.loads(row["evidence"]) for row in found], tally.count(quorum.TERMS, quorum.SCOPE)


FIRST, LATER = (101, 1, SECOND, 5 * SECOND), (102, 2, 3 * SECOND, 9 * SECOND)


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([FIRST, LATER], 0),  # together for exactly the fetch timeout
        ([(101, 1, SECOND, 5 * SECOND + 1), LATER], 1),
        ([(101, 1, SECOND, 3 * SECOND), LATER], 0),
        ([(101, 2, SECOND, 3 * SECOND + 1), LATER], 1),  # one epoch
        ([FIRST, (101, 3, 20 * SECOND, 30 * SECOND), (102, 2, 9 * SECOND, 19 * SECOND)], 0),
        ([(101, 1, SECOND, 9 * SECOND), LATER, (103, 3, 5 * SECOND, 9 * SECOND)], 2),
        ([FIRST], 0),
        ([], 0),
    ],
)
def test_a_controller_beside_a_later_one_for_too_long_is_found(answers: list[Answer], found: int) -> None:
    evidence, examined = judged(rows_of(*answers))
    assert (len(evidence), examined) == (found, len(answers))


def test_the_limit_is_the_fetch_timeout_of_the_quorum() -> None:
    rows = rows_of((101, 1, SECOND, 8 * SECOND), LATER)
    (evidence,), _ = judged(rows)
    assert evidence == {
        **{"controller": 101, "epoch": 1, "other": 102, "other_epoch": 2},
        **{"together_us": 5 * SECOND, "limit_us": 2 * SECOND, "fault": "cut"},
    }
    said = quorum.RULES["competing_controllers"].explain({}, evidence, None)  # type: ignore[operator, arg-type]
    assert said == "controller 101 answered as active in epoch 1 until 5.0 s after controller 102 was active in epoch 2"
    assert judged(rows, **{"controller.quorum.fetch.timeout.ms": 5000})[0] == []
    assert len(judged(rows, **{"controller.quorum.fetch.timeout.ms": 4999})[0]) == 1
