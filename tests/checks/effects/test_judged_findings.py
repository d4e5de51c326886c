"""What findings name: ids as their producers wrote them, values, the slowest effects, and how early effects are."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from checks.effects import judge, judged
from checks.effects.findings import sentence
from checks.effects.tables import BEHIND, INPUTS, OPEN
from checks.evidence import audit_rows
from tests.checks.effects.story import SCENARIO, TOPIC, Story
from tests.support.fake_runs import SECOND, T0

pytestmark = [pytest.mark.spark, pytest.mark.landing]

NUMBERS = SCENARIO.replace("{{id}}", "{{id:number}}")

UNBOUNDED = SCENARIO.partition("expect:")[0]


def words(story, kind):
    return [sentence(f, T0) for f in story.findings if f["kind"] == kind]


def test_a_missing_input_has_the_id_that_its_producer_wrote(spark, tmp_path, monkeypatch):
    """Those acknowledged first are named, up to a limit; the number is exact."""
    monkeypatch.setattr(judged, "CAP", 2)
    s = Story(tmp_path / "story", scenario=NUMBERS)
    for seq in range(3):
        s.input(seq)
    assert s.judge(spark)["missing"] == 3
    first, second = words(s, "missing")
    assert first.startswith(f"{s.id(0, kind='number')} (orders/0 offset 0,")
    assert second.startswith(f"{s.id(1, kind='number')} (orders/0 offset 1,")


def test_the_slowest_effects_are_named_and_inputs_without_one_are_not(spark, tmp_path):
    s = Story(tmp_path / "story")
    for seq in range(4):
        s.input(seq)
    for seq, after in ((0, 0.4), (1, 0.9), (2, 0.6)):
        s.effect(seq, at=seq + after)
    for seq, at in ((70, 9), (71, 5), (70, 1)):  # of no input
        s.effect(seq, at=at)
    assert s.judge(spark)["missing"] == 1
    assert [f["id"] for f in s.findings if f["kind"] == "unexpected"] == [s.id(70), s.id(71)], (
        "by the first one of each"
    )
    assert [f["id"] for f in s.findings if f["kind"] == "late"] == [s.id(1), s.id(2), s.id(0)]


def test_times_are_rounded_up_to_whole_milliseconds(spark, tmp_path):
    s = Story(tmp_path / "story")
    s.input(0)
    s.effect(0, at=0.500001)
    s.judge(spark)
    assert s.late() == 0.401
    unbounded = pq.read_table(s.run.audit / INPUTS, columns=[BEHIND, f"{BEHIND}{OPEN}"]).to_pylist()
    assert unbounded == [{BEHIND: 0, f"{BEHIND}{OPEN}": 0}], "nothing bounds what is behind"


def test_the_earliest_effect_says_how_wrong_a_clock_is(spark, tmp_path):
    s = Story(tmp_path / "story")
    for seq, at in ((0, -3600), (1, 1.5)):
        s.input(seq)
        s.effect(seq, at=at)
    s.judge(spark)
    assert s.late().startswith("1 effects are before their inputs, by up to 3600s")


def test_a_value_that_is_missing_is_named_as_such(spark, tmp_path):
    s = Story(tmp_path / "story", f"{TOPIC}, equals: $.amount", scenario=UNBOUNDED)
    s.input(0, value="1")
    s.effect(0)
    s.effect(0, value="2")
    assert s.judge(spark)["wrong"] == 2
    assert "has no value in invoices and not 1" in words(s, "wrong")[0]


def test_no_more_than_the_five_slowest_effects_are_named(spark, tmp_path):
    s = Story(tmp_path / "story")
    for seq in range(7):
        s.input(seq)
        s.effect(seq, at=1.5 * seq + 0.4)
    assert s.judge(spark)["missing"] == 0
    assert [f["id"] for f in s.findings if f["kind"] == "late"] == [s.id(seq) for seq in (6, 5, 4, 3, 2)]


def test_only_effects_of_inputs_are_examined_for_values_and_duplicates(spark, tmp_path):
    s = Story(tmp_path / "story", f"{TOPIC}, equals: $.amount")
    s.input(0, value="1")
    s.effect(0, value="1")
    s.effect("no-id-of-ours", at=1)
    assert s.judge(spark)["unexpected"] == 1
    examined = {kind: s.totals[kind]["examined"] for kind in ("duplicate", "wrong", "unexpected")}
    assert examined == {"duplicate": 1, "wrong": 1, "unexpected": 2}


def test_an_input_that_is_acknowledged_in_the_microsecond_of_a_fault_is_examined(spark, tmp_path):
    s = Story(tmp_path / "story", bounds="{behind: {max: 5}}")
    s.input(0)
    s.effect(0)
    row = {"fault": "crash", "kind": "app.kill", "target": "billing/1", "evidence": "", "phase": "injected"}
    s.fake.ledger["faults"].append(row | {"at_us": T0 + SECOND // 10})
    assert s.judge(spark)["behind"] == 1
    assert s.totals["behind"]["examined"] == 1


def test_an_effect_that_can_no_longer_be_read_keeps_no_rows_of_an_earlier_judgement(spark, tmp_path):
    s = Story(tmp_path / "story")
    s.input(0)
    s.reads["error"] = "the database did not answer"
    s.write()
    (s.run.audit / INPUTS / "of-invoices").mkdir(parents=True)
    judge.judge_effects(spark, s.run, s.resolved)
    assert not (s.run.audit / INPUTS).exists()
    assert not audit_rows(s.run, "effect_totals") and not audit_rows(s.run, "effect_findings")
