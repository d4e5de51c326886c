"""Exploration: the moments of the first run, their order, the trials that follow, and the states of moments."""

import json

import pytest

from chaos.campaign.engine import Plan
from chaos.campaign.explore import BASELINE, CRASH, Exploration, Moment, explore, part_of
from chaos.campaign.folder import Folder
from chaos.campaign.subject import Request, load_subject
from chaos.errors import UsageError
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import TrialRun
from chaos.run.events import MOMENTS

COMMIT = Moment("billing", "OffsetCommit request", "Produce response", 40)
FETCH = Moment("billing", "Fetch request", "SyncGroup response", 2)


@pytest.fixture
def plan(tmp_path) -> Plan:
    subject = load_subject("app-commit-order", "after")
    request = Request(runs_dir=tmp_path, into=tmp_path / "found", source="app-commit-order", seed=7)
    folder = Folder.planned(request, "explore", "explore", [])
    first = folder.path / f"{subject.name}-{BASELINE}"
    first.mkdir()
    event = {
        "kind": MOMENTS,
        "at_us": 1,
        "by_instance": {
            "billing/1": [["Produce response", "OffsetCommit request", 25], ["", "JoinGroup request", 1]],
            "billing/2": [["SyncGroup response", "Fetch request", 2], ["Produce response", "OffsetCommit request", 15]],
            "shop/1": [["Produce response", "Produce request", 99]],
        },
    }
    (first / "events.jsonl").write_text(json.dumps(event) + "\n")
    return Exploration(subject, folder)


def run(part, verdict="pass", name="", sentence="", **anomalies):
    counts = {kind: n for kind, n in anomalies.items()}
    return TrialRun(verdict=verdict, sentence=sentence, anomalies=counts, part=part, run_id=name or part, seed=7)


def test_nothing_but_the_first_run_is_wanted_before_it_has_passed(plan):
    assert [trial.part for trial in plan.trials([])] == [BASELINE]
    for verdict in ("fail", "inconclusive"):
        assert plan.is_over([run(BASELINE, verdict)])
    assert not plan.is_over([run(BASELINE)])


def test_moments_are_of_applications_after_a_step_and_counted_over_instances(plan):
    assert plan.moments == [COMMIT, FETCH]


def test_each_moment_gets_each_blow_at_a_place_that_the_seed_fixes(plan):
    trials = plan.trials([run(BASELINE)])
    assert [trial.part for trial in trials[1:3]] == [part_of(COMMIT, "kill"), part_of(FETCH, "kill")]
    assert len({trial.run_id for trial in trials}) == len(trials) == 7
    (crash,) = trials[1].subject.scenario.faults
    assert crash.kind == "app.kill"
    wire = crash.when.wire
    assert (wire.api, wire.side, wire.after) == ("OffsetCommit", "request", "Produce response")
    assert 11 <= wire.nth <= 20 and wire.nth == plan.trials([run(BASELINE)])[1].subject.scenario.faults[0].when.wire.nth
    assert [fault.name for fault in trials[-1].subject.scenario.faults] == ["leave-billing", CRASH, "broker"]


def test_what_broke_under_the_crash_alone_is_not_tried_with_the_crash_of_a_broker(plan):
    broken = plan.trials([run(BASELINE), run(part_of(COMMIT, "kill"), "fail", effect_duplicate=3)])
    assert [t.part for t in broken if "with its broker" in t.part] == [part_of(FETCH, "broker")]


@pytest.mark.parametrize(
    ("runs", "state"),
    [
        ([run("x")], "held"),
        ([run("x", "fail", **{"effect_duplicate invoices": 3})], "doubled"),
        ([run("x", "fail", **{"effect_duplicate invoices": 3, "effect_missing invoices": 1})], "lost"),
        ([run("x", "fail", lost_write=1)], "broken"),
        (
            [run("x", "inconclusive", sentence="fault crash was never injected: its trigger did not come")],
            "not reached",
        ),
        ([run("x", "inconclusive", sentence="the brokers are gone")], "undecided"),
    ],
)
def test_a_moment_has_the_state_that_its_runs_show(plan, runs, state):
    assert plan._state(runs) == state


def test_the_verdict_is_red_with_a_broken_moment_and_open_without_one_that_held(plan):
    broken = run(part_of(COMMIT, "kill"), "fail", **{"effect_missing invoices": 2})
    assert plan.result([run(BASELINE), broken], "c").verdict == "fail"
    assert plan.result([run(BASELINE), run(part_of(FETCH, "kill"))], "c").verdict == "pass"
    assert plan.result([run(BASELINE)], "c").verdict == "inconclusive"
    first = plan.result([run(BASELINE, "fail", sentence="It lost 2.")], "c")
    assert first.verdict == "fail" and "the run without a crash is no pass: It lost 2." in first.sentence


def test_a_scenario_without_an_application_is_refused(tmp_path):
    with pytest.raises(UsageError, match="has no apps to explore"):
        explore(Request(runs_dir=tmp_path, source="clean-run"), ProgressListener())


def test_what_the_budget_left_is_counted_by_what_happens_there(plan):
    notes = plan.result([run(BASELINE), run(part_of(COMMIT, "kill"))], "c").notes
    assert notes == ["not tried: 1 killed, 2 asked to end, 2 killed with its broker; --resume goes on"]
