"""Evidence, mechanisms, counts, times and curves of hand-written histories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.scenario.load import parse
from checks.audit import AUDIT_TABLES, audit, findings
from checks.audit.findings import CAP
from checks.audit.output.totals import _in_time
from checks.audit.stage import Inputs
from tests.checks.audit import stories
from tests.checks.audit.story import RUN_ID, Story, make_run, read_audit, resolved_of

Tables = dict[str, list[dict[str, Any]]]
MS = 1_000


def many_lost(s: Story) -> None:
    for seq in range(CAP + 50):
        s.send(seq, seq)
    s.wrote(CAP + 50)


def an_outage(s: Story) -> None:
    """Acknowledged every 10 ms; after the fault partition 0 takes 500 ms to answer and partition 1 never does."""
    s.partitions, s.members = 3, 1
    for seq in range(10):
        s.send(seq, seq, completed_us=s.tick(9 * MS)).log(seq, seq)
    s.fault("injected")
    s.send(10, 10, invoked_us=s.now, completed_us=s.now + 500 * MS).log(10, 10)
    s.send(11, None, "unknown", partition=1, invoked_us=s.now + MS)
    s.tick(600 * MS)
    s.assigned().got(*range(11)).commit(11)


def a_rebalance(s: Story) -> None:
    s.members, s.partitions = 2, 2
    s.wrote(0)
    first = s.assigned(1, generation=1).got(0).commit(1)
    other = s.assigned(1, generation=1, partition=1)
    other.revoked()
    s.assigned(2, generation=2, partition=1, position=0)  # the group has formed: both members hold something
    s.tick(50 * MS)
    first.revoked()
    s.tick(200 * MS)
    s.assigned(2, position=1, source="committed", generation=3)


def an_election(s: Story) -> None:
    """Injected; a follower leaves the ISR; another leader 300 ms later; healed; the ISR is full after 700 ms."""
    s.wrote(0).observed("isr", "[1, 2, 3]").observed("leader", 1).observed("leader_epoch", 4)
    s.fault("injected").tick(299 * MS)
    s.observed("isr", "[2, 3]").observed("leader", 2).observed("leader_epoch", 5)
    s.fault("healed").tick(699 * MS)
    s.observed("isr", "[1, 2, 3]").observed("leader_epoch", 6)


def a_shrunken_isr(s: Story) -> None:
    """It never became full again, and its epoch rose without an election."""
    s.wrote(0).observed("isr", "[1, 2]").observed("leader", 1).observed("leader_epoch", 4)
    s.fault("injected").tick(99 * MS)
    s.observed("isr", "[1]").observed("leader_epoch", 5)


NARRATED: list[Callable[[Story], None]] = [
    many_lost,
    an_outage,
    a_rebalance,
    an_election,
    a_shrunken_isr,
    *(
        stories.STORIES[name][0]
        for name in (
            "assign_mode_delivers_below_its_restored_checkpoint",
            "acked_and_gone",
            "acked_and_evicted",
            "its_row_died_with_the_producer",
            "committed_then_died",
            "an_evicted_member_went_on_with_its_batch",
            "left_out_between_two_owners",
            "sought_ahead_and_back_and_ahead_again",
            "sought_ahead_twice_and_delivered_nothing_in_between",
            "rewound_by_an_aborted_transaction_and_gone_on_beyond",
            "begun_above_the_first_record_of_its_range",
            "moved_by_another_job",
            "written_again_after_a_restart",
        )
    ),
]


@pytest.fixture(scope="module")
def by_name() -> dict[str, Story]:
    found = {}
    for number, write in enumerate(NARRATED, start=1):
        found[write.__name__] = Story(write.__name__, number, now=10_000_000 * number)
        write(found[write.__name__])
    return found


@pytest.fixture(scope="module")
def tables(spark: Any, by_name: dict[str, Story], tmp_path_factory: pytest.TempPathFactory) -> Tables:
    run = make_run(tmp_path_factory.mktemp("tables") / RUN_ID, list(by_name.values()))
    audit(spark, run, resolved_of(list(by_name.values())))
    audit(spark, run, resolved_of(list(by_name.values())))  # again, over the first
    assert sorted(p.name for p in run.audit.iterdir()) == sorted(AUDIT_TABLES)
    assert sorted(p.name for p in run.path.iterdir()) == ["audit", "ledger"]
    return {table: read_audit(run, table) for table in AUDIT_TABLES}


@pytest.mark.slow
def test_one_task_finds_what_several_find(
    spark: Any, by_name: dict[str, Story], tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checks.spark.parts.ROWS_PER_TASK", 1 << 30)
    monkeypatch.setattr("checks.audit.engine.scan.FEW_ROWS", 1 << 30)
    run = make_run(tmp_path / RUN_ID, list(by_name.values()))
    audit(spark, run, resolved_of(list(by_name.values())))
    for table, rows in tables.items():  # the order of rows follows that in which tallies arrive
        assert sorted(read_audit(run, table), key=str) == sorted(rows, key=str), table


def finding(tables: Tables, scope: str, check: str) -> dict[str, Any]:
    found = [a for a in tables["anomalies"] if a["scope"] == scope and a["check"] == check]
    assert found, f"no {check} in {scope}"
    return found[0] | {"evidence": json.loads(found[0]["evidence"])}


def metric(tables: Tables, name: str, scope: str, fault: str = "") -> dict[str, int]:
    rows = [r for r in tables["metrics"] if (r["metric"], r["scope"], r["fault"]) == (name, scope, fault)]
    return {r["stat"]: r["value_us"] for r in rows}


def counts(tables: Tables, scope: str) -> dict[str, int]:
    return {r["name"]: r["value"] for r in tables["counts"] if r["scope"] == scope}


def test_counts_are_exact_and_evidence_is_capped(tables: Tables) -> None:
    (row,) = [r for r in tables["summary"] if r["scope"] == "many_lost" and r["check"] == "lost_write"]
    assert (row["count"], row["examined"]) == (CAP + 50, CAP + 51)
    shown = [a["offset"] for a in tables["anomalies"] if a["scope"] == "many_lost"]
    assert shown == list(range(CAP))


def test_a_lost_write_names_leaders_epochs_acks_and_fault(tables: Tables, by_name: dict[str, Story]) -> None:
    lost = finding(tables, "acked_and_gone", "lost_write")
    fault = f"f{by_name['acked_and_gone'].number}"
    assert lost["mechanism"] == (
        "acked by broker 2 in leader epoch 3 (acks=1) and cut off when broker 1 became leader in epoch 4 "
        f"after fault {fault}"
    )
    evidence = lost["evidence"]
    assert (evidence["leader"], evidence["leader_epoch"], evidence["isr"]) == (2, 3, [1, 2, 3])
    assert (evidence["next_leader"], evidence["next_leader_epoch"], evidence["fault"]) == (1, 4, fault)


@pytest.mark.parametrize(
    ("scope", "check", "text"),
    [
        (
            "committed_then_died",
            "lost_processing",
            "committed 3 but had processed only to 1 when its epoch ended (crashed)",
        ),
        ("committed_then_died", "overcommit", "committed 3 (sync) when it had processed to 0"),
        (
            "left_out_between_two_owners",
            "skipped_delivery",
            "began at 2 (the given start), though only 1 had been reached",
        ),
        (
            "sought_ahead_and_back_and_ahead_again",
            "skipped_delivery",
            "began at 7 (a seek), though only 5 had been reached",
        ),
        (
            "sought_ahead_twice_and_delivered_nothing_in_between",
            "skipped_delivery",
            "began at 5 (a seek), though only 3 had been reached",
        ),
        (
            "rewound_by_an_aborted_transaction_and_gone_on_beyond",
            "skipped_delivery",
            "began at 3 (a seek), though only 1 had been reached",
        ),
        ("begun_above_the_first_record_of_its_range", "skipped_delivery", "(it began at 0 and delivered 2 first)"),
        ("written_again_after_a_restart", "duplicate_write", "by incarnation 2 after the restart"),
    ],
)
def test_a_mechanism_is_a_sentence(tables: Tables, scope: str, check: str, text: str) -> None:
    assert text in finding(tables, scope, check)["mechanism"]


def test_a_redelivery_states_its_bound(tables: Tables, by_name: dict[str, Story]) -> None:
    again = finding(tables, "an_evicted_member_went_on_with_its_batch", "duplicate_delivery")
    assert again["split"] == "legal" and again["consumer"] == by_name[again["scope"]].reader(2)
    assert again["evidence"]["epoch_start"] == 1 and again["evidence"]["uncommitted_bound"] == 2
    assert "began at 1: the committed offset" in again["mechanism"]


def test_a_redelivery_below_the_start_names_the_offset(tables: Tables, by_name: dict[str, Story]) -> None:
    story = by_name["assign_mode_delivers_below_its_restored_checkpoint"]
    below = finding(tables, story.reader(1), "duplicate_delivery")
    assert below["split"] == "illegal" and below["offset"] == 1
    assert "began at 2: its checkpoint" in below["mechanism"] and ", and yet delivered 1;" in below["mechanism"]


def test_a_foreign_commit_names_the_other_job(tables: Tables, by_name: dict[str, Story]) -> None:
    s = by_name["moved_by_another_job"]
    moved = finding(tables, s.reader(1), "foreign_commit")
    assert moved["evidence"]["committed_by"] == [s.reader(2)] and moved["evidence"]["own_last_commit"] == 1
    assert "its own last commit was 1" in moved["mechanism"]


def test_counts_of_a_topic_and_a_reader(tables: Tables) -> None:
    outage = counts(tables, "an_outage")
    assert {k: outage[k] for k in ("sent", "acked", "failed", "unknown", "in_log", "log_gaps")} == {
        "sent": 12, "acked": 11, "failed": 0, "unknown": 1, "in_log": 11, "log_gaps": 0,
    }  # fmt: skip
    assert counts(tables, "its_row_died_with_the_producer")["unknown"] == 1
    assert counts(tables, "acked_and_evicted")["evicted"] == 1
    evicted = counts(tables, "an_evicted_member_went_on_with_its_batch")
    assert (evicted["delivered"], evicted["distinct"]) == (5, 3)


def test_every_row_of_the_ledger_is_accounted_for(tables: Tables) -> None:
    for table in ("sends", "deliveries", "commits", "assignments", "lifecycle", "faults", "cluster", "log"):
        assert counts(tables, table)["rows_read"] == counts(tables, table)["rows_audited"] > 0
        assert counts(tables, table)["torn_bytes"] == 0


def test_an_outage_is_measured_per_partition(tables: Tables, by_name: dict[str, Story]) -> None:
    s = by_name["an_outage"]
    fault = f"f{s.number}"
    gone = metric(tables, "produce_unavailability", "an_outage", fault)
    end = max(t.now for t in by_name.values())
    injected = s.rows["faults"][0]["at_us"]
    assert gone["count"] == 2 and gone["max"] >= end - injected - 10 * MS
    assert gone["p50"] in range(480 * MS, 501 * MS)
    assert counts(tables, f"{fault}:an_outage")["produce_unavailability_unrecovered"] == 1
    stood_still = counts(tables, f"{fault}:an_outage").get("produce_unavailability_stopped", 0)
    assert stood_still == (gone["max"] >= 1_000 * MS), "not the partition that was back within half a second"
    assert metric(tables, "ack_latency", "an_outage")["max"] == 500 * MS


def test_a_fault_of_another_cluster_is_none_of_the_audit_and_one_that_no_scenario_names_is():
    text = (
        "title: t\ntopics: [{name: orders, replication_factor: 1}]\nproducers: [{name: shop, topic: orders}]\n"
        "clusters: {primary: {brokers: 1}, dr: {brokers: 1}}\nfaults:\n"
        "- {name: here, kind: broker.stop, target: {broker: 1}, when: {acked: 1}}\n"
        "- {name: there, cluster: dr, kind: broker.stop, target: {broker: 1}, when: {acked: 1}}\n"
    )
    scenario = parse(text, "t.yaml").at("primary")
    rows = [{"fault": name} for name in ("here", "there", "before")]
    inputs = Inputs(scenario, None, {"faults": rows}, {}, {}, {}, None, None, 0, 0)
    assert [row["fault"] for row in inputs.faults] == ["here", "before"]


def test_a_rebalance_lasts_until_the_next_generation_has_its_partitions(tables: Tables) -> None:
    lasted = metric(tables, "rebalance_duration", "a_rebalance")
    assert lasted["count"] == 1 and lasted["max"] == 201 * MS
    assert metric(tables, "rebalance_duration", "an_outage") == {"count": 0}


def test_ownership_says_how_it_ended(tables: Tables, by_name: dict[str, Story]) -> None:
    rows = [r for r in tables["ownership"] if r["topic"] == "committed_then_died"]
    assert [(r["consumer"], r["generation"], r["end_reason"]) for r in rows] == [
        (by_name["committed_then_died"].reader(1), 1, "crashed"),
        (by_name["committed_then_died"].reader(2), 2, "open"),
    ]
    assert all(r["begin_us"] <= r["end_us"] for r in rows)


def test_the_curves_add_up(tables: Tables) -> None:
    acked = [r["value"] for r in tables["series"] if (r["series"], r["scope"]) == ("acked", "an_outage")]
    assert sum(acked) == 11
    calls = {s: sum(r["value"] for r in tables["series"] if r["series"] == s) for s in ("called", "unacked")}
    counts = {n: sum(r["value"] for r in tables["counts"] if r["name"] == n) for n in ("sent", "acked")}
    assert calls == {"called": counts["sent"], "unacked": counts["sent"] - counts["acked"]}
    lag = [r["value"] for r in tables["series"] if (r["series"], r["scope"]) == ("lag", "an_outage")]
    assert lag[-1] == 0 and max(lag) > 0
    cells = [r for r in tables["latency"] if (r["series"], r["scope"]) == ("ack", "an_outage")]
    assert sum(r["count"] for r in cells) == 11
    assert max(r["bin_us"] for r in cells) == 316_227


def test_isr_recovery_and_election_are_timed(tables: Tables, by_name: dict[str, Story]) -> None:
    fault = f"f{by_name['an_election'].number}"
    assert metric(tables, "isr_recovery", "an_election", fault)["max"] == 700 * MS
    assert metric(tables, "election_time", "an_election", fault)["max"] in range(300 * MS, 304 * MS)


def test_an_isr_that_stays_small_is_timed_to_the_end(tables: Tables, by_name: dict[str, Story]) -> None:
    s = by_name["a_shrunken_isr"]
    fault = f"f{s.number}"
    assert metric(tables, "isr_recovery", "a_shrunken_isr", fault)["max"] >= 100 * MS
    assert counts(tables, f"{fault}:a_shrunken_isr")["isr_recovery_unrecovered"] == 1
    assert metric(tables, "election_time", "a_shrunken_isr", fault) == {}


def test_a_timestamp_from_outside_of_the_run_is_no_time_of_a_finding() -> None:
    second = 1_795_000_000_000_000
    at = [second + 5_000_000, second // 1_000, None, second * 1_000, second - 30_000_000]
    rows = [findings.finding("duplicate_write", "orders", at_us=at_us) for at_us in at]
    found = [_in_time(row, (second, second + 9_000_000)) for row in rows]
    assert [row["at_us"] for row in found] == [at[0], None, None, None, at[4]]
    assert [json.loads(row["evidence"]).get("timestamp_us") for row in found] == [None, at[1], None, at[3], None]
