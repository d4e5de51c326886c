"""The numbers of effects and their first findings, in words."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.anomalies.causes import CAUSES
from chaos.ledger.schemas import EFFECT_READS
from checks.effects.findings import LISTED, describe, effect_counts, sentence, undecided
from checks.effects.tables import BEHIND, FINDINGS, TOTALS, write_table
from tests.support.fake_runs import SECOND, FakeRun

SCENARIO = """
title: Billing
topics: [{name: orders}, {name: invoices}]
producers: [{name: shop, topic: orders, records: 10, value: {template: 'order {id}'}}]
effects:
  - {name: invoices, topic: invoices, id: $.order_id}
  - {name: mails, http: {path: /mail}, id: $.id}
  - {name: unread, http: {path: /other}, id: $.id}
"""
T1 = 5 * SECOND
"""When the run began."""
FRAME = {"at_us": T1 + SECOND, "source": "billing/1", "target": "broker 1", "label": "Fetch", "words": "it fetched"}


def finding(kind="missing", **more):
    row = dict.fromkeys(FINDINGS.names) | {"effect": "invoices", "kind": kind, "id": "a7", "topic": "orders"}
    return row | {"why": "", "places": [], "times_us": []} | more


def test_each_effect_has_its_own_numbers_and_findings(tmp_path):
    fake = FakeRun(tmp_path, SCENARIO)
    reads = [
        {"effect": "invoices", "rows": 7, "unreadable": 0},
        {"effect": "mails", "rows": None, "error": "no such table"},
    ]
    fake.run.ledger.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(reads, EFFECT_READS), fake.run.ledger / "effect_reads.parquet")
    total = {"effect": "invoices", "examined": 9, "undecided": 0, "why": ""}
    totals = [
        total | {"kind": "missing", "count": 2, "undecided": 3},
        total | {"kind": "duplicate", "count": 0, "examined": 8},
        total | {"kind": "late p99", "count": 4, "undecided": 2},
        total | {"kind": "late max", "count": None},
        total | {"kind": "wrong", "count": None},
        total | {"kind": "unexpected", "count": 5, "effect": "mails"},
    ]
    write_table(fake.run.audit / "effect_totals", totals, TOTALS)
    told = {"frames": [FRAME], "cause": "repeated", "library": "sarama 1.43.3"}
    rows = [
        *(finding(id=f"m{n}") for n in range(LISTED + 1)),
        finding("duplicate", id="d1", **told),
        finding("duplicate", id="d2", **told),
        finding("duplicate", id="d3", frames=[FRAME]),
        finding("wrong", id="w1", frames=[FRAME], cause="repeated"),
        finding("duplicate", id="e1", effect="mails", **told),
    ]
    write_table(fake.run.audit / "effect_findings", rows, FINDINGS)
    invoices, mails, unread = effect_counts(fake.run, fake.resolved, T1)
    assert (invoices.inputs, invoices.effects, invoices.error) == (9, 7, "")
    assert (invoices.counts, invoices.undecided) == ({"missing": 2, "duplicate": 0}, {"missing": 3})
    assert invoices.late_us == {"p99": 6}
    numbers = {kind: len(found) for kind, found in invoices.findings.items()}
    assert numbers == {"missing": LISTED, "duplicate": 3, "wrong": 1}
    assert invoices.findings["missing"][1] == "m1 has no invoices"
    repeated, open_, nameless = invoices.stories
    assert (repeated.kind, repeated.number, repeated.library) == ("duplicate", 2, "sarama 1.43.3")
    assert repeated.cause == CAUSES["repeated"].text and repeated.sentence.startswith("d1 has more than it should of")
    assert repeated.prevents == CAUSES["repeated"].prevention("sarama 1.43.3", True)
    assert [frame.label for frame in repeated.frames] == ["Fetch"]
    assert (nameless.kind, nameless.library) == ("wrong", "")
    assert (open_.cause, open_.prevents, open_.library, open_.number) == ("", "", "", 1)
    assert (mails.inputs, mails.effects, mails.error) == (0, 0, "no such table")
    assert mails.counts == {"unexpected": 5} and mails.findings.keys() == {"duplicate"}
    assert mails.stories[0].prevents == CAUSES["repeated"].prevention("sarama 1.43.3", False)
    assert (unread.error, unread.counts, unread.effects) == ("it was not read", {}, 0)


@pytest.mark.parametrize(
    ("kind", "count", "text"),
    [
        ("missing", 1, "1 effect in invoices is missing, for 9 inputs; a7 has no invoices"),
        ("missing", 2, "2 effects in invoices are missing, for 9 inputs; a7 has no invoices"),
        ("missing", 0, "effect invoices: no input lacks it among 9"),
        ("duplicate", 0, "effect invoices: none is duplicate among 9"),
        ("unexpected", 1, "1 effect in invoices has no input that was written"),
        ("unexpected", 2, "2 effects in invoices have no input that was written"),
        ("wrong", 1, "1 effect in invoices has a wrong value"),
        ("wrong", 2, "2 effects in invoices have a wrong value"),
        (BEHIND, 1, "1 input had no effect invoices yet"),
        (BEHIND, 2, "2 inputs had no effect invoices yet"),
        (BEHIND, 0, "effect invoices: no input was behind among 9"),
    ],
)
def test_a_number_is_told_with_the_findings_of_its_kind(kind, count, text):
    assert describe(kind, count, 9, "invoices", [finding("late"), finding()], T1) == text


@pytest.mark.parametrize(
    ("kind", "unreadable", "text"),
    [
        ("missing", "3 rows have no id", "3 rows have no id"),
        ("unexpected", "", "2 effects may be of inputs that a killed producer did not record"),
        ("wrong", "", "the values of the inputs of 2 effects are not known"),
        ("missing", "", "2 more may be missing: the producer did not learn whether"),
        (BEHIND, "", "it is not known when the effects of 2 inputs came"),
    ],
)
def test_why_a_number_is_a_range(kind, unreadable, text):
    assert undecided(kind, 2, unreadable).startswith(text)


AT = {"places": ["row 1", "row 2"], "times_us": [T1 + SECOND, None]}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (finding(), "a7 has no invoices"),
        (finding(**AT), "a7 has only 2 of invoices (row 1 at 1.0 s and row 2)"),
        (finding(partition=3), "a7 (orders/3) has no invoices"),
        (
            finding(partition=3, offset=1000, acked_us=T1 + 2 * SECOND),
            "a7 (orders/3 offset 1,000, acknowledged at 2.0 s) has no invoices",
        ),
        (finding("duplicate", **AT), "a7 has more than it should of invoices: row 1 at 1.0 s and row 2"),
        (finding("unexpected", **AT), "invoices a7 (row 1 at 1.0 s and row 2) has no input"),
        (finding("wrong", found="8", expected="9", **AT), "a7 has 8 in invoices and not 9 (row 1 at 1.0 s and row 2)"),
        (finding(BEHIND, **AT), "a7 had no invoices yet (row 1 at 1.0 s and row 2)"),
        (finding(BEHIND), "a7 had no invoices yet (and has none)"),
        (finding("late", **AT), "a7 has its invoices late (row 1 at 1.0 s and row 2)"),
        (finding(places=None, times_us=None, why="it is lost"), "a7 has no invoices: it is lost"),
        (finding(ending="and then nothing"), "a7 has no invoices: and then nothing"),
        (finding(frames=[FRAME]), "a7 has no invoices: it fetched at 1.0 s"),
        (finding(frames=[FRAME], ending="it ended"), "a7 has no invoices: it fetched at 1.0 s, and it ended"),
        (finding(cause="repeated"), "a7 has no invoices"),  # no cause without what shows it
    ],
)
def test_a_finding_is_a_sentence(row, text):
    assert sentence(row, T1) == text
