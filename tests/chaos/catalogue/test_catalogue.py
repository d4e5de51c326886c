"""The catalogue: what is in it, what is expected, and how it ends."""

import json
import subprocess
import sys

import pytest

from chaos.catalogue.cases import Case, cases, expected, outcome
from chaos.cli.catalogue import _exit_code
from chaos.errors import UsageError
from chaos.lab import judge, judge_process, lender
from chaos.processes.process import ProcessId, spawn
from chaos.run.directory import Run
from chaos.run.result import AnomalyCount, count_anomalies, describe_anomalies
from chaos.scenario.load import load
from chaos.scenario.resolve import resolve
from chaos.scenario.shipped import shipped


def test_it_is_every_shipped_scenario_with_every_variant():
    found = cases()
    assert {case.scenario for case in found} == set(shipped())
    for name, path in shipped().items():
        assert [c.variant for c in found if c.scenario == name] == (list(load(path).variants) or [""])


def test_patterns_choose_scenarios_or_variants_and_repetitions_follow_one_another():
    assert {c.name for c in cases(["acks1-*"])} == {"acks1-leader-kill/acks-1", "acks1-leader-kill/acks-all"}
    assert [c.run_id for c in cases(["acks1*/acks-all", "clean-run"], repeat=2)] == [
        "acks1-leader-kill-acks-all-1",
        "clean-run-1",
        "acks1-leader-kill-acks-all-2",
        "clean-run-2",
    ]
    with pytest.raises(UsageError, match="no shipped scenario is named nothing-like-it"):
        cases(["nothing-like-it"])


def test_expected_is_what_must_appear():
    path = shipped()["acks1-leader-kill"]
    assert expected(load(path, variant="acks-1")) == "lost_write at least 1, offset_reuse at least 1"
    assert expected(load(path, variant="acks-all")) == "none"


def test_seen_adds_scopes_up_and_leaves_out_what_is_not_there():
    rows = [("lost_write", "", 0), ("duplicate_delivery", "legal", 40), ("duplicate_delivery", "legal", 2)]
    totals = [AnomalyCount(check=c, split=s, count=n) for c, s, n in rows]
    assert describe_anomalies(count_anomalies(totals)) == "duplicate_delivery legal 42"
    assert describe_anomalies(count_anomalies([])) == "none"


def test_a_case_without_a_result_is_inconclusive_and_says_why(tmp_path):
    run = Run.create(tmp_path, "x-1")
    case = Case("x", "", 1)
    assert outcome(case, "none", run, 0, 1.0, "no broker").verdict == "inconclusive"
    run.result.write_text(json.dumps({"totals": [], "verdict": "pass", "sentence": "well."}))
    assert outcome(case, "none", run, 0, 1.0).verdict == "pass"


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(["pass"], 0), (["pass", "fail", "inconclusive"], 1), (["pass", "inconclusive"], 3), ([], 3)],
)
def test_the_exit_code_is_that_of_the_worst(verdicts, code):
    assert _exit_code(verdicts) == code


def test_clusters_of_a_folder_that_is_used_again_have_names_of_their_own(tmp_path, monkeypatch):
    class Nothing:
        def deploy(self, *_: object) -> None:
            """No broker."""

    monkeypatch.setattr(lender, "driver_of", lambda _: Nothing())
    wanted = resolve(load(shipped()["leader-kill"]), run_id="r", name="r", created_us=1, seed=7, overrides=[])
    homes = [lender.Lender(tmp_path).cluster(wanted, print) for _ in range(2)]
    assert [home and home.path.name for home in homes] == ["cluster-1-1", "cluster-1-2"]


def test_judges_that_share_a_folder_do_not_end_each_other(tmp_path, monkeypatch):
    def still(run, *_: str):
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

    monkeypatch.setattr(judge_process, "start", still)
    with judge.Judge(tmp_path) as first:
        with judge.Judge(tmp_path) as second:
            pass
        assert (first._child.poll(), second._child.poll() is None) == (None, False)
