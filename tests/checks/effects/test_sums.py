"""Effects of all inputs of a key, such as sums: a violation, a clean run and a near miss of each kind."""

from __future__ import annotations

import pytest

from checks.effects import aggregates, judge
from tests.checks.effects.story import COMPACTED, transaction, words
from tests.support.fake_runs import SECOND, T0

pytestmark = [pytest.mark.spark, pytest.mark.landing]


@pytest.fixture
def untold(monkeypatch):
    """The findings before their stories are added."""
    found = []
    monkeypatch.setattr(judge, "add_stories", lambda spark, run, resolved, findings, listed: found.extend(findings))
    return found


SUM = "topic: invoices, id: key, aggregate: sum($.amount), by: $.customer"


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ({"anna": "3", "bob": "10"}, {}),
        ({"anna": "3.00", "bob": "10"}, {}),
        ({"anna": "2", "bob": "10"}, {"wrong": 1}),
        ({"anna": "3"}, {"missing": 1}),
        ({"anna": "3", "bob": "10", "eve": "1"}, {"unexpected": 1}),
    ],
)
def test_an_aggregate_is_compared_with_the_inputs_of_its_key(spark, story, last, expected):
    s = story(SUM, inputs=0)
    for seq, (customer, amount) in enumerate([("anna", "1"), ("anna", "2"), ("bob", "10")]):
        s.input(seq, value=(amount, customer))
    s.effect("anna", at=1, value="1")
    s.effect("anna", at=9, value="9")  # of the same time as the last one, and before it
    for customer, amount in last.items():
        s.effect(customer, at=9, value=amount)
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 0} | expected
    wrong = words(s, "wrong")
    assert ["(invoices/0 offset 2 at 9.0 s)" in line for line in wrong] == [True] * len(wrong), "not the first one"


@pytest.mark.parametrize(
    ("aggregate", "value"),
    [("sum($.amount)", "11"), ("count(), value: $.n", "3"), ("min($.amount)", "-1"), ("max($.amount)", "10")],
)
def test_an_aggregate_counts_each_input_of_a_key_once(spark, story, aggregate, value):
    s = story(SUM.replace("sum($.amount)", aggregate), inputs=0)
    for seq, (amount, customer) in enumerate([("2", "anna"), ("-1", "anna"), ("10", "anna"), ("5", None)]):
        s.input(seq, copies=2, value=(amount, customer))
    s.effect("anna", at=9, value=value)
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 0}
    assert {kind: row["examined"] for kind, row in s.totals.items()} == dict.fromkeys(s.totals, 1)


OF_QUERY = SUM.replace("topic: invoices, id: key", "sql: 'env:DB', query: select 1, id: customer")


def test_only_a_query_has_two_rows_of_a_key(spark, story):
    """In a topic, the later one takes over."""
    s = story(OF_QUERY, inputs=0)
    s.input(0, value=("1", "anna"))
    for at in (1, 2):
        s.effect("anna", at=at, value="1")
    assert s.judge(spark) == {"missing": 0, "duplicate": 1, "unexpected": 0, "wrong": 0}


def test_rows_of_keys_that_were_there_before_the_run_are_no_effects_of_it(spark, story):
    s = story(OF_QUERY, inputs=0)
    for id_, at, after in (("anna", 0.4, 0.2), ("old", -5, None), ("old", -5, None)):
        s.effect(id_, value="1")
        s.seen(at, after)
    s.input(0, value=("1", "anna"))
    assert s.judge(spark) == {"missing": 0, "duplicate": 0, "unexpected": 0, "wrong": 0}
    s.effect("whose", value="2")
    s.seen(0.4, None)
    assert s.judge(spark) == {"missing": 0, "duplicate": 0, "unexpected": (0, 1), "wrong": 0}
    s.effect("old", value="2")
    s.seen(0.6, 0.4)
    s.effect("whose", value="3")
    s.seen(0.6, 0.4)
    expected = {"missing": 0, "duplicate": 0, "unexpected": (2, 3), "wrong": 0}
    assert s.judge(spark) == expected, "of each key the new row, and the one that may be older"


def test_a_sum_is_shown_as_a_plain_number_and_may_be_zero(spark, story):
    s = story(SUM, inputs=0)
    for seq, (customer, amount) in enumerate([("anna", "5"), ("anna", "-5"), ("bob", "99.5"), ("bob", "0.50")]):
        s.input(seq, value=(amount, customer))
    s.effect("anna", at=9, value="0")
    s.effect("bob", at=9, value="90.5")
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 1}
    assert words(s, "wrong")[0].startswith("bob (acknowledged at 2.1 s) has 90.5 in invoices and not 100 (")


def test_a_sum_of_what_is_no_number_is_undecided_unless_it_is_without_it(spark, story):
    s = story(SUM, inputs=0)
    amounts = [("anna", "x"), ("bob", "1"), ("bob", "1e"), ("eve", "1"), ("eve", ""), ("pia", "1")]
    amounts += [("mia", "9" * 28)] * 2
    for seq, (customer, amount) in enumerate(amounts):
        s.input(seq, value=(amount, customer))
    for customer, value in (("anna", "0"), ("bob", "2"), ("eve", "1"), ("mia", f"2{'0' * 28}"), ("pia", "2")):
        s.effect(customer, at=9, value=value)
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": (1, 4)}


@pytest.mark.parametrize(("aggregate", "explained"), [("sum($.amount)", True), ("max($.amount)", False)])
def test_a_wrong_sum_has_the_amounts_of_its_inputs(spark, story, untold, aggregate, explained):
    """The wire is not asked about one that the log explains."""
    s = story(SUM.replace("sum($.amount)", aggregate), inputs=0)
    for seq, (customer, copies) in enumerate([("anna", 1), ("anna", 1), ("bob", 2), ("eve", 1)]):
        s.input(seq, copies=copies, value=(str(seq + 1), customer))
    s.input(4, value=("5", "anna"))
    transaction(s, 1, "aborted", committed=False)  # no part of the sum
    for customer, value in (("anna", "9"), ("bob", "6"), ("eve", "4")):
        s.effect(customer, at=9, value=value)
    assert s.judge(spark)["wrong"] == 2
    inputs = {row["id"]: row.get("inputs") for row in untold}
    assert set(inputs) == {"anna", "bob"} and not inputs["bob"]
    places = sorted((row["offset"], int(row["amount"])) for row in inputs["anna"] or ())
    assert places == ([(0, 1), (1, 2)] if explained else [])


def test_an_aggregate_over_an_input_of_unknown_outcome_is_undecided(spark, story):
    s = story(SUM, inputs=0)
    s.input(0, value=("1", "anna"))
    s.input(1, "unknown", copies=1, value=("2", "anna"))
    s.effect("anna", at=9, value="3")
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": (0, 1)}
    s.effects.clear()
    assert s.judge(spark) == {"missing": 1, "unexpected": 0, "wrong": 0}, "with or without the second input"


def test_an_aggregate_with_a_lost_input_is_undecided(spark, story):
    s = story(SUM, inputs=0)
    s.input(0, value=("1", "anna"))
    s.input(1, copies=0)
    s.effect("anna", at=9, value="3")
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": (0, 1)}


@pytest.mark.parametrize(
    ("committed", "seen", "expected"),
    [
        (False, "1", {}),
        (False, "3", {"wrong": 1}),
        (True, "3", {"wrong": (0, 1)}),
    ],
)
def test_an_aggregate_has_no_part_of_an_aborted_input(spark, story, committed, seen, expected):
    s = story(SUM, inputs=0)
    s.input(0, value=("1", "anna"))
    s.input(1, value=("2", "anna"))
    transaction(s, 1, "aborted", committed)  # near miss: an error, and the record is in the log all the same
    s.effect("anna", at=9, value=seen)
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 0} | expected


def test_an_aggregate_has_no_part_of_an_input_that_no_application_could_read(spark, story):
    """It was aborted, and sent again, which never came to the log."""
    s = story(SUM, inputs=0)
    s.input(0, value=("1", "anna"))
    s.effect("anna", at=9, value="3")
    s.input(1, value=("2", "anna"))
    transaction(s, 1, "unknown", committed=False)
    s.sends.append(s.sends[-1] | {"incarnation": 2, "txn": None, "outcome": "unknown"})
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 1}
    s.logged(1, offset=9, value=("2", "anna"))
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": (0, 1)}


def test_an_aggregate_of_a_failed_input_is_not_missing(spark, story):
    """The near miss of one of unknown outcome: that it is in the log is the fault of its producer."""
    s = story(SUM, inputs=0)
    s.input(0, "fail", copies=1, value=("1", "anna"))
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 0}
    s.effect("anna", at=9, value="1")
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 0}


def test_an_aggregate_of_aborted_inputs_alone_is_unexpected(spark, story):
    s = story(SUM, inputs=0)
    s.input(0, value=("1", "anna"))
    s.input(1, value=("2", "eve"))
    transaction(s, 1, "aborted", committed=False)
    s.effect("anna", at=9, value="1")
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 0}
    s.effect("eve", at=9, value="2")
    assert s.judge(spark) == {"missing": 0, "unexpected": 1, "wrong": 0}


def test_an_aggregate_of_a_key_may_be_of_inputs_that_are_no_longer_in_the_log(spark, story):
    s = story(SUM, inputs=0)
    s.input(0, value=("1", "anna"))
    s.effect("anna", at=9, value="1")
    s.effect("bob", at=9, value="2")
    s.input(1, "unknown", copies=0)
    assert s.judge(spark) == {"missing": 0, "unexpected": 1, "wrong": 0}, "it was never written"
    s.fake.log_range[-1]["start"] = 5
    assert s.judge(spark) == {"missing": 0, "unexpected": 1, "wrong": 0}, "that is another topic"
    s.fake.log_range[0]["start"] = 5
    assert s.judge(spark) == {"missing": 0, "unexpected": (0, 1), "wrong": 0}, "or it was deleted"
    s.fake.log_range[0]["start"] = 0
    s.input(2, copies=0)
    assert s.judge(spark) == {"missing": 0, "unexpected": (0, 1), "wrong": 0}
    s = story(SUM, inputs=0, scenario=COMPACTED)
    s.input(0, "unknown", copies=0)
    s.effect("bob", at=9, value="2")
    assert s.judge(spark) == {"missing": 0, "unexpected": (0, 1), "wrong": 0}, "or compaction removed it"


def test_an_aggregate_of_inputs_of_unknown_outcome_may_be_missing(spark, story):
    s = story(SUM, inputs=0)
    s.input(0, value=("1", "anna"))
    s.effect("anna", at=9, value="1")
    s.input(1, "unknown", copies=1, value=("2", "bob"))
    assert s.judge(spark) == {"missing": (0, 1), "unexpected": 0, "wrong": 0}
    s.effect("bob", at=9, value="2")
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 0}


def test_an_aborted_input_that_is_no_number_leaves_the_sum_decided(spark, story):
    s = story(SUM, inputs=0)
    s.input(0, value=("1", "anna"))
    s.input(1, value=("x", "anna"))
    transaction(s, 1, "aborted", committed=False)
    s.effect("anna", at=9, value="5")
    assert s.judge(spark) == {"missing": 0, "unexpected": 0, "wrong": 1}


def test_each_place_of_a_key_without_an_input_is_named(spark, story):
    s = story(SUM, inputs=0)
    for at in (8, 9):
        s.effect("eve", at=at, value="1")
    assert s.judge(spark) == {"missing": 0, "unexpected": 2, "wrong": 0}
    assert [f["places"] for f in s.findings] == [["invoices/0 offset 0", "invoices/0 offset 1"]]


def test_a_wrong_sum_is_examined_only_where_there_is_one(spark, story):
    s = story(SUM, inputs=0)
    for seq, customer in enumerate(("anna", "bob")):
        s.input(seq, value=("1", customer))
    s.effect("anna", at=9, value="1")
    s.effect("eve", at=9, value="1")
    assert s.judge(spark) == {"missing": 1, "unexpected": 1, "wrong": 0}
    assert {kind: row["examined"] for kind, row in s.totals.items()} == {"missing": 2, "unexpected": 2, "wrong": 1}


def test_the_finding_of_a_sum_has_the_first_input_and_the_last_effect_of_the_key(spark, story):
    s = story(SUM, inputs=0)
    for seq in (3, 1):
        s.input(seq, value=("1", "anna"))
    for at in (8, 9, 7):
        s.effect("anna", at=at, value="1")
    assert s.judge(spark)["wrong"] == 1
    (finding,) = s.findings
    assert finding["acked_us"] == T0 + SECOND + SECOND // 10
    assert finding["at_us"] == T0 + 9 * SECOND
    assert (finding["expected"], finding["found"]) == ("2", "1")


@pytest.mark.parametrize(("aggregate", "value"), [("sum($.amount)", "9"), ("count(), value: $.n", "9")])
@pytest.mark.parametrize(("most", "listed"), [(3, True), (2, False)])
def test_the_inputs_of_wrong_sums_are_named_if_they_are_not_too_many(
    spark, story, untold, monkeypatch, aggregate, value, most, listed
):
    monkeypatch.setattr(aggregates, "MOST_INPUTS", most)
    s = story(SUM.replace("sum($.amount)", aggregate), inputs=0)
    for seq, customer in enumerate(("anna", "anna", "bob", "eve")):
        s.input(seq, value=(str(seq + 1), customer))
    for customer, seen in (("anna", value), ("bob", value), ("eve", "1" if "count" in aggregate else "4")):
        s.effect(customer, at=9, value=seen)
    assert s.judge(spark)["wrong"] == 2
    inputs = {row["id"]: sorted(int(one["amount"]) for one in row.get("inputs") or ()) for row in untold}
    assert inputs == ({"anna": [1, 2], "bob": [3]} if listed else {"anna": [], "bob": []})
