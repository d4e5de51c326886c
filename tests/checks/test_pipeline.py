"""The stages and the command line, without a cluster."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import threading

import pytest

from chaos.errors import AftershockError, RunDirError
from chaos.processes.process import ProcessId
from chaos.run.events import read_events
from chaos.run.result import Expectation, Result
from chaos.wait import wait_until
from checks import __main__ as entry
from checks import pipeline
from tests.support.fake_runs import FakeRun

pytestmark = pytest.mark.slow


def checks(*args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "200"}
    return subprocess.run([sys.executable, "-m", "checks", *args], capture_output=True, text=True, timeout=120, env=env)


def validated(run: FakeRun, verdict: str) -> None:
    found = Expectation(name="No record is lost", check="lost_write", expected="0", seen="0", verdict=verdict, why="w")
    (run.run.path / "validation.json").write_text(f"[{found.model_dump_json()}]")


@pytest.mark.parametrize(("verdict", "code"), [("pass", 0), ("fail", 1), ("inconclusive", 3)])
def test_the_exit_code_is_that_of_the_verdict_and_stdout_has_only_events(fake, verdict, code):
    run = fake().write()
    validated(run, verdict)
    done = checks(str(run.run.path), "--only", "report")
    assert done.returncode == code, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e["kind"] for e in events] == ["stage", "stage", "verdict"]
    assert events[-1]["verdict"] == verdict
    assert pipeline.verdict(run.run).verdict == verdict
    assert run.run.junit.exists() and run.run.report.exists()


def test_a_directory_that_is_no_run_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        done = checks(str(path))
        assert (done.returncode, done.stdout) == (2, "")
        assert str(path) in done.stderr


def test_a_missing_log_without_a_cluster(fake):
    """The run is inconclusive, with one line of output and a result for scripts."""
    run = fake()
    run.log_range = []
    run.write()
    (run.run.ledger / "log_range.parquet").unlink()
    validated(run, "pass")
    done = checks(str(run.run.path))
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "was never read back, and its cluster is gone" in pipeline.verdict(run.run).sentence
    assert pipeline.verdict(run.run).verdict == "inconclusive"
    assert "RunDirError" in (run.run.logs / "checks.log").read_text()


def test_a_crash_is_inconclusive_with_its_traceback_in_the_log(fake, monkeypatch):
    run = fake().write()
    validated(run, "pass")
    pipeline.report(run.run)
    with monkeypatch.context() as broken:
        broken.setattr("checks.expectations.validate.validate", lambda *a: 1 / 0)
        with pytest.raises(AftershockError, match=r"validate crashed \(ZeroDivisionError.*checks\.log"):
            pipeline.validate(run.run)
    result = pipeline.verdict(run.run)
    assert result.verdict == "inconclusive"
    assert "validate crashed" in result.sentence
    assert "ZeroDivisionError" in (run.run.logs / "checks.log").read_text()
    assert read_events(run.run)[-1]["state"] == "failed"
    assert not (run.run.path / "validation.json").exists()
    assert not run.run.report.exists(), "an old page must not outlive its verdict"
    assert pipeline.report(run.run).verdict == "inconclusive"


def test_a_result_that_cannot_be_collected_does_not_hide_the_failure(fake, monkeypatch):
    run = fake().write()
    monkeypatch.setattr(pipeline, "collect", lambda *a: 1 / 0)
    monkeypatch.setattr("checks.expectations.validate.validate", lambda *a: [].pop())
    with pytest.raises(AftershockError, match="IndexError"):
        pipeline.validate(run.run)


def test_a_missing_result_is_an_error(fake):
    with pytest.raises(RunDirError, match=r"result\.json is missing"):
        pipeline.verdict(fake().run)


def test_a_broken_validation_file_is_inconclusive(fake):
    run = fake().write()
    (run.run.path / "validation.json").write_text("{")
    assert checks(str(run.run.path), "--only", "report").returncode == 3


def test_all_stages_on_spark(fake, spark):
    run = fake().write()
    pipeline.validate(run.run)
    result: Result = pipeline.report(run.run)
    assert result.verdict == "pass", result.problems
    assert pipeline.verdict(run.run) == result


@pytest.mark.parametrize("module", pipeline.TASK_MODULES)
def test_the_modules_that_executors_import_exist(module):
    assert importlib.util.find_spec(module) is not None


def test_a_run_is_read_back_while_an_earlier_one_is_judged(tmp_path, monkeypatch):
    first, second, broken = (FakeRun(tmp_path / name).write().run for name in ("first", "second", "broken"))
    second_read, events, audited = threading.Event(), [], []

    def readback(run, *, listener, spark):
        if run.path == broken.path:
            raise RunDirError("its cluster is gone")
        if run.path == second.path:
            second_read.set()

    def audit(run, *, master, listener):
        assert second_read.wait(30)
        audited.append(run.path)

    def no_session(master):
        raise AftershockError("no Spark")

    for name, fake_one in (("readback", readback), ("audit", audit), ("session", no_session)):
        monkeypatch.setattr(pipeline, name, fake_one)
    monkeypatch.setattr(entry, "_import_ahead", lambda: None)
    paths = [str(first.path), str(second.path), str(broken.path), str(tmp_path / "missing")]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(paths)))
    assert entry._serve(["readback", "audit"], None, events.append) == 0
    assert audited == [first.path, second.path]
    judged = [(e["run_dir"], e["code"]) for e in events if e["kind"] == "judged"]
    assert judged == list(zip(paths, (0, 0, 3, 3), strict=True))
    read = [(e["run_dir"], e["complete"]) for e in events if e["kind"] == "read"]
    assert read == list(zip(paths, (True, True, False, False), strict=True))


JUDGE = """
import os, sys, time
from checks.__main__ import _end_with_parent
parent, begins = int(sys.argv[1]), sys.argv[2]
print("up", flush=True)
while begins == "late" and os.getppid() == parent:
    time.sleep(0.02)
_end_with_parent(parent)
"""
"""What a judge does to notice the end of its parent. late: it begins to look once that has ended."""
ORPHAN = """
import os, subprocess, sys
judge = [sys.executable, "-c", sys.argv[1], str(os.getpid()), sys.argv[2]]
child = subprocess.Popen(judge, stdin=0, stdout=subprocess.PIPE, text=True)
assert child.stdout.readline() == "up\\n"
print(child.pid, flush=True)
sys.stdin.readline()
"""
"""Starts such a judge, and ends like a campaign that is killed."""


@pytest.mark.parametrize("begins", ["at once", "late"])
def test_a_judge_of_many_runs_ends_with_the_campaign_that_was_killed(begins):
    argv = [sys.executable, "-c", ORPHAN, JUDGE, begins]
    starts = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert starts.stdin and starts.stdout
    child = ProcessId.of(int(starts.stdout.readline()))
    assert child.alive()
    starts.kill()
    starts.communicate()
    wait_until(lambda: not child.alive(), 60, "the judge goes on without its campaign")
