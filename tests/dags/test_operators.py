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
    named = op.AftershockRunOperator(task_id="named", scenario="clean-run", run_id="nightly", runs_dir="runs")
    audit = op.AftershockAuditOperator(task_id="audit", run_dir="runs/x")
    any_verdict = op.AftershockRunOperator(task_id="any", scenario="clean-run", fail_unless_pass=False)
    templated = op.AftershockRunOperator(task_id="templated", scenario="{{ params.scenario }}")
    test = op.AftershockTestOperator(
        task_id="test", command="python 'my service.py'", application="billing", options={"samples": "s.jsonl"}
    )
print(json.dumps({
    "empty": [op.words({"set": ""}), run.given({"set": "", "kafka": ""})],
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
    "test": [test.subject(), test.arguments(), test.given(test.options)],
    "retries": [run.retries, run.pool],
    "folders": [named.folder(n).name for n in (1, 2)] + [audit.folder(2).name, run.folder(2).name[:12]],
}))
"""

JOB = """
import asyncio, json, os, signal, sys, time
from dataclasses import asdict
from pathlib import Path
from socket import gethostname
from chaos.wait import wait_until
from dags.provider.job import Job, JobTrigger, taken_over

def first(trigger):
    async def wait():
        return (await asyncio.wait_for(anext(trigger.run()), 120)).payload
    return asyncio.run(wait())

def serving(name):
    sock = here / f"{name}.sock"
    job, leash = Job.start(
        here / name, here / "r", ["control", "--socket", str(sock)], asked="same", directory=None, env={}
    )
    while not sock.exists() and not job.ended():
        time.sleep(0.05)
    return job, leash

def killed_task(name, let_go):
    if not (child := os.fork()):
        _, leash = serving(name)
        if let_go:
            leash.let_go()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    return Job.read(here / name)

def left_behind(name, asked):
    (here / name).mkdir()
    (here / name / "result.json").write_text("{}")
    (here / name / "exit").write_text("1")
    (here / name / "job.json").write_text(json.dumps(asdict(Job(str(here / name), "r", "1:1", gethostname(), asked))))

here = Path(os.environ["AIRFLOW_HOME"])
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a child of a shell's background job
refused, _ = Job.start(here / "refused", here / "r", ["run", "no-such"], directory=None, env={})
event = first(JobTrigger(asdict(refused)))
serve, leash = serving("serve")
alive = not serve.ended()
folder = Path("/proc", serve.process.partition(":")[0], "fd")
ours = {os.readlink(f"/proc/self/fd/{n}") for n in (1, 2)}
shared = ours & {os.readlink(file) for file in folder.iterdir()}
serve.end()
code = serve.code()
asyncio.run(JobTrigger(asdict(serve)).on_kill())
crushed, crushed_leash = serving("crushed")
os.killpg(int(crushed.process.partition(":")[0]), signal.SIGKILL)
event_crushed = first(JobTrigger(asdict(crushed)))
held, free = killed_task("held", False), killed_task("free", True)
wait_until(held.ended, 60, "the command goes on without its task")
goes_on = not free.ended()
left_behind("judged", "same")
left_behind("other", "another")
(here / "never-begun").mkdir()
said = []
names = ("held", "free", "judged", "other", "never-begun")
taken = taken_over([here / name for name in names], "same", said.append)
print(json.dumps({
    "refused": [refused.code(), refused.lines()[0], event["read"] == (here / "refused" / "output.log").stat().st_size],
    "ended": [alive, serve.ended(), code, (here / "serve").exists()],
    "shared": sorted(shared),
    "crushed": [crushed.ended(), crushed.code(), event_crushed["job"]["folder"] == crushed.folder],
    "held": goes_on,
    "taken": [Path(taken.folder).name, free.ended(), said, [name for name in names if (here / name).exists()]],
}))
"""


def test_options_become_words_and_a_mistake_is_an_error_of_the_dag(tmp_path):
    found = run_program(tmp_path, CASES)
    assert found["words"] == [
        "--i-own-this-cluster", "--seed=0", "--set=a=1", "--set=b=2", "--env=X=y z", "--env=N=3"
    ]  # fmt: skip
    assert found["empty"] == [["--set="], {"set": [""], "kafka": ""}]  # the command refuses it
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
    assert found["folders"] == ["nightly", "nightly-2", "x", "leader-kill-"]  # a cleared task does not find its folder
    assert found["retries"] == [0, "mine"]  # a verdict is never tried again, whatever other tasks of the DAG do


def test_a_command_keeps_its_exit_code_and_ends_with_its_task_unless_it_was_let_go(tmp_path):
    found = run_program(tmp_path, JOB)
    code, lines, read_all = found["refused"]
    assert code == 2 and "no-such" in lines[-1] and read_all
    assert found["ended"] == [True, True, 130, False]
    assert found["crushed"] == [True, None, True]  # killed: no exit code, and that is seen
    assert found["shared"] == []  # a worker waits until nothing holds the pipes of its task
    assert found["held"] is True
    judged, ended, said, left = found["taken"]
    assert (judged, ended, left) == ("judged", True, ["judged"])
    assert len(said) == 1 and "it was ended" in said[0]


MISTAKES = """
import json
from datetime import datetime
from types import SimpleNamespace
from airflow.sdk import DAG, Connection
from airflow.sdk._shared.secrets_masker import mask_secret
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields
from dags.provider import operators as op

SECRET = "it's\\n\\"50%\\" secret"
mask_secret(SECRET)
given = {"params": {"none": "", "secret": SECRET}}
ti = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1, max_tries=0)
context = {"ti": ti, "dag_run": SimpleNamespace(start_date=datetime(2026, 1, 1))}

def nowhere(conn_id):
    raise AirflowNotFoundException("as Airflow says it")

Connection.get = nowhere

def refused(task):
    task.render_template_fields(given, task.dag.get_template_env())
    try:
        task.execute(context)
    except AirflowFailException as e:
        return str(e)

with DAG("d"):
    empty = op.AftershockRunOperator(task_id="empty", scenario="{{ params.none }}")
    cluster = op.AftershockRunOperator(task_id="cluster", scenario="clean-run", kafka_conn_id="{{ params.none }}")
    missing = op.AftershockRunOperator(task_id="missing", scenario="clean-run", kafka_conn_id="nowhere")
    folder = op.AftershockRunOperator(task_id="folder", scenario="clean-run", runs_dir="/dev/null/{{ params.secret }}")
    leaking = op.AftershockRunOperator(
        task_id="leaking", scenario="clean-run", options={"set": {"a": ["{{ params.secret }}"]}}
    )
    gates = [
        op.AftershockGateOperator(task_id="gate", gate="{{ params.none }}"),
        op.AftershockGateOperator(task_id="elsewhere", gate="upgrade-3.9-to-4.3", directory="/dev/null/x"),
        op.AftershockGateOperator(task_id="cell", cell=1, options={"resume": "x"}, directory="/dev/null/x"),
    ]
    hidden = op.AftershockRunOperator(
        task_id="hidden", scenario="clean-run", options={"set": {"a": ["{{ params.secret }}"]}},
        env={"LOGIN": "{{ params.secret }}", "DB": "postgresql://u:50%25@h/d", "TOPIC": "orders"},
    )
lines = ["  1.0 s  loading", "error: x.yaml is not a valid scenario:", "  --set seed: not a number", ""]
hidden.render_template_fields(given, hidden.dag.get_template_env())
print(json.dumps({
    "refused": [refused(empty), refused(cluster), refused(missing), refused(folder), refused(leaking)],
    "gates": [refused(gate) for gate in gates],
    "last": [op._last(lines), op._last(lines[:1]), op._last([])],
    "shown": _serialize_rendered_fields(hidden)["env"],
    "used": hidden.env["LOGIN"] == SECRET,
    "named": hidden._secrets(),
    "line": hidden.line(["--json"]),
}))
"""


def test_an_empty_field_starts_nothing_and_no_secret_is_shown(tmp_path):
    found = run_program(tmp_path, MISTAKES)
    scenario, cluster, missing, folder, leaking = found["refused"]
    assert scenario == "nothing was started: scenario of empty is empty"
    assert cluster == "nothing was started: kafka_conn_id of cluster is empty"  # else the run makes a cluster
    assert missing == "there is no Airflow connection 'nowhere'"
    assert folder.startswith("nothing was started on ") and "Not a directory" in folder
    assert leaking.startswith("nothing was started: options or command of leaking have a secret")
    empty, *elsewhere = found["gates"]  # a cell has no gate: a planned folder knows it
    assert empty == "nothing was started: gate of gate is empty"
    assert all(said.startswith("the directory /dev/null/x does not exist") for said in elsewhere)
    assert found["last"] == [
        "error: x.yaml is not a valid scenario: --set seed: not a number", "1.0 s  loading", "it said nothing"
    ]  # fmt: skip
    assert (found["shown"], found["used"]) == (dict.fromkeys(["DB", "LOGIN", "TOPIC"], "***"), True)
    assert found["named"] == {"AFTERSHOCK_SECRETS": "LOGIN DB"}
    assert found["line"] == """aftershock run '--set=a=["***"]' --json"""


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
from chaos.scenario.shipped import shipped
from dags.provider.examples import deploy_if_it_held, every_night

dags = [deploy_if_it_held.dag, every_night.nightly, every_night.asked]
shapes = {dag.dag_id: {t.task_id: sorted(t.downstream_task_ids) for t in dag.tasks} for dag in dags}
approve = every_night.asked.get_task("approve")
print(json.dumps([shapes, [approve.fail_on_reject, approve.response_timeout.total_seconds(), approve.defaults],
    every_night.asked.get_task("break_staging").scenario in shipped()]))
"""


def test_the_examples_deploy_only_after_a_pass_and_break_only_after_an_approval(tmp_path):
    shapes, approval, refused = run_program(tmp_path, EXAMPLES)
    assert shapes == {
        "deploy_if_it_held": {"build": ["break_it"], "break_it": ["deploy"], "deploy": []},
        "every_night": {"leader_kill": ["what_is_new"], "slow_consumer": ["what_is_new"], "what_is_new": []},
        "break_staging": {"approve": ["break_staging"], "break_staging": []},
    }
    assert not refused  # no shipped scenario may break an existing cluster, nor knows how
    assert approval == [True, 8 * 3600, None]  # a no, or no answer in time, is no green run
