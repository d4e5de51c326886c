"""The catalogue: its entries, the expected anomalies, and the exit code."""

import json
import subprocess
import sys

import pytest

from chaos.campaign import engine
from chaos.campaign.catalogue import CatalogueRequest, expected_anomalies, names, run_catalogue, scenarios
from chaos.errors import UsageError
from chaos.lab import judge, lab
from chaos.lab.lab import DrivenRun
from chaos.lab.progress import ProgressListener
from chaos.processes.process import ProcessId, spawn
from chaos.run.directory import Run
from chaos.run.events import EventLog, read_events
from chaos.run.result import EXIT_CODES, AnomalyCount, count_anomalies, describe_anomalies, merge
from chaos.scenario.load import load
from chaos.scenario.resolve import resolve
from chaos.scenario.shipped import shipped
from tests.support.labs import FakeLab


def test_it_is_every_shipped_scenario_with_every_variant():
    every = names()
    assert {name for name, _ in every} == set(shipped())
    for name, path in shipped().items():
        assert [variant for one, variant in every if one == name] == (list(load(path).variants) or [""])


def test_patterns_choose_scenarios_or_variants_and_runs_of_one_cluster_follow_one_another():
    assert names(["acks1-*"]) == [("acks1-leader-kill", "acks-1"), ("acks1-leader-kill", "acks-all")]
    plan = scenarios(names(["acks1*/acks-all", "clean-run"]), repeat=2)
    assert sorted(t.run_id for t in plan.planned) == [
        "acks1-leader-kill-acks-all-1",
        "acks1-leader-kill-acks-all-2",
        "clean-run-1",
        "clean-run-2",
    ]
    clusters = [t.cluster for t in plan.planned]
    assert [one for one, before in zip(clusters, [None, *clusters], strict=False) if one != before] == list(
        dict.fromkeys(clusters)
    )
    with pytest.raises(UsageError, match="no shipped scenario is named nothing-like-it"):
        names(["nothing-like-it"])


def test_a_missing_run_is_inconclusive_and_the_catalogue_goes_on(tmp_path, monkeypatch):
    fake = FakeLab()
    monkeypatch.setattr(engine, "TrialLab", fake)
    asked = CatalogueRequest(runs_dir=tmp_path, into=tmp_path / "c", only=("clean-run", "leader-kill"), budget="1")
    first = run_catalogue(asked, ProgressListener())
    assert (first.verdict, first.notes) == ("inconclusive", ["1 of 2 runs are missing: continue with --resume"])
    again = run_catalogue(CatalogueRequest(runs_dir=tmp_path, resume=tmp_path / "c"), ProgressListener())
    assert (again.verdict, sorted(fake.asked)) == ("pass", ["clean-run-1", "leader-kill-1"])
    assert "leader-kill-1" in (tmp_path / "c" / "report.html").read_text()


def test_expected_anomalies_are_those_that_must_appear():
    path = shipped()["acks1-leader-kill"]
    assert expected_anomalies(load(path, variant="acks-1")) == "lost_write at least 1, offset_reuse at least 1"
    assert expected_anomalies(load(path, variant="acks-all")) == "none"
    path = shipped()["app-spring"]
    assert expected_anomalies(load(path, variant="skipped")) == "effect_missing invoices at least 1"
    assert expected_anomalies(load(path, variant="retried")) == "none"


def test_anomaly_counts_are_summed_over_scopes_without_zeros():
    rows = [("lost_write", "", 0), ("duplicate_delivery", "legal", 40), ("duplicate_delivery", "legal", 2)]
    totals = [AnomalyCount(check=c, split=s, count=n) for c, s, n in rows]
    assert describe_anomalies(count_anomalies(totals)) == "duplicate_delivery legal 42"
    assert describe_anomalies(count_anomalies([])) == "none"


def test_a_run_without_a_result_is_inconclusive_with_the_reason(tmp_path):
    run = Run.create(tmp_path, "x-1")
    judgement = judge.Judgement(run)
    judgement.done.set()
    outcome = DrivenRun(run, 1, judgement, 1.0, "no broker").finish().outcome
    assert (outcome.verdict, outcome.sentence) == ("inconclusive", "no broker")
    run.result.write_text(json.dumps({"totals": [], "verdict": "pass", "sentence": "well."}))
    assert DrivenRun(run, 1, judgement, 1.0, "").finish().outcome.verdict == "pass"


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(["pass"], 0), (["pass", "fail", "inconclusive"], 1), (["pass", "inconclusive"], 3), ([], 3)],
)
def test_the_exit_code_is_that_of_the_worst(verdicts, code):
    assert EXIT_CODES[merge(verdicts)] == code


def test_clusters_in_a_folder_that_is_used_again_have_different_names(tmp_path, monkeypatch):
    class Nothing:
        def deploy(self, *_: object) -> None:
            """No broker."""

    monkeypatch.setattr(lab, "driver_of", lambda _: Nothing())
    resolved = resolve(load(shipped()["leader-kill"]), run_id="r", name="r", created_us=1, seed=7, overrides=[])
    clusters = [lab.Lender(tmp_path).cluster(resolved, print) for _ in range(2)]
    assert [cluster and cluster.path.name for cluster in clusters] == ["cluster-1-1", "cluster-1-2"]


def test_judges_that_share_a_folder_do_not_end_each_other(tmp_path, monkeypatch):
    def idle(run, *_: str):
        argv = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        return spawn(
            argv,
            run=run,
            role="checks",
            owner=ProcessId.current(),
            log=run.logs / "checks.log",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ).popen

    monkeypatch.setattr(judge, "start_checks", idle)
    with judge.Judge(Run.create_numbered(tmp_path, "judge-")) as first:
        with judge.Judge(Run.create_numbered(tmp_path, "judge-")) as second:
            pass
        assert (first._child.poll(), second._child.poll() is None) == (None, False)


def test_the_wait_for_spark_is_a_stage_of_the_run_and_only_if_there_is_a_wait(tmp_path, monkeypatch):
    def ready_when_asked(run, *_: str):
        program = 'import sys; sys.stdin.readline(); print(\'{"kind": "ready"}\', flush=True); sys.stdin.read()'
        argv = [sys.executable, "-c", program]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr(judge, "start_checks", ready_when_asked)
    run = Run.create(tmp_path, "x-1")
    with judge.Judge(Run.create_numbered(tmp_path, "judge-")) as slow:

        def start(_: object) -> None:  # at the begin of the stage
            slow._child.stdin.write(b"\n")
            slow._child.stdin.flush()

        slow.wait_before_load(EventLog(run, start))
        assert [(e["stage"], e["state"]) for e in read_events(run)] == [("judge", "begin"), ("judge", "end")]
        slow.wait_before_load(EventLog(run))
        assert len(read_events(run)) == 2
