"""Generated histories, many to an audit, against an oracle that goes through them in plain Python.

`AUDIT_HISTORIES=20000 AUDIT_SEED=7 pytest tests/checks/audit/test_oracle.py` soaks with others than the usual ones.
The standard lane has few, the nightly lane `AUDIT_HISTORIES=4000`.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from chaos.anomalies import ANOMALIES
from tests.checks.audit.generator import carry_out
from tests.checks.audit.histories import JUDGED, by_oracle, meant_by
from tests.checks.audit.oracle import judge
from tests.checks.audit.planning import planned
from tests.checks.audit.shrinking import compare, shrink, written
from tests.checks.audit.stories import STORIES
from tests.checks.audit.story import TOKEN, Story, rows_of, scenario_of

HISTORIES = int(os.environ.get("AUDIT_HISTORIES", "200"))
SEED = int(os.environ.get("AUDIT_SEED", "0"))
AN_AUDIT = 1_000
"""Histories to one audit."""


@pytest.mark.parametrize("name", STORIES)
def test_the_oracle_agrees_with_every_story(name: str) -> None:
    write, expected = STORIES[name]
    story = Story(name, 1)
    write(story)
    expected = {check: count for check, count in expected.items() if check.partition(".")[0] in JUDGED}
    assert meant_by(judge(rows_of([story]), scenario_of([story]), TOKEN)) == expected


@pytest.mark.nightly(twin="checks/audit/test_mutations.py::test_every_check_is_meant_by_some_change[some]")
def test_generated_histories_break_every_rule() -> None:
    meant: Counter[str] = Counter()
    for plan in planned(2400, SEED):
        meant.update(set(meant_by(by_oracle(carry_out(plan)))) or {"clean"})
    checks = {f"{check}.{split}" if split else check for check in JUDGED for split in ANOMALIES[check].splits or [""]}
    assert checks <= set(meant)
    assert meant["clean"] > 30


@pytest.mark.slow
@pytest.mark.timeout(max(600, HISTORIES))
def test_the_audit_counts_what_the_oracle_counts(spark: Any) -> None:
    plans = planned(HISTORIES, SEED)
    for first in range(0, len(plans), AN_AUDIT):
        histories = [carry_out(plan) for plan in plans[first : first + AN_AUDIT]]
        differing = [h for h, found in zip(histories, compare(spark, histories), strict=True) if found]
        # histories of one audit have the end of their drive in common; alone, each has its end
        differing = [h for h in differing if compare(spark, [h])[0]]
        if differing:
            smallest = shrink(min(differing, key=lambda h: h.size()), lambda some: compare(spark, some))
            found = compare(spark, [smallest])[0]
            pytest.fail(f"{len(differing)} histories of {len(histories)}; the smallest: {written(smallest, found)}")
