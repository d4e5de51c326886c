from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.anomalies import STOPPED_US
from chaos.ledger.stream import TableWriter
from chaos.run.directory import Run
from chaos.run.events import UNSEEN, EventLog, read_events
from chaos.run.result import (
    EFFECTS,
    Count,
    Counts,
    EffectCount,
    EffectStory,
    Expectation,
    FaultOutcome,
    Finding,
    Metric,
)
from chaos.run.tap import Sitting, TapRecord
from chaos.setup.apps import App
from checks.expectations.conditions import REPORTED
from checks.verdict.decision import NOTHING_APPLIES, _endings, _idle, _of_tap, collect, decide
from checks.verdict.sentence import longest_outages
from checks.wire.tables import table_path
from tests.support.fake_runs import SCENARIO, SECOND, T0, FakeRun, finding

LOSS = "37 records acked by broker 2 in leader epoch 3 were cut off"


def expectation(
    verdict: str, check: str = "lost_write", split: str = "", expected: str = "0", seen: str = "0"
) -> Expectation:
    why = {"pass": "", "fail": "it broke", "inconclusive": "nothing was seen; look again"}.get(verdict, "no commits")
    return Expectation(name=check, check=check, split=split, expected=expected, seen=seen, verdict=verdict, why=why)


def fault(name: str = "kill", *, proven: bool = True, error: str = "", **more: Any) -> FaultOutcome:
    at = T0 if proven else None
    return FaultOutcome(
        name=name, kind="broker.kill", trigger="t", target="x", injected_us=T0, proven_us=at, error=error, **more
    )


def total(check: str, count: int, split: str = "") -> Count:
    return Count(check=check, split=split, scope="orders", count=count, examined=1000)


@pytest.mark.parametrize(
    ("expectations", "proven", "problems", "verdict"),
    [
        (["pass"], [], [], "pass"),
        (["pass", "pass"], [True], [], "pass"),
        (["pass", "not applicable"], [True], [], "pass"),
        (["not applicable", "not applicable"], [True], [], "inconclusive"),
        (["fail", "not applicable"], [True], [], "fail"),
        (["pass", "fail"], [True], [], "fail"),
        (["pass", "inconclusive"], [True], [], "inconclusive"),
        (["fail", "inconclusive"], [True], [], "fail"),
        (["pass"], [True, False], [], "inconclusive"),
        (["fail"], [False], [], "fail"),
        (["pass"], [True], ["audit failed"], "inconclusive"),
        (["fail"], [True], ["audit failed"], "fail"),
        ([], [True], [], "inconclusive"),
        ([], [], [], "inconclusive"),
    ],
)
def test_fail_over_inconclusive_over_pass(expectations, proven, problems, verdict):
    decision = decide([expectation(v) for v in expectations], [fault(proven=p) for p in proven], problems=problems)
    assert decision.verdict == verdict


def test_conditions_that_hold_prove_nothing_if_nothing_about_records_applies():
    conditions = [expectation("pass", "clients_lived"), expectation("pass", "fault_proof")]
    decision = decide([expectation("not applicable"), *conditions], [fault()])
    assert (decision.verdict, decision.reasons) == ("inconclusive", [NOTHING_APPLIES])
    assert decide([expectation("pass"), expectation("not applicable", "poll_skip")], []).verdict == "pass"
    assert decide([expectation("not applicable"), expectation("pass", "effects")], []).verdict == "pass"


def unmet(check: str, why: str) -> Expectation:
    return expectation("inconclusive", check).model_copy(update={"why": why})


def test_expectations_that_only_follow_from_something_are_no_pass():
    assert (
        decide([expectation("pass"), unmet("poll_skip", "follows from the death of x/1")], []).verdict == "inconclusive"
    )


def test_the_reasons_have_an_order():
    """What caused others comes before them; a death from which nothing follows is one of the expectations."""
    ended, starved = "the drive ended early", f"nothing was delivered to billing{REPORTED}x"
    seen = [unmet("poll_skip", "saw nothing"), unmet("clients_lived", "x/1 died"), unmet("something_happened", starved)]
    seen += [unmet("something_happened", "nothing was sent"), unmet("drive_completed", ended)]
    decision = decide(seen, [fault(error="the kill failed")], problems=["audit failed"])
    injection = "the kill failed; look at logs/ and at the fault's target"
    others = ["saw nothing", "x/1 died", "nothing was sent"]
    assert decision.reasons == ["audit failed", ended, starved, injection, *others]


def test_a_fault_that_could_not_be_healed_is_inconclusive():
    decision = decide([expectation("pass")], [fault(heal_error="heal of kill failed: broker 2 is not ready")])
    assert decision.verdict == "inconclusive"
    assert decision.sentence.startswith("No verdict: fault kill took effect, but was not healed: heal of kill failed")
    assert decision.sentence.endswith("1 of 1 fault took effect. kill did not heal.")


def test_a_late_heal_is_said_and_takes_no_proof_away():
    decision = decide([expectation("pass")], [fault(heal_error="broker 2 is not ready", healed_us=T0 + SECOND)])
    assert (decision.verdict, decision.reasons) == ("pass", [])
    assert decision.sentence == "No acknowledged record was lost. 1 of 1 fault took effect. kill healed late."


def test_a_reason_of_several_lines_is_one_line_of_the_sentence():
    decision = decide([], [], problems=["deploy failed: broker 1 did not start; its log says:\n  Invalid value", "b"])
    assert decision.sentence.startswith(
        "No verdict: deploy failed: broker 1 did not start; its log says: Invalid value (and 1 more reason)."
    )


def test_the_last_words_of_a_client_come_first_and_what_follows_from_its_death_last_in_one_line():
    words = "replay/1 died: no committed offset for orders/0; see logs/replay-1.log"
    follows = "follows from the death of replay/1"
    unmet = [("fault_proof", follows), ("drive_completed", follows), ("lost_write", follows), ("clients_lived", words)]
    expectations = [expectation("inconclusive", check).model_copy(update={"why": why}) for check, why in unmet]
    unproven = fault(proven=False).model_copy(update={"left_out": follows})
    decision = decide(expectations, [unproven], problems=["readback failed: no broker answers"])
    assert decision.sentence.startswith(f"No verdict: {words} (and 1 more reason).")
    assert decision.reasons == [
        words,
        "readback failed: no broker answers",
        "this follows from the death of replay/1: not met: fault_proof; not decided: 1 expectation",
    ]


def test_why_all_sends_failed_comes_first_and_what_follows_last_in_one_line():
    words, follows = "no record was acknowledged; shop/1 reported: x", "follows from the failure of all sends"
    unmet = [("lost_write", follows), ("fault_proof", follows), ("something_happened", words)]
    expectations = [expectation("inconclusive", check).model_copy(update={"why": why}) for check, why in unmet]
    decision = decide(expectations, [], problems=["readback failed: no broker answers"])
    assert decision.sentence.startswith(f"No verdict: {words} (and 1 more reason).")
    assert decision.reasons[0] == words
    assert decision.reasons[-1] == f"this {follows}: not met: fault_proof; not decided: 1 expectation"


@pytest.mark.parametrize("sent", [0, 1, 5])
def test_a_drive_that_broke_off_before_the_first_send_is_why_nothing_was_sent(sent):
    ended = "the drive ended early (clients: billing/1 ended with exit code 1)"
    words, follows = "no record was acknowledged; see the producers' files", "follows from the failure of all sends"
    unmet = [("lost_write", follows), ("something_happened", words), ("drive_completed", ended)]
    expectations = [expectation("inconclusive", check).model_copy(update={"why": why}) for check, why in unmet]
    counts = Counts(
        sent=sent, acked=0, failed=sent, unknown=0, in_log=0, rows_read=0, rows_audited=0, rows_unreadable=0
    )
    decision = decide(expectations, [], counts=counts)
    assert decision.sentence.startswith(f"No verdict: {words if sent else ended} (and 1 more reason).")


def test_the_sentence_of_a_pass():
    decision = decide(
        [expectation("pass"), expectation("pass", "duplicate_delivery", "illegal")],
        [fault("a"), fault("b"), fault("c")],
        [total("lost_write", 0), total("duplicate_delivery", 412, "legal")],
        [Finding(check="duplicate_delivery", split="legal", scope="billing", mechanism="billing/1 was evicted.")],
    )
    assert decision.sentence == (
        "No acknowledged record was lost. 3 of 3 faults took effect. "
        "412 records were delivered again, from the committed offset (billing/1 was evicted)."
    )


@pytest.mark.parametrize(
    ("failed", "unknown", "said"),
    [
        (0, 0, ""),
        (40, 0, " Of the records sent, 40 failed for good."),
        (0, 1, " Of the records sent, 1 has an unknown outcome."),
        (
            2,
            3,
            " Of the records sent, 2 failed for good and 3 have an unknown outcome.",
        ),
    ],
)
def test_the_sentence_names_records_that_were_not_acknowledged(failed, unknown, said):
    counts = Counts(sent=100, acked=100 - failed - unknown, failed=failed, unknown=unknown)
    assert (
        decide([expectation("pass")], [], [total("lost_write", 0)], counts=counts).sentence
        == f"No acknowledged record was lost.{said}"
    )


def test_the_sentence_names_what_timestamps_did():
    refused = Counts(sent=100, acked=60, failed=40, refused_timestamps=40)
    assert decide([expectation("pass")], [], counts=refused).sentence.endswith(
        "Of the records sent, 40 failed for good. "
        "The brokers refused 40 records: timestamp out of bounds (INVALID_TIMESTAMP)."
    )
    deleted = Counts(
        sent=100, acked=100, evicted=90, evicted_by="retention goes by timestamps: those of shop are 2 d behind"
    )
    assert decide([expectation("pass")], [], counts=deleted).sentence.endswith(
        "Retention deleted 90 acknowledged records early (retention goes by timestamps: those of shop are 2 d behind)."
    )


def test_the_sentence_of_a_calibration_case():
    decision = decide([expectation("pass", expected="at least 1")], [fault()], [total("lost_write", 37)])
    assert decision.sentence == (
        "1 of 1 fault took effect. 37 acknowledged records were lost, as the scenario demands."
    )


def test_the_sentence_of_a_failure_begins_with_it():
    decision = decide(
        [expectation("fail"), expectation("fail", "produce_unavailability", "max", "max ≤ 15 s", "21 s")],
        [fault(), fault("b", proven=False)],
        [total("lost_write", 37)],
        [Finding(check="lost_write", scope="orders", mechanism=LOSS)],
    )
    assert decision.sentence == (
        f"37 acknowledged records were lost ({LOSS}). produce_unavailability: 21 s, expected max ≤ 15 s. "
        "1 of 2 faults took effect."
    )


@pytest.mark.parametrize(
    ("whys", "origin"),
    [
        (["its checkpoint"], "its checkpoint"),
        (["its checkpoint, or what was processed after the last one with a row"], "its checkpoint"),
        (["the committed offset, set by fault reset"], "the committed offset"),
        (["its checkpoint", "the committed offset"], "the committed offset or its checkpoint"),
        ([], "the committed offset"),
    ],
)
def test_a_redelivery_is_said_to_be_from_where_the_readers_began(whys, origin):
    again = [Finding(check="duplicate_delivery", split="legal", scope="r", evidence={"start_why": why}) for why in whys]
    met = expectation("pass", "duplicate_delivery", "legal", "at least 0", "5")
    decision = decide([met], [], [total("duplicate_delivery", 5, "legal")], again)
    assert decision.sentence.startswith(f"5 records were delivered again, from {origin}")


def outage(value_us: int, fault: str = "kill", metric: str = "produce_unavailability", scope: str = "orders"):
    rows = {"max": value_us, "count": 6}
    return [Metric(metric=metric, scope=scope, fault=fault, stat=stat, value_us=v) for stat, v in rows.items()]


STOPPED = {("produce_unavailability_stopped", "kill:orders"): 2, ("consume_unavailability_stopped", "kill:billing"): 3}
LONG = "Writes to 2 of 6 partitions of orders stood still for 8.2 s after the kill of broker 2."


@pytest.mark.parametrize(
    ("metrics", "proven", "said"),
    [
        (outage(8_200_000), True, [LONG]),
        (outage(8_200_000), False, []),  # a fault that took no effect caused nothing
        (outage(999_999), True, []),
        (outage(0), True, []),
        ([], True, []),
        (outage(8_200_000) + outage(3_000_000, scope="bills"), True, [LONG]),
        (
            outage(8_200_000) + outage(9_000_000, metric="consume_unavailability", scope="billing"),
            True,
            [
                "Writes to 2 of 6 partitions of orders stood still for 8.2 s and reads of billing from 3 of 6 "
                "partitions for 9 s after the kill of broker 2."
            ],
        ),
        (
            outage(2_000_000, "kill: 3"),
            True,
            ["Writes to the partitions of orders stood still for 2 s after the kill of broker 2, at broker 3."],
        ),
    ],
)
def test_the_longest_time_without_writes_or_reads_is_named_with_its_fault(metrics, proven, said):
    killed = fault(proven=proven).model_copy(update={"resolved": "broker 2"})
    assert longest_outages([killed], metrics, STOPPED) == said
    if said:
        text = decide([expectation("pass")], [killed], [total("lost_write", 0)], remarks=said).sentence
        assert text == f"No acknowledged record was lost. 1 of 1 fault took effect. {said[0]}"


def test_an_outage_that_did_not_end_says_so():
    open_ended = STOPPED | {("produce_unavailability_unrecovered", "kill:orders"): 1}
    (text,) = longest_outages([fault()], outage(8_200_000), open_ended)
    assert "stood still for 8.2 s, until the drive ended, after the kill of x." in text


ZERO = {
    ("lost_write", ""): "held here, but acks=1 does not promise it: why; acks=all would",
    ("duplicate_write", ""): "b",
}


@pytest.mark.parametrize(
    ("verdict", "totals", "said"),
    [
        ("pass", [total("lost_write", 0)], f"No acknowledged record was lost. That {ZERO['lost_write', '']}."),
        (
            "pass",
            [total("lost_write", 0), total("duplicate_write", 0)],
            "Not promised either: no record is written twice.",
        ),
        ("pass", [], ""),  # nothing was examined
        ("fail", [total("lost_write", 0)], ""),
        ("inconclusive", [total("lost_write", 0)], ""),
    ],
)
def test_a_zero_that_nothing_promises_is_said_to_be_due_to_this_run(verdict, totals, said):
    found = [expectation("pass"), expectation("pass", "duplicate_write"), expectation(verdict, "poll_skip")]
    text = decide(found, [], totals, unpromised=ZERO).sentence
    assert (said in text) if said else "promise" not in text


def test_a_loss_that_the_contract_allows_and_that_did_not_happen_is_named_too():
    text = decide([expectation("pass", "poll_skip")], [], [total("lost_write", 0)], unpromised=ZERO).sentence
    assert text == f"No acknowledged record is lost: that {ZERO['lost_write', '']}."


def test_a_zero_of_nothing_is_not_said_to_be_due_to_this_run():
    unseen = [total("lost_write", 0).model_copy(update={"examined": 0})]
    assert "promise" not in decide([expectation("pass")], [], unseen, unpromised=ZERO).sentence


def test_the_longest_times_after_two_faults_are_two_sentences():
    faults = [fault(name).model_copy(update={"resolved": name}) for name in ("a", "b")]
    reads = outage(STOPPED_US, "b", "consume_unavailability", "billing")
    assert longest_outages(faults, outage(2_000_000, "a") + reads, {}) == [
        "Writes to the partitions of orders stood still for 2 s after the kill of a.",
        "Reads of billing from the partitions stood still for 1 s after the kill of b.",
    ]


@pytest.mark.parametrize(("number", "more"), [(3, ""), (4, " 1 more expectations are not met.")])
def test_three_failed_expectations_are_named(number, more):
    late = [expectation("fail", EFFECTS, f"late p{n}", "p50 ≤ 1 s", "2 s") for n in range(number)]
    assert decide(late, []).sentence == " ".join(["effects: 2 s, expected p50 ≤ 1 s; it broke."] * 3) + more


STORY = EffectStory(kind="duplicate", cause="its owner was killed", number=2, sentence="s")


@pytest.mark.parametrize(
    ("unmet", "found", "said"),
    [
        ([], {}, " Each of 3 inputs has its effect invoices, once and right."),
        (["wrong"], {}, ""),
        ([], {"undecided": {"missing": 1}}, ""),
        ([], {"error": "no such table"}, ""),
        (
            [],
            {"counts": {"duplicate": 2}, "stories": [STORY], "findings": {"duplicate": ["a", "b"]}},
            " 2 effects in invoices are more than the inputs must have (its owner was killed), as the scenario allows.",
        ),
        (
            [],
            {"counts": {"duplicate": 3}, "stories": [STORY], "findings": {"duplicate": ["a", "b", "c"]}},
            " 3 effects in invoices are more than the inputs must have, as the scenario allows.",
        ),
    ],
)
def test_the_sentence_says_of_an_effect_what_the_scenario_allows_or_that_all_is_right(unmet, found, said):
    bounds = [("missing", "0"), ("duplicate", "at most 9"), ("wrong", "0")]
    own = [expectation("inconclusive" if k in unmet else "pass", EFFECTS, k, bound) for k, bound in bounds]
    own = [e.model_copy(update={"scope": "invoices"}) for e in own]
    other = expectation("inconclusive", EFFECTS, "missing").model_copy(update={"scope": "mails"})
    effect = EffectCount(name="invoices", source="topic invoices", inputs=3, **found)
    decision = decide([*own, other], [], effects=[effect])
    assert decision.sentence.removeprefix("No verdict: nothing was seen; look again.") == said


def test_a_mechanism_is_of_its_own_split_and_nothing_if_it_is_not_determined():
    both = [
        Finding(check="duplicate_delivery", split="legal", scope="r", mechanism="a"),
        Finding(check="duplicate_delivery", split="illegal", scope="r", mechanism="b"),
        Finding(check="poll_skip", scope="r"),
    ]
    seen = [total("poll_skip", 1), total("duplicate_delivery", 5, "legal")]
    text = decide([expectation("pass")], [], seen, both).sentence
    assert "5 records were delivered again, from the committed offset (a)." in text and "determined" not in text


def test_what_retention_deleted_in_time_is_not_said_to_be_early():
    assert "Retention" not in decide([expectation("pass")], [], counts=Counts(sent=9, acked=9, evicted=5)).sentence


def test_two_mechanisms_are_not_reported_as_one():
    both = [Finding(check="lost_write", scope="orders", mechanism=m) for m in ("this", "that")]
    assert (
        decide([expectation("fail")], [], [total("lost_write", 2)], both).sentence
        == "2 acknowledged records were lost."
    )


def test_a_missing_demanded_anomaly_is_reported():
    decision = decide([expectation("fail", expected="at least 1")], [fault()], [total("lost_write", 0)])
    assert decision.sentence.startswith("No acknowledged record was lost; expected at least 1.")


def test_the_sentence_of_an_inconclusive_run_names_the_reason_and_the_remedy():
    decision = decide(
        [expectation("pass"), expectation("inconclusive", "poll_skip")], [fault(proven=False)], [total("lost_write", 0)]
    )
    assert decision.sentence.startswith(
        "No verdict: fault kill was injected, but no effect was seen from outside; raise limits.proof"
    )
    assert "(and 1 more reason)" in decision.sentence
    assert decision.sentence.endswith("No acknowledged record was lost. 0 of 1 fault took effect.")


def test_a_drive_that_broke_off_is_the_first_reason():
    both = [expectation("inconclusive", "poll_skip"), expectation("inconclusive", "drive_completed")]
    both[1] = both[1].model_copy(update={"why": "the drive ended early (load: shop/2 died)"})
    decision = decide(both, [fault(error="injection of kill failed")])
    assert decision.sentence.startswith("No verdict: the drive ended early (load: shop/2 died) (and 2 more reasons)")
    assert decision.reasons[1].startswith("injection of kill failed")


def test_an_undecided_loss_is_not_denied():
    decision = decide([expectation("inconclusive")], [], [total("lost_write", 0)])
    assert "No acknowledged record" not in decision.sentence


def test_collect_reads_all_tables_of_the_run(fake):
    run: FakeRun = fake()
    run.anomalies = [finding("lost_write", LOSS, topic="orders", partition=0, offset=7, evidence='{"epoch": 3}')]
    run.write()
    result = collect(run.run, run.resolved, [expectation("pass")])
    assert result.counts.sent == result.counts.acked == result.counts.in_log == 1000
    assert [(r.reader, r.mode, r.delivered) for r in result.counts.readers] == [
        ("billing", "subscribe", 1000),
        ("replay/1", "assign", 1000),
    ]
    assert (result.findings[0].offset, result.findings[0].evidence) == (7, {"epoch": 3})
    assert result.stages_s == {"deploy": 1.5, "load": 1.5, "seal": 1.5}
    (kill,) = result.faults
    assert (kill.resolved, kill.proof) == ("broker 2", "orders/0 moved from broker 2 to 3")
    assert (kill.injected_us, kill.proven_us, kill.healed_us) == (T0 + SECOND, T0 + 2 * SECOND, T0 + 3 * SECOND)
    assert (kill.produce_unavailability_us, kill.consume_unavailability_us) == (9_800_000, 11_000_000)
    assert result.verdict == "pass" and result.problems == []


def test_an_application_that_the_relay_does_not_see_makes_the_run_inconclusive(fake):
    run: FakeRun = fake()
    run.write()
    EventLog(run.run).emit(UNSEEN, words="billing/1 never connected to its address")
    result = collect(run.run, run.resolved, [expectation("pass")])
    assert result.verdict == "inconclusive"
    assert result.sentence.startswith("No verdict: billing/1 never connected to its address")


def test_a_problem_of_the_drive_makes_a_pass_inconclusive(fake):
    run: FakeRun = fake()
    run.write()
    events = EventLog(run.run)
    events.note("the brokers could not be ended")
    assert collect(run.run, run.resolved, [expectation("pass")]).verdict == "pass"
    why = "after 180 s (limits.drive) still waiting for: heal kill at 5,000 acknowledged records"
    events.problem(why)
    result = collect(run.run, run.resolved, [expectation("pass")])
    assert (result.verdict, result.problems) == ("inconclusive", [why])
    assert result.sentence.startswith(f"No verdict: {why}")
    assert collect(run.run, run.resolved, [expectation("fail")]).verdict == "fail"


def test_a_problem_of_the_drive_is_not_said_beside_what_it_caused(fake):
    run: FakeRun = fake()
    run.write()
    EventLog(run.run).problem("shop/1 ended by itself (exit code 1)")
    result = collect(run.run, run.resolved, [expectation("pass"), expectation("inconclusive", "clients_lived")])
    assert (result.verdict, result.problems) == ("inconclusive", ["nothing was seen; look again"])


def test_collect_of_an_empty_run_is_inconclusive_with_a_reason(fake):
    run: FakeRun = fake()
    result = collect(run.run, run.resolved, [])
    assert result.verdict == "inconclusive"
    assert "never sealed" in result.sentence


def test_a_run_without_a_seal_is_inconclusive(fake):
    run: FakeRun = fake()
    run.sealed = False
    run.write()
    assert collect(run.run, run.resolved, [expectation("pass")]).verdict == "inconclusive"


BEGUN, INJECTED, PROVEN = (
    "its injection had begun",
    "injected on broker 2, not yet proven, not healed",
    "proven and not",
)


@pytest.mark.parametrize(("phases", "state"), [(1, BEGUN), (2, INJECTED), (3, PROVEN), (4, "")])
def test_a_drive_that_was_killed_during_a_fault_is_the_first_reason(fake, phases, state):
    run: FakeRun = fake()
    with TableWriter(run.run.ledger, "faults", "drive") as writer:
        writer.append_rows(run.ledger["faults"][:phases])
    for stage, change in [("drive", "begin"), ("clients", "begin"), ("clients", "end"), ("load", "begin")]:
        EventLog(run.run).emit("stage", stage=stage, state=change)
    result = collect(run.run, run.resolved, [])
    assert result.verdict == "inconclusive"
    first = "No verdict: the drive ended early, its process was killed while producing, consuming, breaking"
    assert result.sentence.startswith(first)
    assert ("fault kill was in progress" in result.problems[0]) is bool(state) and state in result.problems[0]
    assert not any("never injected" in problem or "did not come" in problem for problem in result.problems)
    assert (result.faults[0].shortcoming == "") is (phases == 4)


def test_a_drive_that_was_killed_before_a_fault_is_why_it_was_not_injected(fake):
    run: FakeRun = fake()
    EventLog(run.run).emit("stage", stage="load", state="begin")
    (fault,) = collect(run.run, run.resolved, []).faults
    assert fault.shortcoming.startswith("fault kill was not injected: the drive ended before its trigger (")


def test_what_an_expectation_says_of_the_drive_is_said_once(fake):
    """Without expectations, the stages of the drive say it."""
    run: FakeRun = fake()
    run.stages = [("deploy", "end"), ("load", "failed"), ("stop", "begin")]
    run.write()
    ended = expectation("inconclusive", "drive_completed").model_copy(update={"why": "the drive ended early"})
    assert collect(run.run, run.resolved, [expectation("pass"), ended]).problems == ["the drive ended early"]
    (killed,) = collect(run.run, run.resolved, []).problems
    assert killed.startswith("the drive ended early, its process was killed while ")


def test_a_time_that_was_not_measured_is_left_out(fake):
    run: FakeRun = fake()
    run.metrics.append({"metric": "ack_latency", "scope": "orders", "fault": None, "stat": "p99", "value_us": None})
    run.write()
    found = collect(run.run, run.resolved, [expectation("pass")])
    assert {m.metric for m in found.metrics} == {"produce_unavailability", "consume_unavailability"}


TWO_FAULTS = SCENARIO.replace(
    "expect:", "  - {name: again, kind: broker.kill, target: {leader_of: orders/1}, when: {acked: 200}}\nexpect:"
)


@pytest.mark.parametrize(
    ("why", "left_out"),
    [("follows from the death of shop/1", "follows from the death of shop/1"), ("no effect was seen", "")],
)
def test_a_fault_is_left_out_by_its_own_proof_if_that_follows_from_something(fake, why, left_out):
    run: FakeRun = fake(TWO_FAULTS)
    run.write()
    alike = unmet("superseded", f"{why}, a topic").model_copy(update={"scope": "again"})
    own = unmet("fault_proof", why).model_copy(update={"scope": "again"})
    other = expectation("pass", "fault_proof").model_copy(update={"scope": "kill"})
    faults = collect(run.run, run.resolved, [alike, other, own]).faults
    assert [(f.name, f.left_out) for f in faults] == [("kill", ""), ("again", left_out)]


@pytest.mark.parametrize(("rows", "said"), [([], True), ([0], True), ([3], False)])
def test_outages_are_not_said_if_a_clock_ran_backwards(fake, rows, said):
    run: FakeRun = fake()
    run.counts += [{"name": "clock_backwards", "scope": "sends", "value": n} for n in rows]
    run.write()
    assert ("stood still for 9.8 s" in collect(run.run, run.resolved, [expectation("pass")]).sentence) == said


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([(1, "crashed", {"how": "exit code 3", "hint": "free its port"})],
         "billing/1 ended without being asked, with exit code 3: free its port."),
        ([(2, "stopped", {"how": "exit code 0"}), (1, "crashed", {"how": "exit code 0"})],
         "billing/1, billing/2 ended 2 times without being asked, with exit code 0."),
        ([(1, "crashed", {"how": "SIGSEGV"})] * 2, "billing/1 ended 2 times without being asked, with SIGSEGV."),
        ([(1, "stopped", {"asked": "stop"}), (2, "crashed", {"asked": "kill"}), (1, "ready", {})], ""),
    ],
)  # fmt: skip
def test_an_instance_that_ended_under_load_without_being_asked_is_said(fake, ends, said):
    run: FakeRun = fake()
    of_app = {"app": "billing", "incarnation": 1, "at_us": T0}
    run.ledger["apps"] = [of_app | {"instance": n, "event": e, "detail": json.dumps(detail)} for n, e, detail in ends]
    run.write()
    events = read_events(run.run)
    assert " ".join(_endings(run.run, events)) == said
    assert not [*_endings(run.run, [e for e in events if e.get("stage") != "load"])], "the drive never loaded"


@pytest.mark.parametrize(
    ("judged", "said"), [("wire", " which does not decide 1 of these expectations."), ("clients", "")]
)
def test_the_sentence_says_what_the_wire_alone_does_not_decide(fake, judged, said):
    run: FakeRun = fake(f"{SCENARIO}capture: {{judged: {judged}}}\n")
    run.write()
    found = [expectation("pass"), expectation("not applicable", "poll_skip"), expectation("pass", "fault_proof")]
    text = collect(run.run, run.resolved, found).sentence
    assert text.partition("Judged by what passed on the wire alone,")[2] == said


def test_the_remarks_of_a_tap_say_when_it_stopped_and_what_is_not_judged(tmp_path):
    run = Run.create(tmp_path, "tap-1")
    assert [*_of_tap(run)] == []
    sittings = [Sitting(began_us=T0), Sitting(began_us=T0, ended_us=T0 + 5 * SECOND)]
    tap = TapRecord(listen="a:1", advertise="a", ports={}, sittings=sittings, unjudged={"group g": "it is old"})
    tap.save(run)
    assert [*_of_tap(run)] == ["Not judged is group g: it is old."]
    tap.stopped = "the disk is full"
    tap.save(run)
    assert next(_of_tap(run)) == "The recording ended at 22:13:25 UTC: the disk is full."
    tap.sittings = sittings[:1]
    tap.save(run)
    assert len([*_of_tap(run)]) == 1, "nobody knows when"


@pytest.mark.parametrize("stage", ["readback", "audit", "validate"])
def test_a_stage_that_was_killed_is_inconclusive_even_with_old_expectations(fake, stage):
    run: FakeRun = fake()
    run.stages.append((stage, "begin"))
    run.write()
    result = collect(run.run, run.resolved, [expectation("pass")])
    assert result.verdict == "inconclusive"
    assert f"{stage} failed: it began and never ended" in result.sentence


def test_an_application_that_got_no_record_makes_the_run_inconclusive(tmp_path):
    def received(name: str, *instances: str) -> None:
        folder = table_path(run, name)
        folder.mkdir(parents=True, exist_ok=True)
        last = [5 if instance.startswith("billing") else None for instance in instances]
        rows = pa.table({"instance": pa.array(instances, pa.string()), "last_offset": pa.array(last, pa.int64())})
        pq.write_table(rows, folder / f"part-{len(list(folder.iterdir()))}.parquet")

    run = Run.create(tmp_path, "r1")
    apps = [App(name=name, command=["x"], reads=reads) for name, reads in (("billing", ["orders"]), ("web", []))]
    resolved: Any = SimpleNamespace(scenario=SimpleNamespace(apps=apps))
    assert list(_idle(run, resolved)) == [], "nothing was captured"
    received("fetched", "shop/1")
    received("acquired")
    (problem,) = _idle(run, resolved)
    assert problem.startswith("no instance of billing got a record of orders from a broker, so the run proves nothing")
    segment = run.path / "wire" / "proxy.wire"
    segment.touch()
    seal = segment.with_name("seal.json")
    seal.write_text('{"failure": "the disk is full"}')
    assert list(_idle(run, resolved)) == [], "what was not captured may be records"
    seal.write_text('{"failure": ""}')
    assert list(_idle(run, resolved)) == [problem]
    received("acquired", "billing/2")
    assert list(_idle(run, resolved)) == []
