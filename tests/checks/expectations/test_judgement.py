"""Expectations of runs with one broken part each, without Great Expectations: only `bounds` compares."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pandas as pd
import pytest

from chaos.anomalies import ANOMALIES
from chaos.ledger.schemas import TABLES
from chaos.run.events import OVERDUE, UNDRAINED, UNSETTLED, EventLog
from chaos.run.result import Expectation
from checks.audit.rules.registry import NEED_CLOCK, NEED_LOG_TIMES, nothing_to_examine
from checks.expectations import bounds, conditions
from checks.expectations.contract import Term, terms
from checks.expectations.judge import Observation, Outcome, judge
from checks.expectations.measure import Measure, count_rebalances
from checks.expectations.validate import expectation_of
from tests.support.fake_runs import SCENARIO, SECOND, T0, FakeRun, assigned, fault_row, life, proven

CALIBRATION = SCENARIO.replace("expect:", "expect:\n  lost_write: {min: 1}")
PROOF = ("fault_proof", "", "kill")


def judged(fake: FakeRun) -> dict[tuple[str, str, str], Expectation]:
    fake.write()
    measure, found = Measure(fake.run, fake.resolved), []
    for term in terms(fake.resolved):
        seen = measure.observe(term)
        expectation = expectation_of(term, seen)
        result = expectation._validate({bounds.ROWS: rows_of(fake, term, seen)})
        details = result["result"]["details"]
        breaks = expectation.severity.value == "critical"
        found.append((term, seen, Outcome(result["success"], details["violated"], breaks, details["least"])))
    return {(e.check, e.split, e.scope): e for e in judge(found)}


def rows_of(fake: FakeRun, term: Term, seen: Observation) -> list[bounds.Row]:
    if term.table == "summary":
        return [r for r in fake.summary if (r["check"], r["split"]) == (term.check, term.split)]
    if term.table == "metrics":
        return [r for r in fake.metrics if (r["metric"], r["stat"]) == (term.check, term.split)]
    return [{"value": float("nan") if seen.value is None else seen.value}]


def others_pass(found: dict[tuple[str, str, str], Expectation], *but: tuple[str, str, str]) -> bool:
    return {key for key, e in found.items() if e.verdict not in ("pass", "not applicable")} == set(but)


def test_a_sound_run_passes_everything(fake):
    assert others_pass(judged(fake()))


@pytest.mark.parametrize(
    ("act", "then", "verdict", "seen"),
    [
        ("heal", ["healed"], "pass", "orders/0 moved from broker 2 to 3; healed late: broker 2 is not ready"),
        ("heal", [], "inconclusive", "proven, not healed"),
        ("injection", ["healed"], "inconclusive", "failed"),
    ],
)
def test_a_fault_that_was_proven_took_effect_also_if_its_heal_was_late(fake, act, then, verdict, seen):
    run = fake()
    rows = run.ledger["faults"] = [row for row in proven("kill", "broker.kill") if row["phase"] != "healed"]
    rows.append(fault_row("kill", "broker.kill", "failed", "broker 2 is not ready", T0 + 4 * SECOND, act=act))
    rows += [fault_row("kill", "broker.kill", phase, "started", T0 + 5 * SECOND) for phase in then]
    run.faults = rows
    found = judged(run)[PROOF]
    assert (found.verdict, found.seen) == (verdict, seen)


PROMISED = SCENARIO.replace("expect:", "expect:\n  promised: true").replace(
    "members: 2, topics: [orders]", "members: 2, topics: [orders], config: {auto.offset.reset: error}"
)


def test_an_anomaly_of_a_line_that_is_not_decided_is_inconclusive_with_the_reason_and_the_next_step(fake):
    run = fake(PROMISED)
    assert others_pass(judged(run))
    run.found("stalled_delivery", count=3, scope="billing")
    stalled = judged(run)["stalled_delivery", "", ""]
    assert stalled.verdict == "inconclusive"
    assert "auto.offset.reset=none" in stalled.why
    assert "give stalled_delivery in `expect`" in stalled.why


def test_an_anomaly_that_the_settings_forbid_fails_also_without_a_stated_contract(fake):
    run = fake(PROMISED)
    run.found("lost_write", count=37)
    assert judged(run)["lost_write", "", ""].verdict == "fail"


def test_a_lost_record_fails_and_names_its_topic(fake):
    run = fake()
    run.found("lost_write", count=37)
    found = judged(run)
    lost = found["lost_write", "", ""]
    assert (lost.verdict, lost.seen) == ("fail", "37 of 1,000 acknowledged records")
    assert lost.why == "37 acknowledged records were lost (orders: 37)"
    assert others_pass(found, ("lost_write", "", ""))


def test_findings_count_over_all_readers_and_the_reader_with_the_most_comes_first(fake):
    run = fake()
    for scope, count in (("billing", 2), ("replay/1", 3)):
        next(r for r in run.summary if (r["check"], r["scope"]) == ("skipped_delivery", scope))["count"] = count
    found = judged(run)["skipped_delivery", "", ""]
    assert found.seen.startswith("5 of 2,000 ") and found.why.endswith("(replay/1: 3, billing: 2)")


def test_each_split_of_a_check_has_its_own_findings(fake):
    run = fake()
    run.found("duplicate_delivery", "legal", count=3)
    illegal = "duplicate_delivery", "illegal", ""
    assert judged(run)[illegal].seen.startswith("0 of 2,000 ")
    run.summary = [row for row in run.summary if row["split"] != "illegal"]
    found = judged(run)[illegal]
    assert (found.verdict, found.seen) == ("inconclusive", "not checked")


@pytest.mark.parametrize(
    "check", ["lost_write", "duplicate_write", "skipped_delivery", "nonmonotonic_poll", "overcommit"]
)
def test_a_check_that_examined_nothing_is_inconclusive(fake, check):
    run = fake()
    run.examined_nothing(check)
    found = judged(run)
    assert found[check, "", ""].verdict == "inconclusive"
    assert found[check, "", ""].why.startswith("the check saw nothing: what it examines did not happen; change ")
    assert others_pass(found, (check, "", ""))


@pytest.mark.parametrize("check", ["lost_write", "backdated_write"])
def test_a_check_that_left_out_everything_says_why(fake, check):
    run = fake()
    run.examined_nothing(check)
    run.found(check, why="their topic was deleted")
    found = judged(run)[check, "", ""]
    assert (found.verdict, found.why) == ("inconclusive", "the check saw nothing: their topic was deleted")


@pytest.mark.parametrize(
    ("left", "verdict"), [({}, "not applicable"), ({"undecided": 3}, "inconclusive"), ({"count": 3}, "fail")]
)
def test_a_check_that_a_run_gives_nothing_does_not_apply(fake, left, verdict):
    run = fake()
    run.examined_nothing("backdated_write")
    run.found("backdated_write", **left)
    found = judged(run)["backdated_write", "", ""]
    assert found.verdict == verdict and ("two producers" in found.why) == (not left)


def test_commit_checks_have_nothing_to_examine_if_no_consumer_commits(fake):
    run = fake(
        SCENARIO.replace(
            "topics: [orders]}\n  - {mode: assign", "topics: [orders], commit: {when: never}}\n  - {mode: assign"
        )
    )
    run.examined_nothing("lost_processing")
    gone = ("overcommit", "commit_rewind", "foreign_commit")  # the audit has no row of these then
    run.summary = [r for r in run.summary if r["check"] not in gone]
    found = judged(run)
    assert others_pass(found)
    left_out = {key[0] for key, e in found.items() if not e.applies}
    assert {*gone, "lost_processing"} <= left_out, "in no count, and never a pass"
    assert found["overcommit", "", ""].why == "no consumer commits offsets"
    assert left_out <= {check for check in ANOMALIES if nothing_to_examine(run.resolved.scenario, check)}


def test_an_anomaly_that_the_scenario_excludes_cannot_be_demanded(fake):
    scenario = SCENARIO.replace(
        "topics: [orders]}\n  - {mode: assign", "topics: [orders], commit: {when: never}}\n  - {mode: assign"
    )
    run = fake(scenario + "  overcommit: {min: 1}\n")
    run.examined_nothing("overcommit")
    assert judged(run)["overcommit", "", ""].verdict == "inconclusive"


def test_an_anomaly_counts_even_if_nothing_was_examined(fake):
    run = fake()
    run.examined_nothing("lost_write")
    run.found("lost_write", count=1)
    assert judged(run)["lost_write", "", ""].verdict == "fail"


def test_a_check_without_a_result_is_inconclusive(fake):
    run = fake()
    run.summary = [r for r in run.summary if r["check"] != "dirty_read"]
    assert judged(run)["dirty_read", "", ""].verdict == "inconclusive"


@pytest.mark.parametrize(
    ("bound", "count", "undecided", "verdict"),
    [
        ("0", 0, 1, "inconclusive"),
        ("0", 1, 1, "fail"),
        ("{min: 1}", 0, 1, "inconclusive"),
        ("{min: 1}", 1, 5, "pass"),
        ("{min: 5}", 1, 2, "fail"),
        ("{min: 0, max: 9}", 2, 3, "pass"),
        ("{min: 0, max: 9}", 8, 3, "inconclusive"),
    ],
)
def test_undecided_rows_matter_if_they_could_change_the_verdict(fake, bound, count, undecided, verdict):
    run = fake(SCENARIO.replace("expect:", f"expect:\n  lost_write: {bound}"))
    run.found("lost_write", count=count, undecided=undecided)
    assert judged(run)["lost_write", "", ""].verdict == verdict


def test_undecided_rows_name_their_reasons_and_the_advice_of_each(fake):
    run = fake()
    run.found("lost_write", undecided=15)
    row = {"check": "lost_write", "scope": "orders"}
    run.undecided = [
        row | {"why": "of two topics", "advice": "", "count": 13},
        row | {"why": "without an offset", "advice": "use acks other than 0", "count": 2},
        row | {"check": "lost_key", "why": "of another check", "advice": "do something else", "count": 1},
    ]
    more = "15 more could not be decided, and they may break the bound or meet it"
    why = judged(run)["lost_write", "", ""].why
    assert why == f"{more}: of two topics (13); without an offset (2); use acks other than 0"
    run.undecided = run.undecided[:1]
    assert judged(run)["lost_write", "", ""].why == f"{more}: of two topics"
    run.undecided = []  # an audit of an older release does not name them
    assert judged(run)["lost_write", "", ""].why == more


def test_commits_of_unknown_outcome_are_left_out_of_the_checks_of_commits(fake):
    run = fake()
    assert judged(run)["overcommit", "", ""].seen.endswith(" commits")
    unknown = {"check": "commits", "scope": "billing", "why": "of two members", "advice": "", "count": 3}
    run.undecided = [unknown, unknown | {"check": "lost_key"}]
    found = judged(run)
    assert others_pass(found)
    assert found["overcommit", "", ""].seen.endswith(" commits, 3 of unknown outcome left out")
    assert "left out" not in found["lost_write", "", ""].seen + found["foreign_commit", "", ""].seen


def test_a_check_that_left_every_commit_out_saw_nothing(fake):
    run = fake()
    run.examined_nothing("overcommit")
    run.undecided = [{"check": "commits", "scope": "billing", "why": "not in a log", "advice": "read it", "count": 3}]
    found = judged(run)
    overcommit = found["overcommit", "", ""]
    assert others_pass(found, ("overcommit", "", "")) and overcommit.verdict == "inconclusive"
    assert overcommit.seen == "0 of 0 commits, 3 of unknown outcome left out"
    assert overcommit.why == "the check saw nothing: it left out 3 of unknown outcome: not in a log; read it"


def test_a_fault_without_proof_is_inconclusive_and_says_what_to_change(fake):
    run = fake()
    run.ledger["faults"] = [r for r in run.ledger["faults"] if r["phase"] != "proven"]
    found = judged(run)
    assert found[PROOF].verdict == "inconclusive"
    assert "broker 2" in found[PROOF].why and "limits.proof" in found[PROOF].why
    assert others_pass(found, PROOF)


def test_a_fault_that_was_never_injected_is_inconclusive(fake):
    run = fake()
    run.ledger["faults"] = []
    assert "trigger (at 100 acknowledged records) did not come" in judged(run)[PROOF].why


def test_a_fault_that_failed_to_heal_is_inconclusive(fake):
    run = fake()
    run.ledger["faults"] = [
        *proven("kill", "broker.kill")[:3],
        fault_row("kill", "broker.kill", "failed", "heal of kill failed: no", T0 + 9),
    ]
    assert judged(run)[PROOF].verdict == "inconclusive"


def test_a_loss_beside_an_unproven_fault_is_still_a_failure(fake):
    run = fake()
    run.ledger["faults"] = []
    run.found("lost_write", count=1)
    found = judged(run)
    assert (found["lost_write", "", ""].verdict, found[PROOF].verdict) == ("fail", "inconclusive")


@pytest.mark.parametrize(("proof", "verdict"), [(True, "fail"), (False, "inconclusive")])
def test_a_missing_demanded_loss(fake, proof, verdict):
    run = fake(CALIBRATION)
    if not proof:
        run.ledger["faults"] = []
    assert judged(run)["lost_write", "", ""].verdict == verdict


def test_a_demanded_loss_passes(fake):
    run = fake(CALIBRATION)
    run.found("lost_write", count=3)
    assert others_pass(judged(run))


def test_an_unexpected_client_death_is_inconclusive_a_killed_client_is_not(fake):
    run = fake()
    run.ledger["lifecycle"] += [life("billing/1", "consumer", "crashed")]
    assert others_pass(judged(run))


def test_an_unexpected_client_death_is_inconclusive_and_named(fake):
    run = fake()
    run.ledger["lifecycle"] += [life("billing/1", "consumer", "crashed", unexpected=True)]
    found = judged(run)
    assert others_pass(found, ("clients_lived", "", ""))
    assert "billing/1 died" in found["clients_lived", "", ""].why


@pytest.mark.parametrize(
    ("demanded", "errors", "verdict"),
    [
        ("{billing: {INVALID_REQUEST: 1}}", ["INVALID_REQUEST: fatal"], "pass"),
        ("{billing: {INVALID_REQUEST: {min: 0}}}", ["INVALID_REQUEST: fatal"], "inconclusive"),
        ("{billing: {INVALID_REQUEST: 1}}", ["INVALID_REQUEST: fatal", "MemoryError"], "inconclusive"),
        ("{billing: {INVALID_REQUEST: 1}}", [], "inconclusive"),
        ("{replay: {INVALID_REQUEST: 1}}", ["INVALID_REQUEST: fatal"], "inconclusive"),
    ],
)
def test_a_client_may_end_with_an_error_only_if_the_contract_demands_that_error(fake, demanded, errors, verdict):
    run = fake(SCENARIO + f"  client_errors: {demanded}\n")
    rows = [life("billing/1", "consumer", "error", error=error) for error in errors]
    run.ledger["lifecycle"] += [*rows, life("billing/1", "consumer", "crashed", unexpected=True)]
    assert judged(run)["clients_lived", "", ""].verdict == verdict


@pytest.mark.parametrize(
    ("file", "unexpected", "verdict"),
    [
        ("deliveries/billing-1.1.arrows", False, "pass"),
        ("deliveries/billing-1.1.arrows", True, "inconclusive"),
        ("deliveries/billing-1.1.jsonl", False, "pass"),
        ("deliveries/billing-1.2.arrows", False, "inconclusive"),
        ("deliveries/billing-11.1.arrows", False, "inconclusive"),
        ("faults/drive.arrows", False, "inconclusive"),
        ("sends/shop-1.1.arrows", False, "inconclusive"),  # it has not ended
    ],
)
def test_a_torn_tail_is_expected_only_of_an_incarnation_that_a_fault_killed(fake, file, unexpected, verdict):
    run = fake()
    run.ledger["lifecycle"] += [
        life("billing/1", "consumer", "crashed", **({"unexpected": True} if unexpected else {}))
    ]
    run.torn = {file: 1}
    found = judged(run)["ledger_complete", "torn", ""]
    assert found.verdict == verdict
    assert found.seen == ("0 bytes (and 1 of clients killed on purpose)" if verdict == "pass" else "1 bytes")


def test_a_file_that_breaks_the_rules_is_never_explained_by_a_kill(fake):
    run = fake()
    run.ledger["lifecycle"] += [life("billing/1", "consumer", "crashed")]
    run.torn = {"deliveries/billing-1.1.jsonl": 100}
    run.refused = "line 3: unknown column 'ofset'"
    found = judged(run)["ledger_complete", "torn", ""]
    assert found.verdict == "inconclusive"
    assert "deliveries/billing-1.1.jsonl, line 3: unknown column 'ofset'" in found.why


def test_rows_that_the_audit_missed_make_all_counts_inconclusive(fake):
    run = fake()
    next(r for r in run.counts if r["name"] == "rows_audited")["value"] = 1
    run.found("skipped_delivery", count=5)
    found = judged(run)
    rows = found["ledger_complete", "rows", ""]
    assert (rows.verdict, rows.seen) == ("inconclusive", "1 of 2 rows") and "(assignments: 1)" in rows.why
    assert {e.verdict for key, e in found.items() if key[0].endswith(("write", "delivery"))} == {"inconclusive"}


@pytest.mark.parametrize("table", ["sends", "deliveries", "commits", "assignments"])
def test_rows_are_counted_by_the_seal_too(fake, table):
    run = fake()
    run.ledger[table] = [*run.ledger.get(table, []), dict.fromkeys(TABLES[table].names)]
    assert judged(run)["ledger_complete", "rows", ""].seen == "1 of 3 rows"


def test_an_incomplete_read_back_is_no_loss(fake):
    run = fake()
    run.log_range.pop()
    run.found("lost_write", count=500)
    found = judged(run)
    read_back = found["log_read_back", "", ""]
    assert (read_back.verdict, read_back.seen) == ("inconclusive", "1 of 2 partitions") and "orders/1" in read_back.why
    assert found["lost_write", "", ""].verdict == "inconclusive"


COMPACT = SCENARIO.replace(
    "replication_factor: 3}", "replication_factor: 3, config: {cleanup.policy: compact}}"
).replace("topic: orders,", "topic: orders, keys: 9,", 1)


@pytest.mark.parametrize(
    ("bound", "removed", "verdict"),
    [
        ("", 5, "pass"),
        ("", 0, "inconclusive"),
        ("", None, "inconclusive"),
        ("superseded: {orders: {min: 9}}", 5, "fail"),
        ("superseded: {orders: {min: 9}}", None, "inconclusive"),
        ("superseded: {orders: {min: 1}}", 5, "pass"),
    ],
)
def test_a_compacted_topic_of_which_nothing_was_removed_proves_nothing(fake, bound, removed, verdict):
    run = fake(COMPACT.replace("expect:", f"expect:\n  {bound}"))
    if removed is not None:
        run.counts.append({"name": "superseded", "scope": "orders", "value": removed})
    found = judged(run)["superseded", "", "orders"]
    assert found.verdict == verdict
    assert verdict != "fail" or found.why == "compaction removed 5 records of orders"


TOMBSTONES = COMPACT.replace("keys: 9,", "keys: 9, tombstone_every: 5,")


@pytest.mark.parametrize(
    ("scenario", "bound", "key"),
    [
        (SCENARIO, "send_failures: {fail: 0}", ("send_failures", "fail", "")),
        (SCENARIO, "send_success: {min: 99%, per: 1s}", ("send_success", "", "")),
        (TOMBSTONES, "superseded: {orders: {min: 1}}", ("superseded", "", "orders")),
        (TOMBSTONES, "expired_tombstones: {orders: {min: 1}}", ("expired_tombstones", "", "orders")),
    ],
)
def test_a_number_of_sends_is_not_trusted_either_if_rows_were_missed(fake, scenario, bound, key):
    run = fake(scenario.replace("expect:", f"expect:\n  {bound}"))
    run.counts += [{"name": n, "scope": "orders", "value": 5} for n in ("failed", "superseded", "expired_tombstones")]
    next(r for r in run.counts if r["name"] == "rows_audited")["value"] = 1
    assert judged(run)[key].why.startswith("the audit did not read every row of the ledger")


@pytest.mark.parametrize(("check", "held"), [("superseded", False), ("expired_tombstones", True)])
def test_what_to_lower_so_that_compaction_removes_something(fake, check, held):
    run = fake(COMPACT)
    run.counts.append({"name": check, "scope": "orders", "value": 0})
    seen = conditions.Conditions(run.write().run, run.resolved).removed(check, "orders")
    assert seen.value == 0 and ("delete.retention.ms" in seen.reason) == held


def test_without_a_bound_any_number_of_superseded_records_is_right(fake):
    run = fake(COMPACT.replace("expect:", "expect:\n  superseded: {orders: {min: 0}}"))
    assert ("superseded", "", "orders") not in judged(run)


@pytest.mark.parametrize(("policy", "verdict"), [("delete", "inconclusive"), ("compact", "fail")])
def test_gaps_in_the_log_are_no_loss_unless_it_is_compacted(fake, policy, verdict):
    run = fake(
        SCENARIO.replace(
            "replication_factor: 3}", f"replication_factor: 3, config: {{cleanup.policy: {policy}}}}}"
        ).replace("topic: orders,", "topic: orders, keys: 9,", 1)
    )
    run.counts.append({"name": "log_gaps", "scope": "orders", "value": 4})
    run.found("lost_write", count=4)
    assert judged(run)["lost_write", "", ""].verdict == verdict


def test_a_time_above_its_bound_fails(fake):
    run = fake()
    run.metrics[0]["value_us"] = 21 * SECOND
    found = judged(run)
    assert (found["produce_unavailability", "max", ""].verdict, found["produce_unavailability", "max", ""].seen) == (
        "fail",
        "21 s",
    )
    assert others_pass(found, ("produce_unavailability", "max", ""))


def test_a_time_that_was_not_measured_is_inconclusive(fake):
    run = fake()
    run.metrics = []
    assert judged(run)["produce_unavailability", "max", ""].verdict == "inconclusive"


@pytest.mark.parametrize("name", ["produce_unavailability_unrecovered", "consume_unavailability_unrecovered"])
def test_an_outage_that_ended_or_is_of_others_is_as_long_as_measured(fake, name):
    run = fake()
    run.counts.append({"name": name, "scope": "kill:orders", "value": 0 if name.startswith("produce") else 2})
    assert others_pass(judged(run))


@pytest.mark.parametrize(("seconds", "verdict"), [(10, "inconclusive"), (15, "inconclusive"), (16, "fail")])
def test_an_outage_that_lasted_to_the_end_is_longer_than_measured(fake, seconds, verdict):
    run = fake()
    run.metrics[0]["value_us"] = seconds * SECOND
    run.counts.append({"name": "produce_unavailability_unrecovered", "scope": "kill:orders", "value": 2})
    outage = judged(run)["produce_unavailability", "max", ""]
    assert outage.verdict == verdict
    assert verdict == "fail" or "2 partitions of kill:orders had not recovered" in outage.why


def test_another_fault_does_not_hide_an_unmeasured_outage(fake):
    two = SCENARIO.replace(
        "expect:",
        "  - {name: pause, kind: broker.pause, target: {broker: 1}, when: {after: kill}, heal: {after: 1s}}\nexpect:",
    )
    run = fake(two)
    run.metrics = [m for m in run.metrics if m["fault"] == "kill"]
    outage = judged(run)["produce_unavailability", "max", ""]
    assert outage.verdict == "inconclusive" and "pause" in outage.why


def test_the_longest_outage_is_told_with_its_fault(fake):
    run = fake()
    kill = run.metrics[0]
    longest, other = kill | {"fault": "pause", "value_us": 21 * SECOND}, kill | {"stat": "p50", "value_us": 99 * SECOND}
    run.metrics = [kill, longest, other]
    assert judged(run)["produce_unavailability", "max", ""].why == "21 s in fault pause, orders"


@pytest.mark.parametrize(("metric", "verdict"), [("produce", "pass"), ("consume", "inconclusive")])
def test_a_fault_of_a_consumer_has_an_outage_of_consumers_only(fake, metric, verdict):
    crash = "  - {name: away, kind: consumer.crash, target: {member: replay/1}, when: {acked: 1}}\nexpect:"
    run = fake(SCENARIO.replace("expect:", crash) + "  consume_unavailability: {max: 15s}\n")
    run.metrics = [row for row in run.metrics if row["fault"] == "kill"]
    assert judged(run)[f"{metric}_unavailability", "max", ""].verdict == verdict


@pytest.mark.parametrize(
    ("change", "split"),
    [
        ({"name": "sent", "value": 900}, "sent"),
        ({"name": "acked", "value": 0}, "acked"),
        ({"name": "delivered", "value": 0}, "delivered"),
    ],
)
def test_a_run_in_which_too_little_happened_is_inconclusive(fake, change, split):
    run = fake()
    next(r for r in run.counts if r["name"] == change["name"]).update(change)
    assert others_pass(judged(run), ("something_happened", split, ""))


@pytest.mark.parametrize("name", ["acked", "delivered"])
def test_one_record_of_each_topic_and_each_reader_is_enough_to_prove_something(fake, name):
    run = fake()
    for row in run.counts:
        row["value"] = 1 if row["name"] == name else row["value"]
    assert others_pass(judged(run))


@pytest.mark.parametrize("count", [0, None])
def test_a_topic_without_an_acknowledged_record_proves_nothing_whatever_the_others_have(fake, count):
    topic = "  - {name: bills, partitions: 1, replication_factor: 3}\n"
    producer = "  - {name: bank, topic: bills, records: 1000}\n"
    two = SCENARIO.replace("topics: [{", "topics:\n  - {").replace("3}]\n", f"3}}\n{topic}", 1)
    run = fake(two.replace("producers: [", "producers:\n  - ").replace("1000}]\n", f"1000}}\n{producer}"))
    assert others_pass(judged(run))
    rows = [row for row in run.counts if (row["name"], row["scope"]) == ("acked", "bills")]
    assert rows
    for row in rows:
        row["value"] = count
    run.counts = [row for row in run.counts if row["value"] is not None]
    found = judged(run)["something_happened", "acked", ""]
    assert found.verdict == "inconclusive" and found.why.startswith("nothing was acknowledged in bills; ")


def test_why_not_all_records_were_sent_is_what_the_drive_waited_for_at_its_limit(fake):
    run = fake()
    next(r for r in run.counts if r["name"] == "sent").update(value=900)
    EventLog(run.run).problem("after 180 s (limits.drive) still waiting for: heal kill 5s after slow.healed")
    why = judged(run)["something_happened", "sent", ""].why
    assert "900 of 1,000 records were sent: after 180 s (limits.drive) still waiting for: heal kill" in why


OF_ROWS = """
title: Rows
topics: [{name: changes}]
producers:
  - {name: shop, rows: {file: x}, records: 10, count: 2, value: {template: "{id}"}}
effects: [{name: found, topic: changes, id: $.id}]
"""


@pytest.mark.parametrize(
    ("outcomes", "value", "why"),
    [
        ({"ok": 20}, 20, "20 of 20 rows were written"),
        ({"ok": 19, "unknown": 1}, 19, "19 of 20 rows were written: no answer"),
        ({}, 0, "0 of 20 rows were written: the producers did not finish"),
    ],
)
def test_the_rows_that_are_there_are_counted(fake, outcomes, value, why):
    run = fake(OF_ROWS)
    outcome = [name for name, count in outcomes.items() for _ in range(count)]
    run.ledger["inserts"] = [
        {"producer": "shop/1", "incarnation": 1, "seq": seq, "topic": "shop", "outcome": name, "invoked_us": T0}
        | {"completed_us": T0, "error": None if name == "ok" else "no answer"}
        for seq, name in enumerate(outcome)
    ]
    run.write()
    term = next(t for t in terms(run.resolved) if t.split == "inserted")
    found = Measure(run.run, run.resolved).observe(term)
    assert found.value == value and found.reason.startswith(why)


def test_a_reader_without_counts_received_nothing(fake):
    run = fake()
    run.counts = [r for r in run.counts if r["scope"] != "replay/1"]
    assert "replay/1" in judged(run)["something_happened", "delivered", ""].why


@pytest.mark.parametrize("slow", [True, False])
def test_readers_that_go_on_when_the_drain_ends_prove_no_stall(fake, slow):
    run = fake()
    run.found("stalled_delivery", count=60)
    if slow:
        EventLog(run.run).emit(UNDRAINED, readers=["billing"], limit="60 s (limits.drain)")
    terms = judged(run)
    assert others_pass(terms, ("stalled_delivery", "", ""))
    found = terms["stalled_delivery", "", ""]
    assert found.verdict == ("inconclusive" if slow else "fail")
    assert ("billing still made progress when the drain ended, after 60 s (limits.drain)" in found.why) == slow


@pytest.mark.parametrize(
    "stages",
    [
        [("load", "failed"), ("drive", "failed")],
        [("drive", "begin"), ("load", "begin")],
        [("load", "end"), ("drain", "failed"), ("drive", "failed")],
    ],
)
def test_a_drive_that_broke_off_makes_stalled_delivery_inconclusive(fake, stages):
    run = fake()
    run.stages = stages
    run.found("stalled_delivery", count=60)
    terms = judged(run)
    assert others_pass(terms, ("drive_completed", "", ""), ("stalled_delivery", "", ""))
    assert terms["stalled_delivery", "", ""].verdict == "inconclusive"
    assert "broke off before its drain" in terms["stalled_delivery", "", ""].why


@pytest.mark.parametrize(
    ("state", "more", "why"),
    [
        ("end", {}, ""),
        ("failed", {}, "the drive broke off before effects were complete"),
        ("end", {"effects": ["mails"]}, ""),
        ("end", {"effects": ["mails", "invoices"], "open": ["mails"]}, "known not to have changed for 3 s; raise "),
        ("end", {"effects": ["invoices"], "open": ["invoices"]}, "a transaction that is still open after 60 s, "),
    ],
)
def test_a_missing_effect_proves_nothing_unless_the_drive_waited_until_none_came(fake, state, more, why):
    run = fake()
    run.stages.append(("settle", state))
    run.write()
    if more:
        EventLog(run.run).emit(UNSETTLED, limit="60 s", unchanged={"invoices": [3, 9]}, **more)
    found = conditions.Conditions(run.run, run.resolved).unsettled("invoices")
    assert why in found and bool(found) == bool(why)


def test_stalled_delivery_counts_if_the_drain_ended(fake):
    run = fake()
    run.stages = [("load", "end"), ("drain", "end"), ("stop", "failed")]
    run.found("stalled_delivery", count=60)
    assert judged(run)["stalled_delivery", "", ""].verdict == "fail"


def test_a_drive_without_events_is_inconclusive(fake):
    run = fake()
    run.stages = []
    assert others_pass(judged(run), ("drive_completed", "", ""))


def test_a_repeated_drive_is_complete(fake):
    run = fake()
    run.stages = [("load", "failed"), ("load", "end")]
    assert others_pass(judged(run))


def test_group_members_are_the_maximum_that_was_observed(fake):
    run = fake()
    run.ledger["cluster"] += [
        {"at_us": T0 + 1, "entity": entity, "key": key, "value": value}
        for entity, key, value in (
            *(("group:billing", "members", value) for value in ("3", "2", "null", '"no answer"', None, "no JSON")),
            *(("group:other", "members", "9"), ("group:billing", "epoch", "9")),
        )
    ]
    members = judged(run)["groups", "members", "billing"]
    assert (members.verdict, members.seen) == ("fail", "3")


def test_unobserved_group_members_are_inconclusive(fake):
    run = fake()
    run.ledger["cluster"] = []
    assert judged(run)["groups", "members", "billing"].verdict == "inconclusive"


@pytest.mark.parametrize(
    ("generations", "seen"),
    [
        ([(1, -2), (2, -1)], "0"),  # forming
        ([(1, -2), (2, -1), (3, 5)], "1"),
        ([(1, -2), (5, 5)], "4"),  # generations that nobody lived to see
        ([(1, -2), (2, 90)], "0"),  # members leaving at the end
        ([(1, -2), (2, 0)], "1"),
        ([(1, -2), (2, 80)], "1"),
        ([(3, 5), (5, 9)], "2"),  # formed during the load
    ],
)
def test_rebalances_are_counted_from_the_formed_group_to_the_stop(fake, generations, seen):
    others = [assigned(9, T0 + SECOND, group="other"), assigned(9, T0 + SECOND) | {"mode": "assign"}]
    assert rebalances(fake(), [*others, *(assigned(g, T0 + at * SECOND) for g, at in generations)]) == seen


@pytest.mark.parametrize(
    ("left", "seen"),
    [
        ([("billing/1", 8, 81), ("billing/2", 8, 81)], "7"),  # six generations without a reassignment
        ([("billing/1", 8, 81), ("billing/2", 9, 82)], "7"),  # the second had joined again since the first had left
        ([("billing/1", 1, 81), ("billing/2", 2, 82)], "0"),
    ],
)
def test_generations_without_reassignment_count_from_the_last_rows_of_the_members(fake, left, seen):
    rows = [assigned(1, T0 - SECOND)]
    rows += [assigned(g, T0 + at * SECOND) | {"consumer": who, "event": "revoked"} for who, g, at in left]
    assert rebalances(fake(), rows) == seen


def test_an_assignment_after_the_stop_says_nothing_about_the_generation_before(fake):
    at_stop = [assigned(2, T0 + 81 * SECOND), assigned(2, T0 + 82 * SECOND) | {"event": "revoked"}]
    assert rebalances(fake(), [assigned(1, T0 - SECOND), *at_stop]) == "0"


@pytest.mark.parametrize(("rows", "why"), [([], "was assigned a partition"), ([None], "report no generation")])
def test_rebalances_without_a_generation_are_inconclusive_with_the_reason(fake, rows, why):
    run = fake()
    assert rebalances(run, [assigned(generation, T0) for generation in rows]) == "not observed"
    found = judged(run)["groups", "rebalances", "billing"]
    assert found.verdict == "inconclusive" and why in found.why


def test_without_an_order_to_stop_all_generations_count(fake):
    run = fake()
    run.ledger["assignments"] = [assigned(1, T0), assigned(4, T0 + SECOND)]
    assert judged(run)["groups", "rebalances", "billing"].seen == "3"


def rebalances(run, rows):
    """Return the rebalances in these rows, for a load from 0 to 80 s."""
    run.ledger["assignments"] = rows
    for row in run.counts:
        if row["scope"] == "assignments":
            row["value"] = len(rows)
    run.write()
    marks = [
        {"at_us": T0 + at * SECOND, "kind": "stage", "stage": s, "state": state}
        for s, at, state in (("load", 0, "begin"), ("load", 79, "end"), ("stop", 80, "begin"))
    ]
    run.run.events.write_text("\n".join(json.dumps(mark) for mark in marks) + "\n")
    term = next(t for t in terms(run.resolved) if t.split == "rebalances")
    return Measure(run.run, run.resolved).observe(term).text


REFUSED = SCENARIO + "  client_errors: {billing: {GROUP_MAX_SIZE_REACHED: 1}}\n"


NO_ROOM = "GROUP_MAX_SIZE_REACHED: no"


@pytest.mark.parametrize(
    ("errors", "verdict", "why"),
    [
        ([("billing/3", NO_ROOM), ("billing/3", NO_ROOM)], "pass", ""),
        (
            [("billing/3", "_TRANSPORT: gone"), ("other/3", NO_ROOM)],
            "fail",
            "reported by no client; other errors: _TRANSPORT: gone",
        ),
        ([], "fail", "reported by no client"),
        ([("billing/2", NO_ROOM), ("billing/3", NO_ROOM)], "fail", "reported by billing/2, billing/3"),
    ],
)
def test_a_demanded_client_error_is_counted_by_client(fake, errors, verdict, why):
    run = fake(REFUSED)
    run.ledger["lifecycle"] += [life(client, "consumer", "error", error=words) for client, words in errors]
    run.ledger["lifecycle"].append(life("billing/1", "consumer", "stopped", error=NO_ROOM))
    found = judged(run)["client_errors", "GROUP_MAX_SIZE_REACHED", "billing"]
    number = len({client for client, words in errors if client.startswith("billing/") and words == NO_ROOM})
    assert (found.verdict, found.seen, found.why) == (verdict, str(number), why)


def test_errors_of_unrecorded_clients_are_inconclusive(fake):
    run = fake(REFUSED)
    run.ledger["lifecycle"] = []
    assert judged(run)["client_errors", "GROUP_MAX_SIZE_REACHED", "billing"].verdict == "inconclusive"


def test_what_cannot_be_evaluated_is_inconclusive(fake):
    run = fake().write()
    term = terms(run.resolved)[0]
    seen = Measure(run.run, run.resolved).observe(term)
    (crashed,) = judge([(term, seen, Outcome(exception="no such column"))])
    (empty,) = judge([(term, seen, Outcome())])
    assert (crashed.verdict, empty.verdict) == ("inconclusive", "inconclusive")
    assert "no such column" in crashed.why and "have no value of it" in empty.why


def test_an_incarnation_that_was_started_twice_is_inconclusive_and_named(fake):
    run = fake()
    run.ledger["lifecycle"] += [life("shop/1", "producer", "started")]
    found = judged(run)
    assert others_pass(found, ("ledger_complete", "incarnations", ""))
    why = "shop/1 incarnation 1 was started more than once, so its rows "
    assert found["ledger_complete", "incarnations", ""].why.startswith(why)


@pytest.mark.parametrize(("in_log", "evicted", "said"), [(0, 900, True), (1, 899, False), (0, 0, False)])
def test_a_check_saw_nothing_because_the_log_was_empty_if_all_records_were_deleted(fake, in_log, evicted, said):
    run = fake()
    run.examined_nothing("dirty_read")
    run.counts = [row for row in run.counts if row["name"] != "in_log"]
    run.counts += [{"name": n, "scope": "orders", "value": v} for n, v in (("in_log", in_log), ("evicted", evicted))]
    found = judged(run)["dirty_read", "", ""]
    why = "the check saw nothing: retention, or a fault, deleted all 900 acknowledged records before the log was "
    assert found.verdict == "inconclusive" and (why in found.why, "deleted all" in found.why) == (said, said)


def test_a_clock_that_ran_backwards_makes_only_checks_of_order_and_time_inconclusive(fake):
    run = fake()
    run.counts.append({"name": "clock_backwards", "scope": "deliveries of billing/1", "value": 12})
    found = judged(run)
    open_ones = {check for (check, _, _), e in found.items() if e.verdict == "inconclusive"}
    assert open_ones == NEED_CLOCK | {"produce_unavailability"}
    assert "12 rows of deliveries of billing/1" in found["duplicate_delivery", "illegal", ""].why
    assert found["lost_write", "", ""].verdict == "pass"


RACKS = SCENARIO.replace("cluster: {brokers: 3}", "cluster: {brokers: 3, racks: [a, b, c]}").replace(
    "members: 2, topics: [orders]", "members: 2, rack: b, topics: [orders]"
)


@pytest.mark.parametrize(
    ("counts", "verdict", "seen"),
    [
        ([{"1": 10, "2": 90}], "pass", "90 of 100 fetches went to rack b (10 to broker 1, 90 to broker 2)"),
        ([{"1": 50, "2": 50}], "inconclusive", "50 of 100 fetches went to rack b (50 to broker 1, 50 to broker 2)"),
        # its rack was down later
        ([{"1": 2, "2": 30}, {"1": 200, "2": 40}], "pass", "30 of 32 fetches went to rack b (2 to broker 1, 30 to "),
        ([{"1": 200, "2": 40}, {"1": 2, "2": 30}], "pass", "30 of 32 fetches went to rack b (2 to broker 1, 30 to "),
        ([{"1": 500, "2": 501}], "pass", "501 of 1,001 fetches went to rack b"),
        ([{"1": 1, "2": 4, "3": 1}], "pass", "4 of 6 fetches went to rack b (1 to broker 1, 4 to broker 2, 1 to br"),
        ([{"1": 1, "2": 4}], "pass", "4 of 5 fetches went to rack b (1 to broker 1, 4 to broker 2)"),
        ([{"2": 3}, {"1": 50, "2": 50}], "inconclusive", "50 of 100 fetches went to rack b (50 to broker 1, 50 to b"),
        ([{"1": 1, "2": 3}], "inconclusive", "3 of 4 fetches went to rack b (1 to broker 1, 3 to broker 2)"),
        ([{"1": 0}], "inconclusive", "0 of 0 fetches went to rack b"),
        ([], "inconclusive", "not counted"),
    ],
)
def test_a_consumer_that_did_not_read_from_its_rack_proves_nothing(fake, counts, verdict, seen):
    run = fake(RACKS)
    for n, row in enumerate(counts):
        noted = {"at_us": T0 + n, "entity": "client:billing", "key": "fetches", "value": json.dumps(row)}
        run.ledger["cluster"] = [*run.ledger.get("cluster", []), noted]
    found = judged(run)["rack_fetches", "", "billing"]
    assert found.verdict == verdict and found.seen.startswith(seen) and "()" not in found.seen
    assert "load" not in found.why


@pytest.mark.parametrize("sent", [0, 5])
def test_an_end_of_the_drive_before_the_first_send_is_the_reason_and_what_follows_gives_no_advice(fake, sent):
    run = fake()
    run.ledger["faults"] = []
    run.stages = [("deploy", "end"), ("clients", "failed"), ("seal", "end")]
    for row in run.counts:
        if row["name"] in ("sent", "acked", "delivered"):
            row["value"] = sent if row["name"] == "sent" else 0
    found = judged(run)
    whys = {key: e.why for key, e in found.items() if e.verdict == "inconclusive"}
    assert whys.pop(("drive_completed", "", "")).startswith("the drive ended early (clients")
    assert whys.keys() >= {PROOF, ("something_happened", "sent", ""), ("something_happened", "acked", "")}
    assert ("follows from the early end of the drive" in whys.values()) == (not sent)
    assert sent or len(set(whys.values())) == 1


def test_the_last_words_of_a_client_that_ended_the_drive_are_the_reason_and_what_follows_gives_no_advice(fake):
    run = fake()
    words = "no committed offset for orders/0, and auto.offset.reset is error"
    run.ledger["lifecycle"] += [life("replay/1", "consumer", "crashed", unexpected=True, error=words)]
    run.ledger["faults"] = []
    run.stages = [("deploy", "end"), ("clients", "failed"), ("seal", "end")]
    for name in ("sent", "delivered"):
        run.counts = [c for c in run.counts if c["name"] != name]
    found = judged(run)
    assert found["clients_lived", "", ""].why == f"replay/1 died: {words}; see logs/replay-1.log"
    whys = {key: e.why for key, e in found.items() if e.verdict == "inconclusive" and key[0] != "clients_lived"}
    assert whys.keys() >= {PROOF, ("drive_completed", "", ""), ("something_happened", "sent", "")}
    assert set(whys.values()) == {"follows from the death of replay/1"}


@pytest.mark.parametrize(
    ("whys", "verdict"),
    [
        (["its checkpoint was 0, not 57", "the given start"], "fail"),  # it had one, and began beyond it
        (["the given start"], "inconclusive"),  # perhaps before its first checkpoint
    ],
)
def test_a_restart_that_leaves_records_out_is_decided_by_its_checkpoint(fake, whys, verdict):
    job = "name: replay, members: 1, topics: [orders], client: flink, start: latest"
    crash = "  - {name: away, kind: consumer.crash, target: {member: replay/1}, when: {acked: 1}}\nexpect:"
    run = fake(PROMISED.replace("name: replay, members: 1, topics: [orders]", job).replace("expect:", crash))
    run.found("skipped_delivery", count=1)
    skipped = [("skipped_delivery", why) for why in whys]
    run.anomalies = [
        {"check": check, "split": "", "scope": "replay/1", "evidence": json.dumps({"start_why": why})}
        for check, why in (*skipped, ("stalled_delivery", "its checkpoint was 0, not 57"))
    ]
    assert judged(run)["skipped_delivery", "", ""].verdict == verdict


def test_a_producer_of_failed_sends_gives_the_error_of_the_last_one(fake):
    run = fake()
    send = {"producer": "shop/1", "incarnation": 1, "topic": "orders", "outcome": "fail", "invoked_us": 1}
    last = [
        send | {"seq": n, "error": error, "completed_us": 9 - n} for n, error in enumerate(("INVALID_TIMESTAMP", "x"))
    ]
    run.ledger["sends"] = [*last, send | {"seq": 2, "topic": "other", "error": "of another topic", "completed_us": 20}]
    for row in run.counts:
        row["value"] = 0 if row["name"] == "acked" else row["value"]
    found = judged(run)["something_happened", "acked", ""]
    assert found.why.startswith("no record was acknowledged; shop/1 reported: INVALID_TIMESTAMP")


def test_what_follows_from_the_failure_of_all_sends_gives_no_advice_and_what_does_not_keeps_its_own(fake):
    run = fake()
    for row in run.counts:
        row["value"] = 0 if row["name"] in ("acked", "delivered") else row["value"]
    for row in run.summary:
        row["count"] = row["examined"] = 0
    run.ledger["faults"] = []
    found = judged(run)
    whys = {key: e.why for key, e in found.items() if e.verdict == "inconclusive"}
    assert whys.pop(("something_happened", "acked", "")).startswith("no record was acknowledged; ")
    assert PROOF in whys and ("something_happened", "delivered", "") in whys and ("lost_write", "", "") in whys
    assert set(whys.values()) == {"follows from the failure of all sends"}


def folded(*undecided: tuple[str, str, str, str]) -> list[str]:
    """Return the reasons of terms that could not be decided. undecided: check, split, value as text, reason."""
    observed = [
        (Term("t", check, "m", split=split), Observation.missing(seen, why)) for check, split, seen, why in undecided
    ]
    return [e.why for e in judge([(term, seen, Outcome()) for term, seen in observed])]


UNACKED = ("something_happened", "acked", "0", "no record was acknowledged; shop/1 reported: x")
UNSENT, DIED = "follows from the failure of all sends", "follows from the death of shop/1"


@pytest.mark.parametrize(
    ("other", "follows"),
    [
        (("something_happened", "delivered", "0", "nothing was delivered to billing"), True),
        (("something_happened", "sent", "0", "0 of 9 records were sent"), False),
        (("lost_write", "", "0 of 0", "the check saw nothing: nothing was sent"), True),
        (("lost_write", "", "not counted", "the audit saw that the check saw nothing"), False),
        (("fault_proof", "", "no proof", "f was never injected: its trigger (at 9 acknowledged records) x"), True),
        (("fault_proof", "", "no proof", "f was never injected: its trigger (at 9 s) did not come"), False),
        (("fault_proof", "", "no proof", "f was seen at 9 acknowledged records, and not proven"), False),
    ],
)
def test_only_what_waits_for_acknowledged_records_follows_from_the_failure_of_all_sends(other, follows):
    assert folded(UNACKED, other) == [UNACKED[3], UNSENT if follows else other[3]]
    alone = (*UNACKED[:3], "nothing was acknowledged in orders")
    assert folded(alone, other) == [alone[3], other[3]]


ENDED = [("clients_lived", "", "1", "shop/1 died: out of heap"), ("drive_completed", "", "1", "the drive ended early")]
LOST = ("lost_write", "", "not counted", "it was not counted")


@pytest.mark.parametrize(
    ("other", "own", "of_others"),
    [
        (("ledger_complete", "torn", "9 bytes", "torn at the end"), False, False),
        (("ledger_complete", "rows", "9", "rows not audited"), True, True),
        (("ledger_complete", "incarnations", "1", "started twice"), True, True),
        (("log_read_back", "", "0", "not read back"), True, True),
        (("nonmonotonic_poll", "", "not counted", "the clock was set back"), True, True),
        (("fault_proof", "", "failed", "the kill failed: no such process"), True, False),
        (("fault_proof", "", "failed", "the kill failed: shop/1 died"), False, False),
        (("fault_proof", "", "no proof", "no effect was seen"), False, False),
    ],
)
def test_what_has_a_cause_apart_from_the_death_of_a_client_keeps_its_reason_and_may_be_that_of_others(
    other, own, of_others
):
    """A condition of the platform follows from the death also beside such a cause."""
    sent = ("something_happened", "sent", "3", "3 of 9 records were sent")
    whys = folded(*ENDED, other, LOST, sent)
    assert whys == [
        ENDED[0][3], DIED, other[3] if own else DIED, LOST[3] if of_others else DIED, DIED,
    ]  # fmt: skip


def test_the_end_of_the_drive_follows_from_a_death_also_if_nothing_else_does():
    assert folded(*ENDED) == [ENDED[0][3], DIED]


def test_what_passes_follows_from_nothing():
    acked, delivered = (Term("t", "something_happened", "m", split=split) for split in ("acked", "delivered"))
    seen = [(acked, Observation.missing("0", UNACKED[3]), Outcome()), (delivered, Observation(3, "3"), Outcome(True))]
    assert [(e.verdict, e.why) for e in judge(seen)] == [("inconclusive", UNACKED[3]), ("pass", "")]


def test_a_fault_that_waits_for_acknowledgements_names_the_sends_without_one(fake):
    run = fake()
    run.ledger["faults"] = []
    for row in run.counts:
        row["value"] = 3 if row["name"] == "acked" else 10 if row["name"] == "sent" else row["value"]
    found = judged(run)
    assert found[PROOF].why.endswith(
        "did not come: 3 of 10 records sent were acknowledged; mend the sends, or set it earlier or raise limits.drive"
    )
    assert found["something_happened", "acked", ""].verdict == "pass"


def test_a_fault_whose_moment_was_not_waited_for_any_more_says_so(fake):
    run = fake()
    run.ledger["faults"] = []
    for fault in ("other", "kill"):
        EventLog(run.run).emit(OVERDUE, fault=fault, words=f"the moment of {fault} never came; do this")
    found = judged(run)[PROOF]
    assert found.verdict == "inconclusive"
    assert found.why.endswith("fault kill was never injected: the moment of kill never came; do this")


def test_a_reader_without_records_gives_its_last_error(fake):
    run = fake()
    errors = ["a broker is down", "_AUTO_OFFSET_RESET: no committed\noffset"]
    run.ledger["lifecycle"] += [life("billing/2", "consumer", "error", error=error) for error in errors]
    run.ledger["lifecycle"] += [life("replay/1", "consumer", "error", error="of another entry")]
    run.counts = [c for c in run.counts if (c["name"], c["scope"]) != ("delivered", "billing")]
    assert judged(run)["something_happened", "delivered", ""].why == (
        "nothing was delivered to billing; billing/2 reported: _AUTO_OFFSET_RESET: no committed offset"
    )


def test_a_client_that_died_while_the_drive_went_on_explains_nothing_else(fake):
    run = fake()
    run.ledger["lifecycle"] += [life("billing/1", "consumer", "crashed", unexpected=True, error="out of heap")]
    run.ledger["faults"] = []
    found = judged(run)
    assert found[PROOF].why.startswith("fault kill was never injected") and "died" not in found[PROOF].why


JUMP = "{name: j, kind: clock.jump, by: +1h, target: {broker: 1}, when: {acked: 1}}"
STAMPED = SCENARIO.replace("{brokers: 3}", "{brokers: 3, config: {log.message.timestamp.type: LogAppendTime}}", 1)


DELETED = "{name: d, kind: topic.delete_records, before: 1, target: {topic: orders}, when: {acked: 9}}"
OF_CLIENT = JUMP.replace("{broker: 1}", "{member: shop/1}")
OF_READER = JUMP.replace("{broker: 1}", "{member: billing/1}")


def with_faults(scenario: str, *faults: str) -> str:
    return scenario.replace("faults:", "faults:\n" + "\n".join(f"  - {fault}" for fault in faults), 1)


@pytest.mark.parametrize(
    ("scenario", "undecided"),
    [
        (with_faults(STAMPED, JUMP, DELETED), {"returned_record"}),
        (with_faults(STAMPED, JUMP), set()),  # nothing to examine
        (with_faults(SCENARIO, JUMP, DELETED), set()),
        (with_faults(STAMPED, DELETED), set()),
        (with_faults(SCENARIO, OF_CLIENT, DELETED), {"returned_record"}),
        (with_faults(SCENARIO, OF_READER, DELETED), set()),
        (
            with_faults(SCENARIO.replace("name: shop,", "name: shop, timestamps: seconds,", 1), DELETED),
            {"returned_record"},
        ),
    ],
)
def test_records_stamped_by_wrong_clocks_decide_nothing_by_their_times(fake, scenario, undecided):
    assert undecided <= NEED_LOG_TIMES
    found = judged(fake(scenario))
    whys = {check: e.why for (check, _, _), e in found.items() if e.verdict == "inconclusive"}
    assert whys.keys() == undecided
    assert all(" changed the times of the records of orders: " in why for why in whys.values())


@pytest.mark.parametrize(
    ("times_us", "back_us"),
    [
        ((0, 900, 850), 0),
        ((0, 200_000, 100_000), 0),
        ((0, 200_001, 100_000), 100_001),
        ((0, 600_000, 100_000, 700_000), 500_000),
        ((0, 600_000, 550_000, 450_000), 150_000),
    ],
)
def test_a_clock_that_was_set_back_shows_in_the_events_of_the_drive(times_us, back_us):
    """Events of the audit do not count: it may run later, on another machine."""
    events = [{"kind": "progress", "at_us": T0 + at_us} for at_us in times_us]
    assert (
        conditions.set_back_us([*events, {"kind": "stage", "stage": "audit", "state": "begin", "at_us": 0}]) == back_us
    )


WIRE = SCENARIO.replace("expect:", "capture: {judged: wire}\nexpect:")


def test_what_the_wire_does_not_decide_is_no_pass_and_inconclusive_if_the_scenario_asks_for_it(fake):
    found = judged(fake(WIRE))
    assert {key for key, e in found.items() if e.verdict == "inconclusive"} == {("duplicate_delivery", "illegal", "")}
    for (check, _, _), e in found.items():
        if check in ANOMALIES and (hidden := ANOMALIES[check].hidden):
            assert e.verdict in ("not applicable", "inconclusive")
            bounded = f"`expect` bounds {check}, which is {hidden}"
            assert e.why == (hidden if e.verdict == "not applicable" else bounded)
    assert found["lost_write", "", ""].verdict == "pass" and found["overcommit", "", ""].verdict == "not applicable"


ROWS = ("ledger_complete", "rows", "")


@pytest.mark.parametrize(("audited", "verdict"), [(2, "pass"), (1, "inconclusive")])
def test_of_a_run_that_is_judged_on_the_wire_the_rows_of_the_wire_were_audited(fake, audited, verdict):
    """Clients also have rows of what they never sent."""
    run = fake(WIRE)
    run.ledger["assignments"] *= 2
    run.wire_rows["assignments"] = 2
    next(r for r in run.counts if r["name"] == "rows_audited")["value"] = audited
    assert judged(run)[ROWS].verdict == verdict


def test_clients_have_each_row_audited(fake):
    run = fake()
    run.ledger["assignments"] *= 2
    assert judged(run)[ROWS].verdict == "inconclusive"


@pytest.mark.parametrize(
    ("scenario", "topic", "hidden"), [(WIRE, "orders", True), (WIRE, "stock", False), (SCENARIO, "orders", False)]
)
def test_the_wire_says_that_it_shows_no_compacted_topic(fake, scenario, topic, hidden):
    compacted = scenario.replace("topics: [{", "topics: [{name: stock}, {", 1)
    compacted = compacted.replace(f"{{name: {topic}", f"{{name: {topic}, config: {{cleanup.policy: compact}}", 1)
    run = fake(compacted.replace("records: 1000", "records: 1000, keys: 100"))
    run.counts = [row for row in run.counts if row["name"] not in ("sent", "acked", "delivered")]
    run.counts += [{"name": n, "scope": s, "value": 0} for n, s in (("sent", "orders"), ("acked", "orders"))]
    why = "the wire does not show which records a compacted topic keeps, so nothing of "
    found = judged(run)
    whys = [found["something_happened", split, ""].why for split in ("sent", "acked", "delivered")]
    assert [one.startswith(f"{why}orders is decided; ") for one in whys] == [hidden] * 3
    assert [why in one for one in whys] == [hidden] * 3


def test_a_capture_that_is_not_whole_decides_nothing(fake):
    run = fake(WIRE)
    why = "3 frames of the capture could not be read"
    run.undecided = [{"check": "wire", "scope": "", "why": why, "advice": "", "count": 1}]
    found = judged(run)
    assert {e.verdict for (check, _, _), e in found.items() if check in ANOMALIES} == {"inconclusive"}
    assert found["lost_write", "", ""].why == why


@pytest.mark.parametrize(("effects", "rows"), [("aba", [0, 2]), ("aa", [0, 1]), ("bb", []), ("", [])])
def test_only_the_rows_of_an_effect_count_for_it(effects, rows):
    frame = pd.DataFrame({"effect": pd.Series([*effects], dtype=object)})
    engine = SimpleNamespace(get_compute_domain=lambda domain, domain_type: (frame, {}, {}))
    assert bounds._of_effect(engine, {}, "a").index.tolist() == rows


TAPPED = """
title: What passes a tap
cluster: {driver: attached, bootstrap: "localhost:9092"}
topics: [{name: orders, partitions: 2, replication_factor: 3}]
producers: []
capture: {judged: wire}
expect: {}
"""


def test_what_did_not_pass_a_tap_does_not_apply_but_a_check_without_a_result_proves_nothing(fake):
    run = fake(TAPPED)
    run.examined_nothing("lost_write")
    run.summary = [row for row in run.summary if row["check"] != "duplicate_write"]
    found = judged(run)
    lost, double = found["lost_write", "", ""], found["duplicate_write", "", ""]
    assert (lost.verdict, lost.why) == ("not applicable", "nothing of the kind passed the tap")
    assert (double.verdict, double.seen) == ("inconclusive", "not checked")


def test_a_check_without_a_result_is_inconclusive_also_if_a_run_may_give_it_nothing(fake):
    run = fake()
    run.summary = [row for row in run.summary if row["check"] != "backdated_write"]
    found = judged(run)["backdated_write", "", ""]
    assert (found.verdict, found.seen) == ("inconclusive", "not checked")


def test_a_limit_of_client_errors_is_not_kept_by_an_entry_without_a_client(fake):
    run = fake(REFUSED.replace("REACHED: 1}", "REACHED: {max: 1}}"))
    run.ledger["lifecycle"] = [life("shop/1", "producer", "started")]
    found = judged(run)
    assert found["clients_lived", "", ""].verdict == "pass"
    assert found["client_errors", "GROUP_MAX_SIZE_REACHED", "billing"].verdict == "inconclusive"


def test_client_errors_count_also_if_rows_were_missed(fake):
    run = fake(REFUSED)
    run.ledger["lifecycle"].append(life("billing/3", "consumer", "error", error="GROUP_MAX_SIZE_REACHED"))
    next(r for r in run.counts if r["name"] == "rows_audited")["value"] = 1
    found = judged(run)
    assert found["lost_write", "", ""].verdict == "inconclusive"
    assert found["client_errors", "GROUP_MAX_SIZE_REACHED", "billing"].verdict == "pass"


def test_a_group_of_assign_mode_only_never_rebalances(fake):
    scenario = SCENARIO.replace("{mode: subscribe, name: billing", "{mode: assign, name: billing")
    run = fake(scenario.replace("{mode: assign, name: replay", "{mode: subscribe, group: other, name: replay"))
    run.ledger["assignments"] = [assigned(1, T0) | {"mode": "assign", "generation": None}] * 2
    run.write()
    assert count_rebalances(run.run, run.resolved, "billing").value == 0


def test_an_assign_mode_member_of_a_group_does_not_hide_the_rebalances_of_the_others(fake):
    run = fake(SCENARIO.replace("{mode: assign, name: replay", "{mode: assign, group: billing, name: replay"))
    run.ledger["assignments"] = [assigned(1, T0), assigned(4, T0 + SECOND)]
    run.write()
    assert count_rebalances(run.run, run.resolved, "billing").value == 3


@pytest.mark.parametrize(("value_us", "verdict"), [(None, "inconclusive"), (9 * SECOND, "pass"), (11 * SECOND, "fail")])
def test_a_time_that_no_fault_has_is_measured_once_for_the_run(fake, value_us, verdict):
    run = fake(SCENARIO + "  ack_latency: {p99: 10s}\n")
    run.metrics.append({"metric": "ack_latency", "scope": "orders", "fault": "", "stat": "p99", "value_us": value_us})
    found = judged(run)["ack_latency", "p99", ""]
    assert found.verdict == verdict
    assert value_us or "nothing of the kind happened" in found.why


def test_only_deliveries_that_were_left_out_show_that_a_checkpoint_was_ignored(fake):
    run = fake(PROMISED)
    run.found("stalled_delivery", count=3, scope="billing")
    evidence = json.dumps({"start_why": "its checkpoint was 0, not 57"})
    run.anomalies = [{"check": "stalled_delivery", "split": "", "scope": "billing", "evidence": evidence}]
    assert judged(run)["stalled_delivery", "", ""].verdict == "inconclusive"
