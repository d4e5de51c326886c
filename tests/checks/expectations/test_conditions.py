"""Conditions of the platform in runs with one broken part each: a case that counts, beside one that does not."""

from __future__ import annotations

import json

import pytest

from checks.effects.tables import FINDINGS, TOTALS, write_table
from checks.expectations import conditions
from checks.expectations.judge import Observation
from tests.checks.effects.story import SCENARIO as BILLING
from tests.checks.effects.story import Story
from tests.checks.expectations.test_judgement import RACKS, judged, others_pass
from tests.support.fake_runs import SCENARIO, SECOND, T0, life


def conditions_of(run) -> conditions.Conditions:
    run.write()
    return conditions.Conditions(run.run, run.resolved)


@pytest.mark.parametrize(("gaps", "verdict"), [(0, "fail"), (1, "inconclusive")])
def test_only_a_log_with_a_gap_may_hold_the_records_that_look_lost(fake, gaps, verdict):
    """The audit counts the gaps of each topic, also if there are none."""
    run = fake()
    run.counts.append({"name": "log_gaps", "scope": "orders", "value": gaps})
    run.found("lost_write", count=4)
    assert judged(run)["lost_write", "", ""].verdict == verdict


def test_a_marker_takes_an_offset_so_a_topic_with_transactions_has_no_gaps(fake):
    run = fake(SCENARIO.replace("records: 1000}", "records: 1000, transactions: {}}"))
    run.counts.append({"name": "log_gaps", "scope": "orders", "value": 4})
    assert conditions_of(run).distrust() == ""


@pytest.mark.parametrize(("sealed", "counted"), [(True, False), (False, True), (False, False)])
def test_without_a_seal_or_without_counts_no_row_is_known_to_be_audited(fake, sealed, counted):
    run = fake()
    run.sealed = sealed
    run.counts = [row for row in run.counts if counted or row["name"] != "rows_read"]
    found = judged(run)
    rows, torn = found["ledger_complete", "rows", ""], found["ledger_complete", "torn", ""]
    assert (rows.verdict, rows.seen, found["lost_write", "", ""].verdict) == (
        "inconclusive",
        "not counted",
        "inconclusive",
    )
    assert (torn.verdict, torn.seen) == (("pass", "0 bytes") if sealed else ("inconclusive", "not counted"))


def test_rows_of_several_tables_that_were_read_and_not_audited_add_up(fake):
    run = fake()
    run.ledger["commits"] = [{}] * 2
    for name, value in (("rows_read", 5), ("rows_audited", 3)):
        run.counts.append({"name": name, "scope": "log", "value": value})
    rows = judged(run)["ledger_complete", "rows", ""]
    assert rows.seen == "4 of 9 rows" and "(log: 2, commits: 2)" in rows.why


def test_rows_that_were_audited_twice_are_no_better_than_rows_that_were_missed(fake):
    run = fake()
    next(r for r in run.counts if r["name"] == "rows_audited")["value"] = 3
    run.found("lost_write", count=1)
    found = judged(run)
    assert found["ledger_complete", "rows", ""].seen == "1 of 2 rows"
    assert found["lost_write", "", ""].verdict == "inconclusive"


def test_stages_after_the_drive_are_not_the_drive(fake):
    run = fake()
    run.stages = [("audit", "end")]
    assert others_pass(judged(run), ("drive_completed", "", ""))
    run.stages = [("deploy", "end"), ("audit", "failed")]
    assert judged(run)["drive_completed", "", ""].verdict == "pass"


@pytest.mark.parametrize(
    ("entity", "key", "seen"),
    [
        ("client:billing", "fetches", "9 of 10 fetches went to rack b"),
        ("client:replay", "fetches", "not counted"),
        ("client:billing", "requests", "not counted"),
    ],
)
def test_only_the_fetches_of_an_entry_show_where_it_read(fake, entity, key, seen):
    run = fake(RACKS)
    run.ledger["cluster"].append({"at_us": T0, "entity": entity, "key": key, "value": '{"1": 1, "2": 9}'})
    assert judged(run)["rack_fetches", "", "billing"].seen.startswith(seen)


def test_a_clock_that_was_set_back_makes_times_inconclusive(fake):
    run = fake().write()
    for back_us, expected in ((900_000, "the clock of the machine was set back by 0.90 s: "), (0, "")):
        events = [{"kind": "progress", "at_us": T0 + at} for at in (SECOND, SECOND - back_us)]
        run.run.events.write_text("".join(json.dumps(event) + "\n" for event in events))
        assert conditions.Conditions(run.run, run.resolved).clock().startswith(expected)


@pytest.mark.parametrize(("stage", "back_us"), [("load", 700_000), ("audit", 0)])
def test_a_clock_is_read_at_the_stages_of_the_drive(stage, back_us):
    events = [{"kind": "stage", "stage": stage, "state": "begin", "at_us": T0 + at} for at in (SECOND, 300_000)]
    assert conditions.set_back_us(events) == back_us


def test_faults_and_progress_are_written_by_the_drive():
    events = [{"kind": kind, "at_us": T0 + at} for kind, at in (("fault", SECOND), ("progress", 300_000))]
    assert conditions.set_back_us(events) == conditions.set_back_us(events[::-1]) + 700_000


def test_a_topic_that_was_created_again_has_the_acknowledgements_of_all_its_lives(fake):
    run = fake()
    run.counts = [row for row in run.counts if row["name"] != "acked"]
    run.counts += [
        {"name": "acked", "scope": scope, "value": n} for scope, n in (("orders", 0), ("orders (deleted at 3 s)", 7))
    ]
    found = judged(run)["something_happened", "acked", ""]
    assert (found.verdict, found.seen) == ("pass", "orders: 7")


TWO = SCENARIO.replace("topics: [{", "topics: [{name: bills, partitions: 1, replication_factor: 3}, {", 1).replace(
    "1000}]", "1000}, {name: till, topic: bills, records: 1000}]", 1
)


def test_the_producer_of_a_topic_without_acknowledgements_says_why(fake):
    run = fake(TWO)
    run.ledger["lifecycle"] += [life(f"{who}/1", "producer", "error", error=who) for who in ("till", "shop")]
    next(r for r in run.counts if (r["name"], r["scope"]) == ("acked", "bills"))["value"] = 0
    why = judged(run)["something_happened", "acked", ""].why
    assert why == "nothing was acknowledged in bills; till/1 reported: till"


def test_a_reader_without_a_group_is_each_of_its_clients(fake):
    run = fake()
    run.ledger["lifecycle"] += [life("replay/1", "consumer", "error", error="gone")]
    next(r for r in run.counts if (r["name"], r["scope"]) == ("delivered", "replay/1"))["value"] = 0
    assert judged(run)["something_happened", "delivered", ""].why == (
        "nothing was delivered to replay/1; replay/1 reported: gone"
    )


def effect_of(tmp_path, totals, scenario=BILLING, **reads):
    """Return the condition that an effect was read. totals: its totals by kind, as count, undecided and examined."""
    story = Story(tmp_path / "story", scenario=scenario)
    story.reads |= reads
    story.effects = [{"effect": "invoices", "id": "a"}] * 3
    story.write()
    base = {"effect": "invoices", "why": ""}
    names = ("count", "undecided", "examined")
    rows = [base | {"kind": kind} | dict(zip(names, of, strict=True)) for kind, of in totals.items()]
    rows += [row | {"effect": "mails", "count": 70, "examined": 99} for row in rows]
    write_table(story.run.audit / "effect_totals", rows, TOTALS)
    found = [
        {"effect": of, "kind": "unexpected", "id": id, "places": [], "times_us": []}
        for of, id in (("mails", "x"), ("invoices", "a9"))
    ]
    write_table(story.run.audit / "effect_findings", found, FINDINGS)
    return conditions.Conditions(story.run, story.resolved).effect("invoices")


READ = Observation(0, "3 rows", "3 rows")
FOREIGN = {"missing": (3, 0, 3), "duplicate": (0, 0, 0), "unexpected": (3, 0, 3)}


def test_an_effect_that_was_never_read_is_not_read(tmp_path):
    found = effect_of(tmp_path, {}, effect="mails")
    assert (found.value, found.text) == (None, "not read") and "was never read" in found.unknown


@pytest.mark.parametrize(
    ("change", "traced"),
    [
        ({}, False),
        ({"duplicate": (0, 0, 1)}, True),  # one has the id of an input
        ({"wrong": (0, 0, 1)}, True),
        ({"wrong": (0, 0, 0), "duplicate": (0, 0, 1)}, False),
        ({"missing": (0, 0, 0)}, True),  # there is no input
        ({"missing": (6, 0, 6), "unexpected": (3, 0, 3)}, False),  # half as many as the inputs
        ({"missing": (8, 0, 8), "unexpected": (3, 0, 3)}, True),
        ({"missing": (8, 0, 8), "unexpected": (2, 2, 4)}, False),  # of an input, perhaps, that has failed
        ({"missing": (1, 0, 1), "unexpected": (0, 0, 0)}, True),
        ({"missing": (1, 0, 1), "unexpected": (1, 0, 1)}, False),
    ],
)
def test_the_id_is_at_another_place_if_no_effect_has_one_of_an_input_and_about_as_many_are_there(
    tmp_path, change, traced
):
    found = effect_of(tmp_path, FOREIGN | change)
    assert (
        found == READ
        if traced
        else found.unknown.startswith("none of 3 rows of effect invoices has the id of an input, such as 'a9': ")
    )


def test_without_totals_of_an_effect_nothing_is_said_of_the_place_of_its_id(tmp_path):
    assert effect_of(tmp_path, {}) == READ


def test_rows_without_an_id_are_not_among_those_with_another_one(tmp_path):
    totals = FOREIGN | {"missing": (8, 0, 8), "unexpected": (3, 2, 5)}
    assert effect_of(tmp_path, totals, unreadable=1).value is None
    found = effect_of(tmp_path, totals, unreadable=2)
    assert (found.value, found.text) == (2, "2 without an id")


@pytest.mark.parametrize(("payloads", "shown"), [("none", False), ("all", True)])
def test_the_id_of_an_effect_is_shown_only_where_payloads_may_be(tmp_path, payloads, shown):
    found = effect_of(tmp_path, FOREIGN, BILLING + f"capture: {{{{payloads: {payloads}}}}}\n")
    assert ("'a9'" in found.unknown) == shown and "has the id of an input" in found.unknown


def test_a_ledger_without_clients_does_not_show_that_none_died(fake):
    run = fake()
    run.ledger["lifecycle"] = []
    keys = ("clients_lived", "", ""), ("ledger_complete", "incarnations", "")
    found = judged(run)
    assert others_pass(found, *keys) and {found[key].seen for key in keys} == {"not recorded"}


def test_the_entry_of_a_group_without_records_says_why(fake):
    run = fake(SCENARIO.replace("group: billing", "group: g").replace("groups: {billing", "groups: {g"))
    run.ledger["lifecycle"] += [life("billing/1", "consumer", "error", error="gone")]
    next(r for r in run.counts if (r["name"], r["scope"]) == ("delivered", "g"))["value"] = 0
    found = judged(run)["something_happened", "delivered", ""]
    assert found.why == "nothing was delivered to g; billing/1 reported: gone"


def test_the_entry_of_a_share_group_without_records_says_why(fake):
    worker = "{mode: share, name: worker, group: w, client: java, topics: [orders], "
    worker += "settings: {share.auto.offset.reset: earliest}}"
    run = fake(SCENARIO.replace("consumers:", f"consumers:\n  - {worker}"))
    run.ledger["lifecycle"] += [life("worker/1", "consumer", "error", error="gone")]
    found = judged(run)["something_happened", "delivered", ""]
    assert found.why == "nothing was delivered to w; worker/1 reported: gone"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("sent", "0 of 1,000 records were sent: the producers did not finish; raise limits.drive or send fewer"),
        ("acked", "no record was acknowledged; see the producers' files in logs/ for their errors"),
        (
            "delivered",
            "nothing was delivered to billing, replay/1; "
            "see its file in logs/, raise limits.drain, or start it earlier",
        ),
    ],
)
def test_what_did_not_happen_without_a_known_cause_says_where_to_look(fake, name, why):
    run = fake()
    for row in run.counts:
        row["value"] = 0 if row["name"] == name else row["value"]
    assert judged(run)["something_happened", name, ""].why == why


def test_a_client_that_died_without_a_word_was_killed_by_no_fault(fake):
    run = fake()
    run.ledger["lifecycle"] += [life("billing/1", "consumer", "crashed", unexpected=True)]
    assert judged(run)["clients_lived", "", ""].why == (
        "billing/1 died: no fault killed it, and it said nothing; see logs/billing-1.log"
    )


def test_what_a_producer_reported_comes_before_its_last_send(fake):
    run = fake()
    run.ledger["lifecycle"] += [life("shop/1", "producer", "error", error="fenced")]
    send = {"producer": "shop/1", "incarnation": 1, "topic": "orders", "outcome": "fail", "error": "of a send"}
    run.ledger["sends"] = [send | {"invoked_us": 1, "completed_us": 2, "seq": 0}]
    for row in run.counts:
        row["value"] = 0 if row["name"] == "acked" else row["value"]
    found = judged(run)["something_happened", "acked", ""]
    assert found.why == "no record was acknowledged; shop/1 reported: fenced"


@pytest.mark.parametrize("who", [("billing/2", 1), ("billing/1", 2)])
def test_the_demanded_error_of_another_process_does_not_excuse_the_death_of_one(fake, who):
    run = fake(SCENARIO + "  client_errors: {billing: {INVALID_REQUEST: 1}}\n")
    error = life(who[0], "consumer", "error", error="INVALID_REQUEST: fatal") | {"incarnation": who[1]}
    run.ledger["lifecycle"] += [life("billing/1", "consumer", "crashed", unexpected=True), error]
    assert judged(run)["clients_lived", "", ""].verdict == "inconclusive"


def test_each_entry_has_its_own_rack(fake):
    run = fake(RACKS.replace("members: 1,", "members: 1, rack: c,"))
    for name, broker in (("billing", 2), ("replay", 3)):
        fetches = {"entity": f"client:{name}", "key": "fetches", "value": json.dumps({broker: 9})}
        run.ledger["cluster"].append(fetches | {"at_us": T0})
    found = judged(run)
    seen = {name: found["rack_fetches", "", name].seen for name in ("billing", "replay")}
    assert seen == {
        "billing": "9 of 9 fetches went to rack b (9 to broker 2)",
        "replay": "9 of 9 fetches went to rack c (9 to broker 3)",
    }
