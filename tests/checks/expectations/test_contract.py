from __future__ import annotations

import pytest

from chaos.anomalies import ANOMALIES, METRICS, PHRASES
from chaos.kafka.security import Security
from chaos.run.directory import Run
from chaos.tap.order import Order
from chaos.tap.session import _resolved
from checks.expectations.contract import Term, duration, planned_sends, readers, terms
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
    assert read_back.at_least == read_back.at_most == 2 and read_back.expected == "2"
    assert by_key["something_happened", "sent", ""].expected == "at least 1,000"


@pytest.mark.parametrize(("bound", "expected"), [("{min: 1}", "at least 1"), ("{max: 3}", "at most 3")])
def test_an_anomaly_that_is_demanded_or_allowed_has_the_name_of_its_presence(fake, bound, expected):
    found = {t.check: t for t in terms(fake(SCENARIO + f"  lost_write: {bound}\n").resolved)}["lost_write"]
    assert (found.name, found.expected) == ("Acknowledged records are lost", expected)


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


def test_a_group_is_one_reader_and_so_is_each_consumer_without_one(fake):
    share = "mode: share, group: s, topics: [orders], client: java, settings: {share.auto.offset.reset: earliest}"
    text = f"""
title: Readers
topics: [{{name: orders}}]
producers: [{{name: shop, topic: orders}}]
consumers:
  - {{name: billing, mode: subscribe, group: g, members: 2, topics: [orders]}}
  - {{name: copy, mode: assign, members: 2, topics: [orders]}}
  - {{name: worker, {share}}}
"""
    found = readers(fake(text).resolved.scenario)
    assert found == {"g": "subscribe", "copy/1": "assign", "copy/2": "assign", "s": "share"}


@pytest.mark.parametrize(
    ("condition", "undecided", "proven", "decides"),
    [
        (False, "", False, True),
        (False, "the zone is not known", False, False),
        (False, "the zone is not known", True, True),
        (True, "", True, False),
        (True, "", False, False),
        (True, "the zone is not known", True, False),
    ],
)
def test_only_a_bound_of_the_scenario_that_is_decided_or_proven_can_be_broken(condition, undecided, proven, decides):
    assert Term("n", "lost_write", "m.", condition=condition, undecided=undecided).decides(proven) == decides


def test_the_value_of_an_effect_is_in_its_own_table():
    assert Term("n", "effects", "m.", split="missing", scope="done").table == "effects"


@pytest.mark.parametrize(
    ("fault", "planned"),
    [
        ("", 30),
        ("kind: producer.leave, target: {member: shop/1}, for_good: true", 20),
        ("kind: producer.leave, target: {member: shop/1}, heal: {after: 1s}", 30),
        ("kind: wire.produce, sends: sequence_gap, target: {partition: orders/0}", 32),
    ],
)
def test_all_records_are_to_be_sent_but_those_of_a_producer_that_leaves_for_good(fake, fault, planned):
    faults = f"faults: [{{name: f, when: {{acked: 5}}, {fault}}}]\n" if fault else ""
    clients = "producers: [{name: shop, topic: orders, records: 10, count: 3}]\nexpect: {lost_write: 0}"
    found = terms(fake(f"title: Sends\ntopics: [{{name: orders}}]\n{clients}\n{faults}").resolved)
    sent = next(term for term in found if term.key == ("something_happened", "sent", ""))
    assert (sent.at_least, sent.at_most, sent.condition) == (planned, None, True)


ROWS = """
title: Rows
topics: [{name: changes}]
producers:
  - {name: shop, rows: {file: x}, records: 10, count: 2, value: {template: "{id}"}}
effects: [{name: found, topic: changes, id: $.id}]
"""


OF_BOTH = ROWS.replace("producers:", "producers:\n  - {name: other, topic: more, records: 7}").replace(
    "{name: changes}", "{name: changes}, {name: more}"
)


@pytest.mark.parametrize(("text", "inserted", "sent"), [(ROWS, 20, None), (OF_BOTH, 20, 7), (None, None, 1000)])
def test_all_rows_are_to_be_written_and_only_records_are_to_be_sent(fake, text, inserted, sent):
    by_split = {t.split: t for t in terms((fake(text) if text else fake()).resolved) if t.check == "something_happened"}
    assert (by_split["inserted"].at_least if "inserted" in by_split else None) == inserted
    assert (by_split["sent"].at_least if "sent" in by_split else None) == sent
    assert ("acked" in by_split) == (sent is not None)


def test_nothing_need_be_sent_by_the_only_producer_if_it_leaves_for_good(fake):
    text = """
title: Sends
topics: [{name: orders}]
producers: [{name: shop, topic: orders, records: 10}]
faults: [{name: f, when: {acked: 5}, kind: producer.leave, target: {member: shop/1}, for_good: true}]
"""
    assert planned_sends(fake(text).resolved.scenario) == 0


def test_a_tap_asks_nothing_of_clients_that_it_did_not_start(tmp_path):
    order = Order("kafka:9092", Security(), "0.0.0.0", 9092, "tap.internal", "none")
    apps = [{"name": "billing", "external": True, "group": "billing", "reads": ["orders"]}]
    topics = [{"name": "orders", "partitions": 3, "replication_factor": 3}]
    tap = _resolved(Run.create(tmp_path, "tap-1"), order, topics, apps).audited()
    conditions = {(term.check, term.split) for term in terms(tap) if term.condition}
    assert conditions == {
        ("drive_completed", ""),
        ("ledger_complete", "rows"),
        ("ledger_complete", "torn"),
        ("log_read_back", ""),
    }


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
        (999, "999 us"),
        (1_000, "1 ms"),
        (999_499, "999 ms"),
        (999_500, "1 s"),
        (999_600, "1 s"),
        (9_840_000, "9.84 s"),
        (12_340_000, "12.3 s"),
        (15_000_000, "15 s"),
        (119_949_999, "119.9 s"),
        (119_950_000, "2 min"),
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
    assert listed(["a", "b", "c"]) == "a, b, c"


TOPICS = ("orders", "bills")
COMPACTED = """
title: Compaction
topics: [{name: orders, config: {cleanup.policy: compact}}, {name: bills, config: {cleanup.policy: compact}}]
producers: [{name: shop, topic: orders, keys: 9}, {name: till, topic: bills, keys: 9}]
"""


TAKES_PLACE = (1, None, True)


@pytest.mark.parametrize(
    ("expect", "orders"),
    [
        ("", [TAKES_PLACE]),
        ("expect: {superseded: {orders: {min: 5, max: 9}}}", [(5, 9, False)]),
        ("expect: {superseded: {orders: {}}}", []),
    ],
)
def test_that_compaction_took_place_is_a_condition_unless_the_scenario_bounds_it(fake, expect, orders):
    found = [t for t in terms(fake(COMPACTED + expect).resolved) if t.check in ("superseded", "expired_tombstones")]
    bounds = {topic: [(t.at_least, t.at_most, t.condition) for t in found if t.scope == topic] for topic in TOPICS}
    assert bounds == {"orders": orders, "bills": [TAKES_PLACE]}


@pytest.mark.parametrize(("bound", "bounds"), [("{min: 5}", [(5, None, False)]), ("{}", [])])
def test_the_topic_of_committed_offsets_is_compacted_but_must_only_be_where_the_scenario_bounds_it(fake, bound, bounds):
    expect = f"expect: {{superseded: {{__consumer_offsets: {bound}}}}}"
    found = [t for t in terms(fake(COMPACTED + expect).resolved) if t.scope == "__consumer_offsets"]
    assert [(t.at_least, t.at_most, t.condition) for t in found] == bounds


@pytest.mark.parametrize(
    ("expect", "shares"),
    [("", []), ("expect: {send_success: {min: 99%, per: 2s}}", [(990_000, "at least 99 %", False)])],
)
def test_a_share_of_sends_is_expected_only_where_the_scenario_says_so(fake, expect, shares):
    found = [t for t in terms(fake(COMPACTED + expect).resolved) if t.check == "send_success"]
    assert [(t.at_least, t.expected, t.condition) for t in found] == shares
