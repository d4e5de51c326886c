"""What is known of the numbers of an effect before they are compared with their bounds."""

from __future__ import annotations

import html
import json

import pytest

from checks.effects.tables import BEHIND, FINDINGS, TOTALS, write_table
from checks.expectations import bounds
from checks.expectations.contract import Term, terms
from checks.expectations.judge import Observation
from checks.expectations.measure import Measure, _may_change
from checks.expectations.validate import OF_JOIN, expectation_of
from tests.checks.effects.story import TOPIC, Story
from tests.support.fake_runs import SECOND, T0

AGGREGATE = "topic: invoices, id: key, aggregate: sum($.amount), by: $.customer"
CLEAN = {kind: (0, 0, 3) for kind in ("missing", "duplicate", "unexpected")}
LATE = {"late p99": (2 * SECOND, 0, 3)}


@pytest.fixture
def observed(tmp_path):
    def observe(
        kind, totals, effect=TOPIC, bounds="{}", change=lambda story: None, events=(), of="invoices", findings=()
    ) -> Observation:
        """Return what is known of a kind. totals: by kind, the count, the undecided and the examined ones."""
        story = Story(tmp_path / "story", effect, bounds)
        story.effects, story.reads["effect"] = [{"effect": of, "id": "a"}] * 3, of
        change(story)
        story.write()
        with story.run.events.open("a") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
        names = ("count", "undecided", "examined")
        rows = [
            {"effect": effect_of, "kind": name, "why": ""} | dict(zip(names, numbers, strict=True))
            for name, numbers in totals.items()
            for effect_of in ("invoices", "mails")
        ]
        write_table(story.run.audit / "effect_totals", rows, TOTALS)
        write_table(story.run.audit / "effect_findings", findings, FINDINGS)
        term = next(t for t in terms(story.resolved) if t.key == ("effects", kind, of))
        return Measure(story.run, story.resolved).observe(term)

    return observe


def miss_rows(story):
    next(r for r in story.fake.counts if r["name"] == "rows_audited")["value"] = 1


@pytest.mark.parametrize("kind", ["missing", "duplicate", "unexpected", "late p99"])
def test_no_number_of_an_effect_is_trusted_if_rows_were_missed(observed, kind):
    bounds = "{late: {p99: 5s}}"
    assert observed(kind, CLEAN | LATE, bounds=bounds).unknown == ""
    found = observed(kind, CLEAN | LATE, bounds=bounds, change=miss_rows)
    assert found.value is None and found.unknown.startswith("the audit did not read every row of the ledger")


def test_a_time_to_an_effect_is_not_known_if_a_clock_ran_backwards(observed):
    back = [{"kind": "progress", "at_us": T0 + at} for at in (90 * SECOND, 80 * SECOND)]
    found = observed("late p99", CLEAN | LATE, bounds="{late: {p99: 5s}}", events=back)
    assert found.unknown.startswith("the clock of the machine was set back by ")
    assert observed("missing", CLEAN | LATE, events=back).unknown == "", "a number needs no clock"
    behind = CLEAN | {BEHIND: (2, 0, 3)}
    found = [observed(BEHIND, behind, bounds="{behind: {max: 2}}", events=events).unknown for events in ((), back)]
    assert found[0] == "" and found[1].startswith("the clock of the machine was set back by ")


def test_duplicates_of_an_aggregate_count_where_the_audit_counted_them(observed):
    assert observed("duplicate", CLEAN | {"duplicate": (1, 0, 3)}, AGGREGATE).text == "1 of 3 effects"
    assert not observed("duplicate", {"missing": (0, 0, 3), "unexpected": (0, 0, 3)}, AGGREGATE).applies


def test_what_the_audit_did_not_count_is_not_known(observed):
    others = {"duplicate": (0, 0, 3), "unexpected": (0, 0, 3)}
    assert observed("missing", others, AGGREGATE).unknown.startswith("the audit did not count it")


@pytest.mark.parametrize(
    ("kind", "why"), [("missing", "no input was acknowledged"), ("unexpected", "there is no effect invoices")]
)
def test_a_number_of_nothing_says_what_there_was_none_of(observed, kind, why):
    assert observed(kind, CLEAN | {kind: (0, 0, 0)}).unknown == f"the check saw nothing: {why}"


def test_a_row_without_an_id_may_be_any_effect(observed):
    def one_without(story):
        story.reads |= {"unreadable": 1, "example": "row 4"}

    found = observed("missing", CLEAN | {"missing": (1, 1, 3)}, change=one_without)
    assert found.without_id == 1 and "1 of 4 rows of effect invoices have no id (row 4)" in found.unsettled
    found = observed("missing", CLEAN | {"missing": (1, 1, 3)})
    assert found.without_id == 0 and found.unsettled and "3 rows" not in found.unsettled


def test_each_effect_is_counted_by_its_own_kind(observed):
    counted = {"missing": (0, 0, 3), "unexpected": (0, 0, 3)}
    two = TOPIC + "}, {name: mails, " + AGGREGATE
    assert observed("duplicate", counted, two).unknown.startswith("the audit did not count it")
    assert not observed("duplicate", counted, two, of="mails").applies
    assert observed("unexpected", counted, two, of="mails").text == "0 of 3 effects", "also without a bound"


@pytest.mark.parametrize(
    ("kind", "numbers", "text"),
    [
        ("missing", (1, 0, 3), "1 of 3 inputs"),
        ("duplicate", (1, 2, 3), "1 of 3 effects, 2 undecided"),
        ("unexpected", (0, 2, 0), "0 of 0 effects, 2 undecided"),
        ("unexpected", (2, 0, 0), "2 of 0 effects"),
    ],
)
def test_the_number_of_an_effect_names_what_was_examined_and_what_was_undecided(observed, kind, numbers, text):
    found = observed(kind, CLEAN | {kind: numbers})
    assert (found.text, bool(found.unsettled), found.unknown) == (text, numbers[1] > 0, "")


@pytest.mark.parametrize(
    ("least", "more", "text"), [(SECOND, 0, "1 s"), (SECOND, 100, "1 s"), (SECOND, SECOND, "1 s to 2 s")]
)
def test_a_time_to_an_effect_is_a_range_where_the_run_did_not_see_it_at_once(observed, least, more, text):
    found = observed("late p99", CLEAN | {"late p99": (least, more, 3)}, bounds="{late: {p99: 5s}}")
    assert (found.text, found.reason) == (text, f"{text} from acknowledgement to effect invoices")
    assert f"so that the time is {text}; look more often" in found.unsettled


def finding(kind, own_id, effect="invoices"):
    row = dict.fromkeys(FINDINGS.names) | {"effect": effect, "kind": kind, "id": own_id, "why": ""}
    return row | {"places": ["row 4"], "times_us": [T0 + 9 * SECOND]}


def test_a_number_of_an_effect_shows_its_own_findings_with_times_from_the_begin_of_the_run(observed):
    found = observed(
        "unexpected",
        CLEAN | {"unexpected": (1, 0, 3)},
        findings=[finding("unexpected", "x", "mails"), finding("missing", "y"), finding("unexpected", "z")],
    )
    first = "invoices z (row 4 at 18.0 s) has no input"  # the run began 9 s before its load
    assert found.reason == f"1 effect in invoices has no input that was written; {first}"


def test_a_time_to_an_effect_shows_the_first_effect_that_was_late(observed):
    late = [finding("missing", "y"), finding("late", "x", "mails"), finding("late", "z"), finding("late", "w")]
    found = observed("late p99", CLEAN | LATE, bounds="{late: {p99: 5s}}", findings=late)
    assert found.reason.startswith("z has its invoices late (row 4 at ")


def test_an_expectation_of_an_effect_names_the_effect_and_where_its_numbers_are(tmp_path):
    story = Story(tmp_path / "story", TOPIC, "{late: {p99: 5s}}")
    story.write()
    seen = Observation(0, "0")
    of_kind = {t.split: expectation_of(t, seen) for t in terms(story.resolved) if t.table == "effects"}
    late, missing = of_kind["late p99"], of_kind["missing"]
    assert isinstance(late, bounds.ExpectTimeToEffectToBeBetween) and (late.effect, late.stat) == ("invoices", "p99")
    assert isinstance(missing, bounds.ExpectEffectsToBeBetween) and missing.kind == "missing"
    assert ", for invoices: " in missing.description and OF_JOIN in html.unescape(missing.notes)
    others = [expectation_of(t, seen) for t in terms(story.resolved) if t.table == "summary"]
    assert others and not any(OF_JOIN in html.unescape(other.notes) for other in others)


@pytest.mark.parametrize(
    ("kind", "count", "bound", "replaced", "may_change"),
    [
        # each effect that still comes is one less that is missing
        ("missing", 0, (0, 0), False, False),
        ("missing", 3, (0, 0), False, True),
        ("missing", 3, (0, 3), False, False),
        ("missing", 4, (0, 3), False, True),
        ("missing", 0, (1, None), False, False),
        ("missing", 1, (1, None), False, True),
        ("missing", 9, (0, None), False, False),
        # and may be a duplicate, an unexpected one, or a wrong one
        ("duplicate", 0, (0, 0), False, True),
        ("duplicate", 1, (0, 0), False, False),
        ("duplicate", 3, (0, 3), False, True),
        ("unexpected", 0, (1, None), False, True),
        ("unexpected", 1, (1, None), False, False),
        ("unexpected", 9, (0, None), False, False),
        ("wrong", 1, (0, 0), False, False),
        # a later value of an aggregate may be right
        ("wrong", 1, (0, 0), True, True),
        ("duplicate", 1, (0, 0), True, False),
        # what comes now came after the fault
        (BEHIND, 0, (0, 0), False, False),
        (BEHIND, 0, (1, None), False, False),
    ],
)
def test_a_number_may_change_only_if_effects_that_still_come_change_its_verdict(
    kind, count, bound, replaced, may_change
):
    term = Term("", "effects", "", split=kind, at_least=bound[0], at_most=bound[1])
    assert _may_change(term, count, replaced) is may_change
