"""The sensor on a verdict without an Airflow around it: what it waits for, accepts and refuses."""

import pytest

from tests.support.dag_programs import run_program

pytestmark = pytest.mark.airflow

PROGRAM = """
import json
from pathlib import Path
from airflow.sdk.exceptions import AirflowFailException
from dags.provider.sensor import AftershockVerdictSensor

def run(verdict):
    folder = Path(f"run-{verdict}")
    folder.mkdir(exist_ok=True)
    judged = {"run_id": "r", "run_dir": str(folder), "scenario": "s", "title": "t", "verdict": verdict,
              "sentence": f"It ended as {verdict}.", "seed": 7, "command": "c", "versions": {}, "began_us": 1,
              "ended_us": 2}
    (folder / "result.json").write_text(json.dumps(judged))
    return str(folder)

def seen(run_dir, **options):
    try:
        done = AftershockVerdictSensor(task_id="t", run_dir=run_dir, **options).poke({})
        return done and done.xcom_value["verdict"]
    except (AirflowFailException, ValueError) as e:
        return f"{type(e).__name__}: {e}"

Path("going-on").mkdir()
print(json.dumps({
    "pass": seen(run("pass")),
    "fail": seen(run("fail")),
    "fail_word": seen(run("fail"), accept="fail"),
    "fail_list": seen(run("fail"), accept=["pass", "fail"]),
    "inconclusive_is_no_pass": seen(run("inconclusive"), accept="pass"),
    "going_on": seen("going-on"),
    "misspelt": seen(run("pass"), accept="passed"),
    "nothing": seen(run("pass"), accept=[]),
    "nothing_pushed": seen("None"),
    "empty": seen(""),
}))
"""


def test_a_sensor_waits_for_a_verdict_and_accepts_what_it_was_asked_for(tmp_path):
    seen = run_program(tmp_path, PROGRAM)

    assert seen["pass"] == "pass"
    assert seen["fail"].startswith("AirflowFailException: fail: It ended as fail.")
    assert seen["fail_word"] == seen["fail_list"] == "fail"
    assert seen["inconclusive_is_no_pass"].startswith("AirflowFailException: inconclusive")
    assert seen["going_on"] is False
    for name in ("misspelt", "nothing"):
        assert "it takes one or more of pass, fail, inconclusive" in seen[name]
    assert seen["nothing_pushed"] == "AirflowFailException: run_dir is empty: its template gave 'None'"
    assert seen["empty"] == "AirflowFailException: run_dir is empty: its template gave ''"
