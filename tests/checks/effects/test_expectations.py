"""The numbers of effects against their bounds, in Great Expectations, and in words."""

import pyarrow as pa
import pytest

from chaos.report.junit import junit
from chaos.run.events import EventLog
from checks.effects.tables import FINDINGS, INPUTS, JUDGED, OPEN, SPANS, TOTALS, write_table
from checks.verdict.decision import collect
from tests.checks.effects.story import TOPIC, Story

pytestmark = pytest.mark.spark


JOINED = pa.schema([("effect", pa.string()), *((name, pa.int64()) for name in JUDGED)])


def joined(totals, without_id):
    """Return the joined table of these totals: all numbers in one row, between rows without any."""
    row = {"effect": "invoices"} | dict.fromkeys(JUDGED, 0) | dict.fromkeys(SPANS)
    most = dict(row)
    for total in (total for total in totals if total["count"] is not None):
        kind, least, more = total["kind"], total["count"], total["undecided"]
        if kind.startswith("late"):
            most |= {"least_us": least, "late_us": least + more}
        else:
            most |= {kind: least, f"{kind}{OPEN}": max(0, more - without_id)}
    return [row, most, row]


@pytest.fixture
def judged(tmp_path, validated):
    def run(totals, bounds="{}", effect=TOPIC, unsettled=False, **reads):
        story = Story(tmp_path / "story", effect, bounds)
        story.reads |= reads
        story.effects = [{"effect": "invoices", "id": "a"}] * reads.pop("rows", 3)
        story.write()
        if unsettled:
            EventLog(story.run).emit(
                "unsettled", effects=["invoices"], unchanged={"invoices": [14.2, 50.0]}, limit="20 s (limits.drain)"
            )
        base = {"effect": "invoices", "undecided": 0, "examined": 3, "why": ""}
        rows = [base | {"kind": k} | (v if isinstance(v, dict) else {"count": v}) for k, v in totals.items()]
        others = [row | {"effect": "mails", "count": 70} for row in rows]
        finding = {"effect": "invoices", "kind": "missing", "id": "a7", "topic": "orders", "partition": 1, "offset": 2}
        late = [finding | {"kind": "late", "id": "a8"}] if any(kind.startswith("late") for kind in totals) else []
        write = story.fake.write
        story.fake.write = lambda: (
            write(),
            write_table(story.run.audit / "effect_totals", [*others, *rows], TOTALS),
            write_table(story.run.audit / INPUTS / "invoices", joined(rows, story.reads["unreadable"]), JOINED),
            write_table(
                story.run.audit / "effect_findings",
                [
                    one | {"places": [], "times_us": []}
                    for of in (finding, *late)
                    for one in (of | {"effect": "mails", "id": "b1"}, of)
                ],
                FINDINGS,
            ),
        )
        found = validated(story.fake)
        result = collect(story.run, story.resolved, list(found.values()))
        of_effects = {k[1] or "read": e for k, e in found.items() if k[0] in ("effects", "effect_read")}
        return {kind: e.verdict for kind, e in of_effects.items()}, of_effects, result

    return run


AGGREGATE = "topic: invoices, id: key, aggregate: sum($.amount), by: $.customer"
CLEAN = {"missing": 0, "duplicate": 0, "unexpected": 0}
PASSED = dict.fromkeys([*CLEAN, "read"], "pass")


def test_without_bounds_none_may_be_missing_doubled_or_unexpected(judged):
    verdicts, _, _ = judged(CLEAN)
    assert verdicts == PASSED
    verdicts, _, result = judged(CLEAN | {"missing": 1})
    assert verdicts == PASSED | {"missing": "fail"}
    assert "1 effect in invoices is missing, for 3 inputs; a7 (orders/1 offset 2) has no invoices" in result.sentence
    assert result.effects[0].findings == {"missing": ["a7 (orders/1 offset 2) has no invoices"]}
    assert "Effect invoices: missing" in junit(result)


def test_the_sentence_says_what_was_done_and_what_the_bounds_allow(judged):
    _, _, result = judged(CLEAN)
    assert "Each of 3 inputs has its effect invoices, once and right." in result.sentence
    _, _, result = judged(CLEAN | {"duplicate": 2}, "{duplicate: {max: 2}}")
    assert "2 effects in invoices are more than the inputs must have, as the scenario allows." in result.sentence
    assert "Each of" not in result.sentence
    verdicts, _, result = judged(CLEAN | {"duplicate": {"count": 0, "undecided": 1}}, "{duplicate: {max: 2}}")
    assert verdicts == PASSED and "Each of" not in result.sentence, "one may have two"


@pytest.mark.parametrize(
    ("number", "verdict"), [(50, "pass"), (51, "fail"), ({"count": 50, "undecided": 1}, "inconclusive")]
)
def test_a_bound_of_the_scenario(judged, number, verdict):
    verdicts, _, _ = judged(CLEAN | {"duplicate": number}, "{duplicate: {max: 50}}")
    assert verdicts == PASSED | {"duplicate": verdict}


def test_an_effect_that_cannot_be_read_is_inconclusive_in_one_line(judged):
    why = "effect invoices cannot be read: no such table: invoice"
    verdicts, _, result = judged({}, error=why)
    assert verdicts == dict.fromkeys(CLEAN, "not applicable") | {"read": "inconclusive"}
    assert result.problems.count(why) == 1 and sum("invoices" in line for line in result.problems) == 1
    assert result.effects[0].error == why


def test_rows_without_an_id_are_inconclusive_in_one_line_unless_a_violation_is_certain(judged):
    more = {kind: {"count": 0, "undecided": 1} for kind in ("duplicate", "unexpected")}
    reads = {"unreadable": 1, "example": "invoices/0 offset 7: nothing is at $.order_id"}
    verdicts, _, result = judged(CLEAN | more, **reads)
    assert verdicts == dict.fromkeys(PASSED, "inconclusive") | {"missing": "pass"}
    line = "1 of 4 rows of effect invoices have no id (invoices/0 offset 7: nothing is at $.order_id)"
    assert [problem for problem in result.problems if "invoices" in problem] == [line]
    assert judged(CLEAN | {"missing": 2}, **reads)[0]["missing"] == "fail"
    (problem,) = (
        p for p in judged(CLEAN | more, **reads | {"unreadable": 4, "rows": 0})[2].problems if "invoices" in p
    )
    assert problem.endswith("; say where it is: `id` of the effect invoices in the scenario")


def test_no_effect_at_all_is_missing_and_never_a_pass(judged):
    nothing = {"missing": 3} | {kind: {"count": 0, "examined": 0} for kind in ("duplicate", "unexpected")}
    verdicts, _, _ = judged(nothing, rows=0)
    assert verdicts == {
        "missing": "fail",
        "duplicate": "not applicable",
        "unexpected": "not applicable",
        "read": "pass",
    }
    verdicts, _, _ = judged(nothing, "{missing: {max: 9}}", rows=0)
    assert verdicts == {"missing": "pass", "duplicate": "inconclusive", "unexpected": "inconclusive", "read": "pass"}


def test_ids_of_no_input_prove_nothing(judged):
    foreign = {"missing": 3, "duplicate": {"count": 0, "examined": 0}, "unexpected": {"count": 3, "examined": 3}}
    verdicts, _, result = judged(foreign)
    assert verdicts == dict.fromkeys(CLEAN, "not applicable") | {"read": "inconclusive"}
    line = (
        "none of 3 rows of effect invoices has the id of an input: effects[invoices].id names another place, or the "
        "application writes another id"
    )
    assert [problem for problem in result.problems if "invoices" in problem] == [line]
    assert result.effects[0].findings == {}, "what is missing is not known"
    assert judged(foreign, "{unexpected: 3}")[0]["missing"] == "fail", "the scenario expects them"
    one_own = {"missing": 2, "duplicate": 0, "unexpected": {"count": 2, "examined": 3}}
    assert judged(one_own)[0] == PASSED | {"missing": "fail", "unexpected": "fail"}
    unread = {"unexpected": {"count": 0, "undecided": 3, "examined": 0}}
    result = judged(foreign | unread, unreadable=3, example="row 1: there is no a (there are b)")[2]
    assert "3 of 6 rows of effect invoices have no id (row 1: there is no a (there are b))" in result.problems
    few = foreign | {"missing": {"count": 30, "examined": 30}}
    assert judged(few)[0]["missing"] == "fail", "they may be of something else"


def test_what_the_audit_did_not_count_is_never_a_pass(judged):
    assert judged({"duplicate": 0})[0] == PASSED | {"missing": "inconclusive", "unexpected": "inconclusive"}
    counted = {"missing": 0, "unexpected": 0, "wrong": 0}
    assert judged(counted, effect=f"{TOPIC}, equals: $.amount")[0]["duplicate"] == "inconclusive"
    assert judged(counted, effect=AGGREGATE)[0]["duplicate"] == "not applicable", "a later one takes over"
    of_query = AGGREGATE.replace("topic: invoices, id: key", "sql: 'env:DB', query: select 1, id: customer")
    assert judged(counted, effect=of_query)[0]["duplicate"] == "inconclusive"


def test_no_input_at_all_is_never_a_pass(judged):
    nothing = {kind: {"count": 0, "examined": 0} for kind in CLEAN}
    assert judged(nothing, rows=0)[0] == dict.fromkeys(CLEAN, "inconclusive") | {"read": "pass"}


def test_missing_effects_prove_nothing_while_others_still_come(judged):
    verdicts, found, _ = judged(CLEAN | {"missing": 1}, unsettled=True)
    assert verdicts["missing"] == "inconclusive"
    assert found["missing"].why == (
        "effect invoices is complete when it has not changed for 50 s, and when the drive ended its wait after 20 s "
        "(limits.drain), it was known not to have changed for 14.2 s; raise the limit"
    )
    assert judged(CLEAN | {"duplicate": 1}, unsettled=True)[0]["duplicate"] == "fail"


@pytest.mark.parametrize(
    ("bounds", "missing", "verdict"),
    [
        ("{missing: {max: 2}}", 2, "pass"),  # fewer are allowed, too
        ("{missing: {max: 2}}", 3, "inconclusive"),
        ("{missing: {min: 2}}", 2, "inconclusive"),  # fewer are not
        ("{missing: {min: 2}}", 1, "fail"),
        ("{missing: {min: 1, max: 2}}", 2, "inconclusive"),
    ],
)
def test_what_is_missing_can_only_become_less(judged, bounds, missing, verdict):
    assert judged(CLEAN | {"missing": missing}, bounds, unsettled=True)[0]["missing"] == verdict


@pytest.mark.parametrize(
    ("number", "bounds", "verdict"),
    [
        (0, "{}", "inconclusive"),
        (2, "{duplicate: {max: 2}}", "inconclusive"),
        (3, "{duplicate: {max: 2}}", "fail"),
        (0, "{duplicate: {min: 1}}", "inconclusive"),
        (1, "{duplicate: {min: 1}}", "pass"),
    ],
)
def test_a_number_that_may_still_rise_is_no_pass_below_its_bound(judged, number, bounds, verdict):
    verdicts, found, _ = judged(CLEAN | {"duplicate": number}, bounds, unsettled=True)
    assert verdicts["duplicate"] == verdict, found["duplicate"].why
    assert verdicts["missing"] == "pass", "each input has its effect already"


@pytest.mark.parametrize(
    ("effect", "unsettled", "verdict"),
    [
        (AGGREGATE, True, "inconclusive"),
        (AGGREGATE, False, "fail"),
        (f"{TOPIC}, equals: $.amount", True, "fail"),
    ],
)
def test_a_wrong_value_of_an_aggregate_may_still_become_right(judged, effect, unsettled, verdict):
    counted = {"missing": 0, "unexpected": 0, "wrong": 1}
    assert judged(counted, effect=effect, unsettled=unsettled)[0]["wrong"] == verdict


@pytest.mark.parametrize(
    ("least_s", "most_s", "unsettled", "verdict"),
    [
        *((1, 5, False, "pass"), (1, 6, False, "inconclusive"), (5.001, 6, False, "fail")),
        *((None, 0, False, "inconclusive"), (1, 5, True, "inconclusive")),
    ],
)
def test_times_are_compared_as_ranges(judged, least_s, most_s, unsettled, verdict):
    least = None if least_s is None else round(least_s * 1e6)
    late = {"count": least, "undecided": round(most_s * 1e6) - (least or 0), "why": "no input has an effect"}
    verdicts, found, result = judged(CLEAN | {"late p99": late}, "{late: {p99: 5s}}", unsettled=unsettled)
    assert verdicts["late p99"] == verdict, found["late p99"].why
    assert ("p99 ≤ 5 s; a8 (orders/1 offset 2) has its invoices late" in result.sentence) == (verdict == "fail")
    assert least is not None or found["late p99"].why == "no input has an effect"


@pytest.mark.parametrize(("count", "verdict"), [(2, "pass"), (3, "fail"), (None, "inconclusive")])
def test_what_was_behind_is_decided_while_effects_still_come(judged, count, verdict):
    row = {"count": count, "examined": 9, "undecided": 0, "why": "when crash came, the oldest for 1.4 s"}
    verdicts, found, _ = judged(CLEAN | {"behind": row}, "{behind: {max: 2}}", unsettled=True)
    assert verdicts["behind"] == verdict, found["behind"].why
    if count is not None:
        assert found["behind"].seen == f"{count} of 9 inputs when crash came, the oldest for 1.4 s"
