from __future__ import annotations

import pytest

from chaos.anomalies import ANOMALIES, METRICS, PHRASES
from checks.expectations.contract import duration, terms
from checks.expectations.judge import listed
from tests.support.fake_runs import SCENARIO


def test_every_anomaly_and_every_time_has_its_phrases():
    assert set(PHRASES) == {(kind, split) for kind, a in ANOMALIES.items() for split in a.splits or ("",)}
    assert all(all(vars(phrases).values()) for phrases in PHRASES.values())
    assert all(all(vars(metric).values()) for metric in METRICS.values())


def test_an_unnamed_kind_is_forbidden(fake):
    bounds = {(t.check, t.split): (t.at_least, t.at_most) for t in terms(fake().resolved)}
    assert all(bounds[kind, ""] == (0, 0) for kind, a in ANOMALIES.items() if not a.splits)
    assert bounds["duplicate_delivery", "illegal"] == (0, 0)
    assert ("duplicate_delivery", "legal") not in bounds, "any number: nothing is expected"


def test_terms_have_bounds_and_names(fake):
    by_key = {t.key: t for t in terms(fake().resolved)}
    lost = by_key["lost_write", "", ""]
    assert (lost.name, lost.expected, lost.table) == ("No acknowledged record is lost", "0", "summary")
    outage = by_key["produce_unavailability", "max", ""]
    assert (outage.at_most, outage.expected, outage.table) == (15_000_000, "max ≤ 15 s", "metrics")
    assert by_key["groups", "members", "billing"].table == "observations"
    read_back = by_key["log_read_back", "", ""]
    assert read_back.at_least == read_back.at_most == 2


def test_a_demanded_anomaly_has_the_name_of_its_presence(fake):
    demanded = {t.check: t for t in terms(fake(SCENARIO + "  lost_write: {min: 1}\n").resolved)}["lost_write"]
    assert (demanded.name, demanded.expected) == ("Acknowledged records are lost", "at least 1")


@pytest.mark.parametrize(
    ("clients", "demanded"),
    [
        ("", False),
        ("consumers: [{name: a, mode: assign, topics: [orders]}]", True),
        ("processors: [{name: p, group: g, topics: [orders], to: out}]", True),
        (
            "consumers: [{name: s, mode: share, group: s, topics: [orders], client: java, "
            "settings: {share.auto.offset.reset: earliest}}]",
            True,
        ),
    ],
)
def test_a_reader_of_any_kind_has_to_receive_records(fake, clients, demanded):
    topics = "topics: [{name: orders}, {name: out}]\nproducers: [{name: shop, topic: orders}]"
    found = {t.key for t in terms(fake(f"title: Readers\n{topics}\n{clients}\n").resolved)}
    assert (("something_happened", "delivered", "") in found) == demanded


def test_no_two_terms_have_the_same_key(fake):
    bounded = "".join(
        f"  {m}: {{p50: 1s, p95: 1s, p99: 1s, max: 1s}}\n" for m in METRICS if m != "produce_unavailability"
    )
    errors = "  client_errors: {billing: {A: 1, B: 1}, replay: {A: 1}}\n"
    found = terms(fake(SCENARIO + bounded + errors).resolved)
    assert len({t.key for t in found}) == len(found) and all(t.meaning.endswith(".") for t in found)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 us"),
        (812_000, "812 ms"),
        (999_600, "1 s"),
        (9_800_000, "9.8 s"),
        (15_000_000, "15 s"),
        (125_000_000, "2 min 5 s"),
    ],
)
def test_durations(us, text):
    assert duration(us) == text


def test_a_description_agrees_in_number():
    assert PHRASES["lost_write", ""].describe(0) == "No acknowledged record was lost"
    assert PHRASES["lost_write", ""].describe(1) == "1 acknowledged record was lost"
    assert PHRASES["lost_write", ""].describe(1234) == "1,234 acknowledged records were lost"
    assert PHRASES["double_ownership", ""].describe(1) == "1 time a partition had two owners at once"
    for phrases in PHRASES.values():
        assert "{" not in phrases.describe(2)


def test_long_lists_are_cut():
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
