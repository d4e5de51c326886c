"""Operators without an Airflow around them: their options, the command that they run, its end and its mistakes."""

import pytest

from tests.support.dag_programs import run_program

pytestmark = pytest.mark.airflow

CASES = """
import json
from airflow.sdk import DAG
from dags.provider import operators as op

def refused(make):
    try:
        make()
    except ValueError as e:
        return str(e)
    return ""

with DAG("d", default_args={"pool": "mine", "retries": 3}):
    run = op.AftershockRunOperator(task_id="run", scenario="leader-kill", options={"seed": 7})
    any_verdict = op.AftershockRunOperator(task_id="any", scenario="clean-run", fail_unless_pass=False)
    templated = op.AftershockRunOperator(task_id="templated", scenario="{{ params.scenario }}")
    test = op.AftershockTestOperator(
        task_id="test", command="python 'my service.py'", application="billing", options={"samples": "s.jsonl"}
    )
print(json.dumps({
    "words": op.words({
        "i-own-this-cluster": True, "json": False, "seed": 0, "kafka": None, "variant": "",
        "set": ["a=1", "b=2"], "env": {"X": "y z", "N": 3},
    }),
    "refused": [
        refused(lambda: op.check_options({"kafak": "4.3.1"}, "run")),
        refused(lambda: op.check_options({"runs_dir": "/x"}, "run")),
        refused(lambda: op.AftershockTestOperator(task_id="t", command="x")),
        refused(lambda: op.AftershockIncidentOperator(task_id="i", action="explode", source="x")),
        refused(lambda: op.AftershockIncidentOperator(task_id="i", action="replay", source="x", options={"most": 1})),
    ],
    "outlets": {t.task_id: [o.name for o in t.outlets] for t in (run, any_verdict, templated, test)},
    "test": [test.subject(), test.arguments(), test.given()],
    "retries": [run.retries, run.pool],
}))
"""

JOB = """
import asyncio, json, os, signal, sys, time
from dataclasses import asdict
from pathlib import Path
from dags.provider.job import Job, JobTrigger

def first(trigger):
    async def wait():
        return (await asyncio.wait_for(anext(trigger.run()), 120)).payload
    return asyncio.run(wait())

here = Path(os.environ["AIRFLOW_HOME"])
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a child of a shell's background job
refused = Job.start(here / "refused", here / "r", ["run", "no-such"], directory=None, env={})
event = first(JobTrigger(asdict(refused)))
serve = Job.start(here / "serve", here / "s", ["control", "--socket", str(here / "s.sock")], directory=None, env={})
while not (here / "s.sock").exists() and not serve.ended():
    time.sleep(0.05)
alive = not serve.ended()
open_files = {os.readlink(file) for file in Path("/proc", serve.process.partition(":")[0], "fd").iterdir()}
asyncio.run(JobTrigger(asdict(serve)).on_kill())
killed = Job.start(here / "killed", here / "k", ["control", "--socket", str(here / "k.sock")], directory=None, env={})
os.killpg(int(killed.process.partition(":")[0]), signal.SIGKILL)
event_killed = first(JobTrigger(asdict(killed)))
print(json.dumps({
    "refused": [refused.code(), refused.lines()[0], event["read"] == (here / "refused" / "output.log").stat().st_size],
    "ended": [alive, serve.ended(), serve.code()],
    "open": [name for name in open_files if name.startswith(("pipe:", "socket:"))],
    "killed": [killed.ended(), killed.code(), event_killed["job"]["folder"] == killed.folder],
}))
"""


def test_options_become_words_and_a_mistake_is_an_error_of_the_dag(tmp_path):
    found = run_program(tmp_path, CASES)
    assert found["words"] == [
        "--i-own-this-cluster", "--seed=0", "--set=a=1", "--set=b=2", "--env=X=y z", "--env=N=3"
    ]  # fmt: skip
    unknown, ours, samples, action, incident = found["refused"]
    assert "`run` has no option kafak (did you mean kafka?)" in unknown
    assert "runs-dir" in ours and "not for operators" in ours
    assert "samples" in samples
    assert "no action 'explode'; known are replay, repeat" in action
    assert "`replay` or `repeat` or" in incident and "has no option most" in incident
    verdict, passed = "aftershock/{}/verdict", "aftershock/{}/pass"
    assert found["outlets"] == {
        "run": [verdict.format("leader-kill"), passed.format("leader-kill")],
        "any": [verdict.format("clean-run")],  # a pass is not what its success means
        "templated": [],
        "test": [verdict.format("billing"), passed.format("billing")],
    }
    assert found["test"] == ["billing", ["--", "python", "my service.py"], {"samples": "s.jsonl", "name": "billing"}]
    assert found["retries"] == [0, "mine"]  # a verdict is never tried again, whatever other tasks of the DAG do


def test_a_command_outlives_its_starter_keeps_its_exit_code_and_ends_with_all_that_it_started(tmp_path):
    found = run_program(tmp_path, JOB)
    code, lines, read_all = found["refused"]
    assert code == 2 and "no-such" in lines[-1] and read_all
    assert found["ended"] == [True, True, 130]
    assert found["killed"] == [True, None, True]  # killed: no exit code, and that is seen
    assert found["open"] == []  # a worker waits until nothing holds the pipes of its task


CELL = """
import json, os, sys
from pathlib import Path
from dags.provider import operators as op
from dags.provider.job import Job

here = Path(os.environ["AIRFLOW_HOME"])
head = {"kind": "gate", "title": "t", "verdict": "fail", "sentence": "It broke.", "made_us": 1, "repeat": 1}
job = Job(str(here), str(here / "gated"), "1:1", "here")
(here / "result.json").write_text(json.dumps(head | {"command": "aftershock gate g", "seed": 7, "cells": []}))
(here / "output.log").write_text("")
(here / "exit").write_text("1")
cell = op.AftershockGateOperator(task_id="c", cell=2, options={"resume": str(here / "gated")}, runs_dir=str(here))
print(json.dumps(cell._found(job)))
"""


def test_a_cell_has_its_verdict_before_the_gate_has_one(tmp_path):
    found = run_program(tmp_path, CELL)
    said = {name: found[name] for name in ("verdict", "sentence", "seed", "command")}
    assert said == {"verdict": "fail", "sentence": "cell 2: It broke.", "seed": 7, "command": "aftershock gate g"}


EXAMPLES = """
import json
from dags.provider.examples import deploy_if_it_held, every_night

dags = [deploy_if_it_held.dag, every_night.nightly, every_night.asked]
print(json.dumps({dag.dag_id: {t.task_id: sorted(t.downstream_task_ids) for t in dag.tasks} for dag in dags}))
"""


def test_the_examples_deploy_only_after_a_pass_and_break_only_after_an_approval(tmp_path):
    assert run_program(tmp_path, EXAMPLES) == {
        "deploy_if_it_held": {"build": ["break_it"], "break_it": ["deploy"], "deploy": []},
        "every_night": {"leader_kill": ["what_is_new"], "slow_consumer": ["what_is_new"], "what_is_new": []},
        "break_staging": {"approve": ["break_staging"], "break_staging": []},
    }
