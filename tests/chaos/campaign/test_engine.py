"""The engine: what runs, in which order, what is stored, and how it goes on; with a lab that starts nothing."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.campaign import engine
from chaos.campaign.engine import Budget, Listed, Queue, Trial, run_campaign
from chaos.campaign.folder import RUNS, Asked, Folder, resumed
from chaos.campaign.subject import load_subject
from chaos.errors import ClusterError, ResolveError, RunDirError, UsageError
from chaos.lab.lab import FinishedRun, Lab
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import TrialRun
from chaos.run.directory import Run
from chaos.run.result import Metric, RunOutcome
from tests.chaos.history.test_store import judged
from tests.support.labs import FakeLab, seen

SUBJECT = load_subject("clean-run", seed=7)


class Lines(ProgressListener):
    """Keeps what a campaign says."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def say(self, text: str) -> None:
        self.texts.append(text)


def trial(part: str, n: int = 1, **values: Any) -> Trial:
    return Trial(f"{part}-{n}", SUBJECT, part, n, **values)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> FakeLab:
    fake = FakeLab()
    monkeypatch.setattr(engine, "TrialLab", fake)
    return fake


def folder(tmp_path: Path, name: str = "out", **values: Any) -> Folder:
    asked = Asked(runs_dir=tmp_path, into=tmp_path / name, seed=1, **values)
    return Folder.planned(asked, "repeat", "r", [{"name": "a"}])


def run(plan: list[Trial] | engine.Plan, place: Folder, **values: Any) -> list[TrialRun]:
    plan = Listed(plan) if isinstance(plan, list) else plan
    return run_campaign(plan, place, ProgressListener(), **values)


def ids(runs: list[TrialRun]) -> list[str]:
    return [one.run_id for one in runs]


def test_an_empty_plan_starts_nothing(tmp_path, lab):
    assert run([], folder(tmp_path)) == []
    assert lab.asked == []


def test_runs_are_stored_in_order_and_never_run_twice(tmp_path, lab):
    place, plan = folder(tmp_path), [trial("a"), trial("a", 2), trial("b")]
    assert ids(run(plan, place)) == ["a-1", "a-2", "b-1"]
    assert ids(run([*plan, trial("b", 2)], place)) == ["a-1", "a-2", "b-1", "b-2"]
    assert lab.asked == ["a-1", "a-2", "b-1", "b-2"]


def test_several_workers_share_the_trials(tmp_path, lab):
    done = run([trial("a", n) for n in range(1, 21)], folder(tmp_path), jobs=4)
    assert sorted(ids(done)) == sorted(lab.asked) == sorted(f"a-{n}" for n in range(1, 21))


def test_a_plan_is_fed_with_the_results(tmp_path, lab):
    class Fed(engine.Plan):
        def trials(self, runs):
            return [trial("a", n) for n in range(1, len(runs) + 2)] if len(runs) < 5 else []

    assert ids(run(Fed(), folder(tmp_path), jobs=3)) == [f"a-{n}" for n in range(1, 6)]


def test_no_run_begins_when_the_plan_is_over(tmp_path, lab):
    class Enough(Listed):
        def is_over(self, runs):
            return len(runs) >= 2

    trials = [trial("a", n, alone=True) for n in range(1, 9)]  # else others may be driven before a verdict comes
    assert len(run(Enough(trials), folder(tmp_path))) == 2


@pytest.mark.parametrize(("text", "runs"), [("3", 3), ("3,30m", 3), ("30m", 5)])
def test_no_run_begins_after_the_budget(tmp_path, lab, text, runs):
    assert len(run([trial("a", n) for n in range(1, 6)], folder(tmp_path), budget=Budget.parse(text))) == runs


def test_no_run_begins_when_the_time_is_over():
    queue = Queue(Listed([trial("a")]), [], Budget(seconds=0.0))
    assert queue.take("") is None


def test_a_worker_takes_what_fits_its_cluster_among_equals_only():
    a, b, c = trial("a", cluster="x"), trial("b", cluster="y"), trial("c", cluster="y", tier=(2,))
    queue = Queue(Listed([a, b, c]), [], Budget())
    assert queue.take("y") == b
    assert queue.take("y") == a, "the third is of a later tier"


class Narrow(Listed):
    """One run at a time after the first one."""

    def at_once(self, runs):
        return 1 if runs else None


def test_no_more_runs_drive_at_once_than_the_plan_allows():
    queue = Queue(Narrow([trial("a", n) for n in range(1, 6)]), [], Budget())
    first, second = queue.take(""), queue.take("")
    assert (first.n, second.n) == (1, 2)
    queue.driven()
    done = TrialRun.model_validate({**seen("pass").model_dump(), "run_id": "a-1", "part": "a", "n": 1, "seed": 1})
    queue.finish(done, [done])
    third = []
    taker = threading.Thread(target=lambda: third.append(queue.take("")), daemon=True)
    taker.start()
    taker.join(0.1)
    assert third == [], "the second one drives"
    queue.driven()
    taker.join(30)
    assert third[0].n == 3


def test_no_run_begins_while_many_wait_for_their_verdicts():
    queue = Queue(Listed([trial("a", n) for n in range(1, 9)]), [], Budget())
    for _ in range(engine.UNJUDGED):
        queue.take("")
        queue.driven()
    taken = []
    taker = threading.Thread(target=lambda: taken.append(queue.take("")), daemon=True)
    taker.start()
    taker.join(0.1)
    assert taken == []
    done = TrialRun.model_validate({**seen("pass").model_dump(), "run_id": "a-1", "part": "a", "n": 1, "seed": 1})
    queue.finish(done, [done])
    taker.join(30)
    assert taken[0].n == engine.UNJUDGED + 1


def test_a_round_begins_on_a_new_cluster(tmp_path, lab):
    run([trial("a", n, round=n) for n in (1, 2)] + [trial("b", 2, round=2)], folder(tmp_path))
    assert lab.renewed == [1]


def test_a_trial_that_cannot_run_ends_the_campaign_unless_it_may_be_missing(tmp_path, lab):
    def rule(one):
        if one.part == "b":
            raise ResolveError("no such\nrelease")
        return "pass"

    lab.rule = rule
    with pytest.raises(ResolveError):
        run([trial("b")], folder(tmp_path, "one"))
    place = folder(tmp_path, "two")
    plan = [trial("b", optional=True), trial("b", 2, optional=True), trial("c")]
    refused, other = run(plan, place)
    assert (refused.verdict, refused.ran, refused.sentence) == (
        "inconclusive",
        False,
        "It cannot be run: no such release",
    )
    assert other.part == "c"
    lab.rule = lambda one: "pass"
    assert {one.run_id: one.ran for one in run(plan, place)} == {"b-1": True, "b-2": True, "c-1": True}, "tried again"


@pytest.mark.parametrize("error", [ClusterError("gone"), KeyboardInterrupt()])
@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_of_one_worker_ends_them_all_and_what_is_finished_stays(tmp_path, lab, error, jobs):
    def rule(one):
        if one.n == 4:
            raise error
        return "pass"

    lab.rule, place, plan = rule, folder(tmp_path), [trial("a", n) for n in range(1, 50)]
    with pytest.raises(type(error)):
        run(plan, place, jobs=jobs)
    stored = ids(place.runs())
    assert "a-4" not in stored and len(stored) < 40 and stored[:1]
    (tmp_path / "out" / "a-4").mkdir()
    lab.rule, before = (lambda one: "pass"), list(lab.asked)
    run(plan, place)
    assert not (tmp_path / "out" / "a-4").exists(), "what an interrupted run left is removed"
    assert not set(lab.asked[len(before) :]) & set(stored)
    assert len(place.runs()) == 49


@pytest.mark.parametrize(
    ("last", "said"), [(1, "no run has finished"), (2, "1 finished run is stored"), (3, "2 finished runs are stored")]
)
def test_a_campaign_that_breaks_off_says_how_many_runs_are_stored(tmp_path, lab, last, said):
    def rule(one):
        if one.n == last:
            raise ClusterError("gone")
        return "pass"

    lab.rule, place, lines = rule, folder(tmp_path), Lines()
    with pytest.raises(ClusterError):
        run_campaign(Listed([trial("a", n) for n in range(1, 9)]), place, lines)
    assert lines.texts[-1] == f"{said}; continue with --resume {place.path}"


def test_the_first_failed_run_of_a_part_is_packed(tmp_path, lab, monkeypatch):
    monkeypatch.setattr(Folder, "pack_run", lambda self, run_id: f"bundles/{run_id}")
    lab.rule = lambda one: "fail" if one.part == "b" else "pass"
    done = run([trial("a"), trial("b"), trial("b", 2)], folder(tmp_path))
    assert [one.bundle for one in done] == ["", "bundles/b-1", ""]


def test_two_processes_do_not_run_one_campaign_and_shares_of_it_may(tmp_path, lab):
    place = folder(tmp_path)
    with place.claimed(), pytest.raises(UsageError, match="another process runs the campaign"):
        run([trial("a")], place)
    with place.claimed(whole=False):
        assert ids(run([trial("a")], place, whole=False)) == ["a-1"]
        with pytest.raises(UsageError, match="another process runs the campaign"):
            run([trial("b")], place)


@pytest.mark.parametrize(
    ("verdict", "number", "shown"),
    [("pass", 0, "none"), ("pass", 2, "lost 2"), ("fail", 2, "lost 2"), ("fail", 0, "s"), ("inconclusive", 2, "s")],
)
def test_a_run_shows_its_anomalies_or_why_it_has_its_verdict_without_any(verdict, number, shown):
    one = line(1).model_copy(update={"verdict": verdict, "anomalies": {"lost": number}})
    assert one.shown == shown


def line(n: int) -> TrialRun:
    return TrialRun(run_id=f"a-{n}", part="a", n=n, seed=1, verdict="pass", sentence="s", anomalies={})


def test_many_writers_lose_no_line(tmp_path):
    place = folder(tmp_path)
    writers = [threading.Thread(target=place.store, args=(line(n),)) for n in range(40)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(one.n for one in place.runs()) == list(range(40))


def test_a_line_that_a_kill_cut_off_is_ignored_and_overwritten(tmp_path):
    place = folder(tmp_path)
    place.store(line(1))
    with (place.path / RUNS).open("a") as file:
        file.write('{"run_id": "a-2", "verd')
    assert ids(place.runs()) == ["a-1"]
    place.store(line(2))
    assert ids(place.runs()) == ["a-1", "a-2"]


def test_a_damaged_line_is_reported(tmp_path):
    place = folder(tmp_path)
    (place.path / RUNS).write_text("{broken\n")
    with pytest.raises(RunDirError, match="is damaged"):
        place.runs()


# the folder


def test_a_new_campaign_needs_a_new_or_an_empty_folder(tmp_path):
    (tmp_path / "out").mkdir()
    place = folder(tmp_path)
    with pytest.raises(UsageError, match="has a campaign already; continue it with --resume"):
        folder(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x.txt").touch()
    with pytest.raises(UsageError, match="is not empty"):
        folder(tmp_path, "mine")
    assert place.plan.asked["seed"] == 1


def test_a_campaign_goes_on_with_what_was_asked(tmp_path):
    place = folder(tmp_path, repeat=4)
    again = resumed(Asked(runs_dir=tmp_path, resume=place.path), "repeat")
    assert (again.seed, again.repeat) == (1, 4)
    assert resumed(replace(again, repeat=9), "repeat").repeat == 9
    Folder.planned(again, "repeat", "r", [{"name": "a"}])
    with pytest.raises(UsageError, match="other content, by another release, or with another seed"):
        Folder.planned(again, "repeat", "r", [{"name": "b"}])
    with pytest.raises(UsageError, match="other content, by another release, or with another seed"):
        Folder.planned(replace(again, seed=2), "repeat", "r", [{"name": "a"}])
    with pytest.raises(UsageError, match="leave --into out"):
        resumed(replace(again, into=tmp_path / "x"), "repeat")


def test_a_folder_of_another_kind_or_none_or_a_damaged_one_is_refused(tmp_path):
    place = folder(tmp_path)
    with pytest.raises(UsageError, match="is a campaign of kind repeat, not corpus"):
        Folder.open(place.path, "corpus")
    with pytest.raises(UsageError, match=r"is no campaign of kind repeat: it has no plan\.json"):
        Folder.open(tmp_path / "none", "repeat")
    place.plan.asked["repeat"] = "many"
    place.spend(0)
    with pytest.raises(RunDirError, match="is damaged, or of another version"):
        resumed(Asked(runs_dir=tmp_path, resume=place.path), "repeat")
    (place.path / "plan.json").write_text("{")
    with pytest.raises(RunDirError, match=r"plan\.json is damaged"):
        Folder.open(place.path, "repeat")


# the budget


def test_a_budget_is_runs_or_time_or_both():
    assert Budget.parse("40") == Budget(runs=40)
    assert Budget.parse("30m") == Budget(seconds=1800)
    assert Budget.parse("40, 90s") == Budget(runs=40, seconds=90)
    assert Budget.parse(None) == Budget()
    for wrong in ("", "0", "soon", "10x", ","):
        with pytest.raises(UsageError, match="--for"):
            Budget.parse(wrong)
    with pytest.raises(UsageError, match="--for 20s is too small for one run"):
        Budget.parse("20s")


def test_a_file_of_a_run_is_named_as_it_is_in_the_folder_of_the_campaign(tmp_path):
    outcome = RunOutcome.missing("It broke off: see logs/broker-1.log, judge-1/logs/checks.log and /tmp/logs/x.")
    finished = FinishedRun(Run(tmp_path / "r-1"), 7, outcome, 1.0)
    stored = engine.observed(Trial("r-1", load_subject("clean-run"), "p"), finished, tmp_path)
    assert stored.sentence.endswith("see r-1/logs/broker-1.log, judge-1/logs/checks.log and /tmp/logs/x.")


def test_a_judged_run_is_a_line_with_the_times_that_are_compared(tmp_path):
    finished = FinishedRun(judged(tmp_path), 7, RunOutcome.missing("S"), 1.0)
    line = engine.observed(Trial("r-1", load_subject("clean-run"), "p"), finished, tmp_path).model_dump_json()
    assert TrialRun.model_validate_json(line).times == [
        Metric(metric="ack_latency", scope="orders", stat="p99", value_us=5)
    ]


def test_a_lab_shows_why_its_judge_takes_longer_to_end_and_nothing_that_it_says_of_runs(tmp_path, monkeypatch):
    said: list[str] = []

    class Judge:
        def __init__(self, home, listener, spark_master):
            self.listener = listener

        def wait_ready(self):
            self.listener({"kind": "note", "words": "of a run"})

        def __exit__(self, *_):
            self.listener({"kind": "note", "words": "keeping the classes"})
            self.listener({"kind": "stage", "stage": "spark"})

    class Listener(ProgressListener):
        def doing(self, message):
            said.append(message)

    monkeypatch.setattr("chaos.lab.lab.Judge", Judge)
    with Lab(tmp_path, Listener()) as lab:
        lab._ready_judge()
    assert said == ["starting Spark", "keeping the classes"]
