"""What became of inputs where the ledger, or the log, says only a part."""

from __future__ import annotations

import pytest

from checks.effects.findings import sentence
from tests.checks.effects.story import Story
from tests.support.fake_runs import T0

pytestmark = [pytest.mark.spark, pytest.mark.landing]

CLEAN = {"missing": 0, "duplicate": 0, "unexpected": 0}


@pytest.mark.parametrize(("ended", "expected"), [("aborted", {"unexpected": 1}), ("committed", {}), ("unknown", {})])
def test_the_end_of_a_transaction_counts_where_the_log_has_no_record_of_it(spark, tmp_path, ended, expected):
    s = Story(tmp_path / "story")
    s.input(0, copies=0, txn=1)
    row = {"producer": "shop/1", "incarnation": 1, "txn": 1, "outcome": ended, "began_us": T0, "ended_us": T0}
    s.fake.ledger["transactions"] = [row]
    s.effect(0)
    assert s.judge(spark) == CLEAN | expected


@pytest.mark.parametrize(("committed", "lost"), [(None, False), (True, False), (False, True)])
def test_a_record_is_there_unless_the_log_says_that_it_was_aborted(spark, tmp_path, committed, lost):
    s = Story(tmp_path / "story")
    s.input(0, copies=0)
    s.logged(0, committed=committed)
    assert s.judge(spark) == CLEAN | {"missing": 1}
    (finding,) = s.findings
    assert ("lost_write" in sentence(finding, T0)) is lost


@pytest.mark.parametrize(("effects", "twice"), [(1, 0), (2, 1)])
def test_a_record_without_a_row_in_the_ledger_has_one_effect(spark, tmp_path, effects, twice):
    s = Story(tmp_path / "story")
    s.input(0)
    s.effect(0)
    s.logged(1)
    for _ in range(effects):
        s.effect(1)
    assert s.judge(spark) == CLEAN | {"duplicate": twice}


@pytest.mark.parametrize(("own", "missing"), [(True, 0), (False, 1)])
def test_a_uuid_of_another_run_is_no_effect_of_an_input(spark, tmp_path, own, missing):
    s = Story(tmp_path / "story")
    s.input(0)
    id_ = s.id(0, kind="uuid")
    s.effect(id_ if own else id_.replace(s.ids.run_token, "0" * 8), at=1)
    assert s.judge(spark) == CLEAN | {"missing": missing}


def test_a_sum_of_inputs_that_no_application_could_read_is_not_missing(spark, tmp_path):
    """Its record was aborted, and the outcome of the send that followed is unknown and not in the log."""
    s = Story(tmp_path / "story", "topic: invoices, id: key, aggregate: sum($.amount), by: $.customer")
    s.input(0, "unknown", txn=1, copies=0)
    s.logged(0, value=("1", "anna"), committed=False)
    row = {"producer": "shop/1", "incarnation": 1, "txn": 1, "outcome": "unknown", "began_us": T0, "ended_us": T0}
    s.fake.ledger["transactions"] = [row]
    s.sends.append(s.sends[-1] | {"incarnation": 2, "txn": None})
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 0}
    assert s.totals["missing"]["examined"] == 0


@pytest.mark.parametrize(("found", "wrong"), [("5", 0), ("6", 1)])
def test_the_value_of_an_input_is_the_one_of_its_copy_that_has_one(spark, tmp_path, found, wrong):
    s = Story(tmp_path / "story", "topic: invoices, id: $.order_id, equals: $.amount, value: $.total")
    s.input(0, copies=2, value="5")
    s.values[0]["value"] = None
    s.effect(0, value=found)
    assert s.judge(spark) == CLEAN | {"wrong": wrong}
