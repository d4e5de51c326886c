"""What a proof makes of its runs: what each shows, the verdict, what it claims, and the runs that follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.campaign.prove import application
from chaos.campaign.prove.judge import NOTHING_READ, NOTHING_WRITTEN, ProofJudge, _anomalies, _state
from chaos.campaign.prove.plan import CONFIRMED, FollowUp, task
from chaos.guarantees.application import Options
from chaos.guarantees.contract import contract
from chaos.guarantees.supports import outcomes
from chaos.run.campaign import FoundAnomaly, ProofRun
from chaos.run.result import Result
from tests.chaos.campaign.prove.apps import APPS, planned, read, sets, write

EXAMINED = dict.fromkeys(["lost_write", "duplicate_write", "skipped_delivery", "double_ownership"], 100)

EXAMINED |= dict.fromkeys(["lost_commit", "lost_processing", "phantom_write", "duplicate_delivery"], 100)

WITH_IDEMPOTENCE = "producer enable.idempotence=true, producer acks=all"

PROMISED = [*EXAMINED, "duplicate_delivery.legal", "duplicate_delivery.illegal"]


def judge_of(folder: Path, name: str = "reliable", most: int = 1) -> ProofJudge:
    options = Options(app=write(folder, APPS[name]))
    app = application.read(options)
    found, plan = outcomes(app.facts), planned(app, most)
    follow_up = FollowUp(
        app, found, {s.id: s for s in plan.sets}, 7, lambda changed: application.read(options, changed)
    )
    return ProofJudge(app, found, plan, follow_up, 7, "python -m chaos prove app.yaml")


def run(faults: str, state: str = "held", *anomalies: FoundAnomaly, **values: Any) -> ProofRun:
    verdict = {"held": "pass", "broken": "fail", "undecided": "inconclusive", "unknown": "inconclusive"}[state]
    given = {"purpose": "first", "n": 1, "examined": EXAMINED, "promised": PROMISED, **values}
    return ProofRun.model_validate(
        {
            "set": faults,
            "seed": 1,
            "verdict": verdict,
            "state": state,
            "sentence": "what happened",
            "anomalies": [a.model_dump() for a in anomalies],
            "run_id": f"{faults}-{given['purpose']}-{given['n']}",
            **given,
        }
    )


def anomaly(name: str = "lost_write", state: str = "forbidden") -> FoundAnomaly:
    return FoundAnomaly.model_validate(
        {"name": name, "count": 3, "state": state, "reason": "why", "text": "3 records were lost"}
    )


def all_held(judge: ProofJudge) -> list[ProofRun]:
    return [run(s.id) for s in judge.plan.sets]


def test_all_sets_that_held_make_a_pass_and_the_claim_counts_them(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    found = judge.result(all_held(judge), 600)
    assert found.verdict == "pass"
    assert {promise.state for promise in found.promises} == {"held"}
    kinds, sets = len(found.kinds), len(judge.plan.sets)
    assert found.sentence == f"No set of at most one fault of these {kinds} kinds breaks a promise: {sets} sets tried."


def test_a_proof_that_is_not_complete_claims_only_what_was_tried(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    found = judge.result([run("none"), run("leader-crash")], 60)
    assert found.verdict == "pass"
    assert found.sentence.startswith("No set that was tried breaks a promise. Tried: 1 of ")
    states = {promise.id: promise.state for promise in found.promises}
    assert (states["once"], states["commit"]) == ("held", "untested")
    assert any("A committed offset stays" in gap.title for gap in found.not_tested)


def test_no_run_with_a_fault_proves_nothing(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    assert judge.result([], 0).verdict == "inconclusive"
    assert judge.result([run("none")], 30).verdict == "inconclusive"


def test_a_run_that_examined_no_row_of_a_promise_does_not_count_for_it(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    runs = [run(s.id, examined={"lost_write": 100, "duplicate_write": 100}) for s in judge.plan.sets]
    found = judge.result(runs, 60)
    states = {promise.id: promise.state for promise in found.promises}
    assert (states["record"], states["commit"]) == ("held", "unknown")
    assert found.verdict == "inconclusive"


def test_a_promise_that_the_contract_does_not_make_under_any_tried_faults_has_not_held(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    runs = [run(s.id, promised=[name for name in PROMISED if name != "lost_commit"]) for s in judge.plan.sets]
    found = judge.result(runs, 60).promise("commit")
    assert found is not None
    assert (found.state, found.sets, found.unpromised > 0) == ("unpromised", [], True)
    one = [run("coordinator-wipe") if r.set == "coordinator-wipe" else r for r in runs]
    found = judge.result(one, 60).promise("commit")
    assert found is not None
    assert (found.state, [t.set for t in found.sets]) == ("held", ["coordinator-wipe"])


def test_a_single_fault_without_a_verdict_leaves_the_proof_inconclusive(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    runs = [run(s.id, "unknown" if s.id == "leader-wipe" else "held") for s in judge.plan.sets]
    found = judge.result(runs, 60)
    assert found.verdict == "inconclusive"
    assert [t.set for t in found.unknown] == ["leader-wipe"]
    again = run("leader-wipe", purpose="again", n=2)
    assert judge.result([*runs, again], 60).verdict == "pass"


def test_a_run_that_proves_nothing_is_no_evidence_for_what_it_shows(tmp_path: Path) -> None:
    """One fault has one judgement: records that were lost while its proof is missing are no effect of it."""
    judge = judge_of(tmp_path, "acks-1")
    shown = anomaly(state="allowed")
    found = judge.result([*all_held(judge)[:1], run("leader-crash", "unknown", shown)], 10)
    assert (found.seen, [tried.set for tried in found.unknown]) == ([], ["leader-crash"])
    counted = judge.result([*all_held(judge)[:1], run("leader-crash", "held", shown)], 10)
    assert [b.set for b in counted.seen] == ["leader-crash"] and counted.unknown == []
    assert following(judge, run("leader-crash", "unknown", shown)) == {("leader-crash", "again", 2)}


def test_a_pair_without_a_verdict_does_not(tmp_path: Path) -> None:
    judge = judge_of(tmp_path, most=2)
    runs = [run(s.id, "unknown" if len(s.faults) == 2 else "held") for s in judge.plan.sets]
    found = judge.result(runs, 60)
    assert found.verdict == "pass"
    assert f"{len(found.unknown)} without a verdict" in found.sentence


def test_one_break_fails_the_proof_and_names_the_smallest_set(tmp_path: Path) -> None:
    judge = judge_of(tmp_path, most=2)
    pair = "followers-crash+leader-power"
    runs = [*all_held(judge), run(pair, "broken", anomaly(), purpose="again", n=2)]
    found = judge.result(runs, 60)
    assert found.verdict == "fail"
    (broken,) = found.broken
    assert (broken.set, broken.shown, broken.of) == (pair, 1, 2)
    smaller = run("leader-power", "broken", anomaly(), purpose="smaller", n=1)
    assert judge.result([*runs, smaller], 60).broken[0].set == "leader-power"


def test_an_anomaly_that_the_contract_allows_is_seen_and_breaks_nothing(tmp_path: Path) -> None:
    judge = judge_of(tmp_path, "acks-1")
    runs = all_held(judge)
    runs[1] = run(runs[1].set, "held", anomaly(state="allowed"))
    found = judge.result(runs, 60)
    assert (found.verdict, found.broken) == ("pass", [])
    record = found.promise("record")
    assert record is not None and record.state == "unpromised"
    assert "Not promised, and seen: 3 records were lost under" in found.sentence
    assert [(b.promised, b.anomalies[0].name) for b in found.seen] == [(False, "lost_write")]
    assert "acks=all" in found.seen[0].remedy


def test_a_set_that_cuts_every_support_and_breaks_nothing_names_a_missing_support(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    found = judge.result(all_held(judge), 60).promise("record")
    assert found is not None
    assert found.cut == ["a power loss of all in-sync replicas"]
    lost = [run(s.id, "held", anomaly(state="allowed")) if s.id == "all-power" else run(s.id) for s in judge.plan.sets]
    found = judge.result(lost, 60).promise("record")
    assert found is not None
    assert found.cut == []


def test_what_is_never_tested_is_listed_with_the_reason(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    gaps = {gap.why for gap in judge.result(all_held(judge), 60).not_tested}
    assert any("retention" in why for why in gaps)
    assert any("not times" in why for why in gaps)


def following(judge: ProofJudge, *runs: ProofRun) -> set[tuple[str, str, int]]:
    return {(t.faults.id, t.purpose, t.n) for t in judge.follow_up.tasks(runs)}


def test_a_set_without_a_verdict_runs_once_more(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    first = run("leader-crash", "unknown")
    assert following(judge, first) == {("leader-crash", "again", 2)}
    assert following(judge, first, run("leader-crash", "unknown", purpose="again", n=2)) == set()


def test_a_break_is_confirmed_and_its_subsets_run_as_often(tmp_path: Path) -> None:
    judge = judge_of(tmp_path, most=2)
    found = following(judge, run("leader-power"), run("followers-crash+leader-power", "broken", anomaly()))
    confirmed = {("followers-crash+leader-power", "again", n) for n in range(2, CONFIRMED + 1)}
    smaller = {("leader-power", "smaller", n) for n in (1, 2)} | {("followers-crash", "smaller", n) for n in (1, 2, 3)}
    assert {key for key in found if key[1] != "mended"} == confirmed | smaller
    broken = run("followers-crash+leader-power", "broken", anomaly())
    later = following(judge, run("leader-power"), broken, run("leader-power", purpose="smaller", n=1))
    assert ("leader-power", "smaller", 2) in later


def test_a_single_fault_is_compared_with_none(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    found = following(judge, run("none"), run("leader-crash", "broken", anomaly()))
    assert {name for name, _, _ in found} == {"leader-crash", "none"}
    assert ("none", "smaller", 2) in found


def test_the_setting_that_lifts_a_limit_runs_under_the_same_faults(tmp_path: Path) -> None:
    judge = judge_of(tmp_path, "acks-1")
    (mend,) = judge.follow_up.tasks([run("leader-isolated", "held", anomaly(state="allowed"))])
    assert (mend.purpose, mend.change) == ("mended", "producer acks=all")
    assert str(mend.subject.scenario.producers[0].config["acks"]) == "all"
    done = run("leader-isolated", "held", purpose="mended", change=mend.change)
    assert following(judge, run("leader-isolated", "held", anomaly(state="allowed")), done) == set()


def test_several_anomalies_of_one_run_have_one_mended_run(tmp_path: Path) -> None:
    judge = judge_of(tmp_path, "acks-1")
    both = anomaly(state="allowed"), anomaly("offset_reuse", state="allowed")
    assert [t.run_id for t in judge.follow_up.tasks([run("leader-isolated", "held", *both)])] == [
        "leader-isolated-mended-1"
    ]


def test_promises_with_different_lifts_have_one_mended_run_each(tmp_path: Path) -> None:
    judge = judge_of(tmp_path, "acks-1")
    seen = run("leader-crash", "held", anomaly(state="allowed"), anomaly("duplicate_write", state="allowed"))
    (first,) = judge.follow_up.tasks([seen])
    assert (first.run_id, first.change) == ("leader-crash-mended-1", "producer acks=all")
    done = run("leader-crash", "held", purpose="mended", change=first.change)
    (second,) = judge.follow_up.tasks([seen, done])
    assert (second.run_id, second.change) == ("leader-crash-mended-2", WITH_IDEMPOTENCE)


def test_a_setting_with_which_a_fault_makes_no_sense_is_not_tried(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)  # flush.messages=1 lifts the limit, and a power loss cannot be simulated with it
    assert judge.follow_up.tasks([run("all-power", "held", anomaly(state="allowed"))]) == []


@pytest.mark.parametrize(("held", "text"), [("held", True), ("unknown", None), ("broken", False)])
def test_a_mend_is_proven_only_by_a_run_that_counts(tmp_path: Path, held: str, text: bool | None) -> None:
    judge = judge_of(tmp_path, "acks-1")
    seen = run("leader-isolated", "held", anomaly(state="allowed"))
    after = run(
        "leader-isolated",
        held,
        *([anomaly()] if held == "broken" else []),
        purpose="mended",
        change="producer acks=all",
    )
    (found,) = judge.result([seen, after], 60).seen
    assert found.mend is not None
    assert found.mend.held is text


def test_a_promise_of_which_the_settings_give_a_part_is_held_in_part(tmp_path: Path) -> None:
    judge = judge_of(tmp_path, "automatic")  # auto.offset.reset=latest
    found = judge.result(all_held(judge), 60)
    states = {promise.id: (promise.state, promise.why) for promise in found.promises}
    assert found.verdict == "pass"
    assert states["position"][0] == "partly"
    assert "the settings promise nothing" in states["position"][1]
    for promise in found.promises:
        nothing = bool(promise.said) and all(said.level == "none" for said in promise.said)
        assert (promise.state == "partly") == nothing, promise.id
    lost = run(judge.plan.sets[1].id, "broken", anomaly("skipped_delivery"))
    broken = judge.result([*all_held(judge), lost], 60).promise("position")
    assert broken is not None and broken.state == "broken"


READ = {"acked": 900, "readers": [{"reader": "billing", "mode": "subscribe", "delivered": 900, "distinct": 900}]}

UNPROVEN = {
    "name": "crash",
    "check": "fault_proof",
    "expected": "1",
    "seen": "0",
    "verdict": "inconclusive",
    "why": "no proof",
}


def result(verdict: str = "pass", counts: dict[str, Any] = READ, **values: Any) -> Result:
    identity = dict.fromkeys(["run_id", "run_dir", "scenario", "title", "sentence", "command"], "text")
    times = {"seed": 1, "began_us": 0, "ended_us": 1, "versions": {}}
    return Result.model_validate({**identity, **times, "verdict": verdict, "counts": counts, **values})


@pytest.mark.parametrize(
    ("found", "anomalies", "state"),
    [
        (result(), [], "held"),
        (result(), [anomaly(state="allowed")], "held"),
        (result("fail"), [anomaly()], "broken"),
        (result("fail", expectations=[UNPROVEN]), [anomaly()], "broken"),
        (result("inconclusive", expectations=[UNPROVEN]), [], "unknown"),
        (result("inconclusive", expectations=[UNPROVEN]), [anomaly(state="not decided")], "unknown"),
        (result("inconclusive"), [anomaly(state="not decided")], "undecided"),
        (result("inconclusive"), [], "unknown"),
        (result(counts={**READ, "acked": 0}), [], "unknown"),
        (result(counts={"acked": 900}), [], "unknown"),
    ],
)
def test_what_a_run_proves(tmp_path: Path, found: Result, anomalies: list[Any], state: str) -> None:
    app = read(tmp_path, APPS["reliable"])
    scenario = task(app, sets(app)["leader-crash"], 1).subject.scenario
    assert _state(found, anomalies, scenario)[0] == state


def test_a_run_that_proves_nothing_says_why(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["reliable"])
    scenario = task(app, sets(app)["leader-crash"], 1).subject.scenario
    assert _state(result("inconclusive", expectations=[UNPROVEN]), [], scenario)[1] == "no proof"
    lost = anomaly(state="allowed")
    found = _state(result("inconclusive", expectations=[UNPROVEN]), [lost], scenario)
    assert found == ("unknown", f"{lost.text}, which does not count as an effect of the fault: no proof")
    assert _state(result(counts={**READ, "acked": 0}), [], scenario)[1] == NOTHING_WRITTEN
    assert _state(result(counts={"acked": 900}), [], scenario)[1] == NOTHING_READ


def test_a_producer_alone_has_nothing_to_read(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["acks-1"])
    scenario = task(app, sets(app)["leader-crash"], 1).subject.scenario
    assert _state(result(counts={"acked": 900}), [], scenario)[0] == "held"


def test_anomalies_have_the_state_and_the_reason_of_the_contract(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["acks-1"])
    derived = contract(task(app, sets(app)["leader-isolated"], 1).subject.scenario)
    totals = [
        {"check": "lost_write", "scope": "orders", "count": 3, "examined": 9},
        {"check": "corrupt_record", "scope": "orders", "count": 1, "examined": 9},
        {"check": "phantom_write", "scope": "orders", "count": 0, "examined": 9},
    ]
    found = {a.name: a for a in _anomalies(result(totals=totals), derived)}
    assert {name: a.state for name, a in found.items()} == {"lost_write": "allowed", "corrupt_record": "forbidden"}
    assert "leader alone acknowledges" in found["lost_write"].reason
