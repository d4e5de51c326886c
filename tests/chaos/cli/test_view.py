"""The views of the command line: each stage has its own time, and there is no silence."""

from __future__ import annotations

import io
import json
import re
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from chaos.cli import airflow, app
from chaos.cli.options import parsed
from chaos.cli.output import RunsView, View, print_timings
from chaos.errors import ClusterError, HistoryError, UsageError
from chaos.run.directory import Run
from chaos.run.events import EventLog, now_us
from chaos.units import parse_duration
from chaos.wait import wait_until


@pytest.fixture
def plain(monkeypatch):
    """Return a function that makes a view without a terminal, with a short patience, and its output."""
    monkeypatch.setattr("chaos.cli.output.PLAIN_EVERY_S", 0.01)
    monkeypatch.setattr("chaos.cli.output.SILENT_S", 0.01)
    monkeypatch.setattr("chaos.cli.output.LOOK_S", 0.005)

    def make(kind=View):
        view, text = kind(), io.StringIO()
        view.console = Console(file=text, width=200)
        return view, text

    return make


def ended(name, seconds):
    return {"kind": "stage", "stage": name, "state": "end", "seconds": seconds, "at_us": now_us()}


def begun(name):
    return {"kind": "stage", "stage": name, "state": "begin", "at_us": now_us()}


def test_no_stage_has_the_time_of_another_one(plain):
    view, text = plain()
    for event in (
        *(begun(name) for name in ("deploy", "install")),
        *(ended("install", 60.0), ended("deploy", 75.0)),
        *(begun(name) for name in ("drive", "clients", "judge")),
        *(ended("judge", 128.5), ended("clients", 134.5)),
        *(begun("audit"), begun("judge"), ended("judge", 9.0), ended("audit", 11.0)),
    ):
        view(event)
    lines = dict(re.findall(r"s  (.*): ([\d.]+) s", text.getvalue()))
    assert lines == {
        "installing Kafka and the client libraries": "60.0",
        "starting the brokers": "15.0",
        "waiting for Spark": "9.0",
        "starting the clients": "6.0",
        "auditing every record": "2.0",
    }
    assert "waiting for Spark: 128.5 s" in text.getvalue()


def test_the_timings_have_each_stage_once_and_the_whole_command(tmp_path, capsys):
    run = Run.create(tmp_path, "run-1")
    events = [
        *(begun("deploy"), begun("install"), ended("install", 60.0), ended("deploy", 75.0)),
        *(
            begun("drive"),
            begun("load"),
            ended("load", 4.25),
            ended("drive", 5.0),
            begun("audit"),
            ended("audit", 11.0),
        ),
    ]
    run.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    print_timings(run)
    lines = capsys.readouterr().err.splitlines()
    seconds = {line.rsplit(None, 1)[0].strip(): float(line.rsplit(None, 1)[1]) for line in lines[1:]}
    assert seconds.pop("all, from the command on") > 0
    assert seconds == {
        "starting the brokers": 15.0,
        "installing Kafka and the client libraries": 60.0,
        "producing, consuming, breaking": 4.2,
        "auditing every record": 11.0,
    }


def says(text, step: str) -> bool:
    """Return whether a line says for how long a step has gone on: on a slow machine, the first one says 1 s."""
    return re.search(rf"{step}: \d+ s so far", text.getvalue()) is not None


def test_a_silence_says_which_stage_goes_on_and_a_step_of_it(plain, tmp_path):
    view, text = plain()
    run = Run.create(tmp_path, "run-1")
    with view:
        events = EventLog(run, view)
        with events.stage("deploy"):
            wait_until(lambda: says(text, "starting the brokers"), 10, text.getvalue)
            events.note("starting 3 brokers")
            wait_until(lambda: says(text, "starting 3 brokers"), 10, text.getvalue)
        with events.stage("settle"):
            events.note("effect db cannot be read", aside=True)
            wait_until(lambda: says(text, "effects change no more"), 10, text.getvalue)
        with events.stage("clients"), events.stage("judge"):
            wait_until(lambda: says(text, "waiting for Spark"), 10, text.getvalue)
        view.doing("adding the run to the history")
        wait_until(lambda: says(text, "adding the run to the history"), 10, text.getvalue)
    assert not says(text, "starting the clients"), "Spark's time under another name"


def test_the_first_silence_counts_from_the_start_of_the_command(plain, monkeypatch):
    monkeypatch.setattr("chaos.cli.output.SILENT_S", 60)
    monkeypatch.setattr("chaos.cli.output.PLAIN_EVERY_S", 60)
    for started, first in ((time.monotonic() - 100, True), (time.monotonic() - 100, False), (time.monotonic(), True)):
        monkeypatch.setattr("chaos.cli.output.STARTED", started)
        monkeypatch.setattr(View, "_opened", not first)
        view, text = plain()
        view.doing("loading")  # before the view looks for the first time what goes on
        with view:
            if first and started < time.monotonic() - 60:
                wait_until(lambda text=text: says(text, "loading"), 10, text.getvalue)
        assert View._opened and (text.getvalue() != "") == (first and started < time.monotonic() - 60)


def test_progress_names_what_a_drain_waits_for(plain, monkeypatch):
    said = []
    monkeypatch.setattr(View, "_show_progress_text", lambda _, text: said.append(text))
    view, _ = plain()
    event = {"kind": "progress", "acked": 2003, "acked_per_s": 0, "delivered": {}, "delivered_per_s": 0}
    view(event)
    view(event | {"waits": "router (group router) has done 96 of 512 in orders/0 and 1 more"})
    assert said == [
        "acked 2,003 (0/s)",
        "acked 2,003 (0/s) · router (group router) has done 96 of 512 in orders/0 and 1 more",
    ]


def test_history_says_what_it_does_while_it_reads(tmp_path, monkeypatch):
    monkeypatch.setattr("chaos.cli.output.SILENT_S", 0.01)
    said = []
    monkeypatch.setattr(View, "_show_progress_text", lambda _, text: said.append(text))

    def slow(*_):
        wait_until(lambda: "reading the history" in "".join(said), 10, "silent")
        raise HistoryError("there is no history")

    monkeypatch.setattr("chaos.cli.history._read", slow)
    result = CliRunner().invoke(app, ["history", "--runs-dir", str(tmp_path)])
    assert isinstance(result.exception, HistoryError)


def test_a_view_of_many_runs_names_what_each_one_does(plain):
    view, text = plain(RunsView)
    with view:
        view.doing("starting Spark")
        wait_until(lambda: "starting Spark: 0 s so far" in text.getvalue(), 10, text.getvalue)
        for name, stage in (("a", "clients"), ("b", "load")):
            view.run_started(name)
            view.run_event(name, begun(stage))
        both = "a starting the clients, b producing, consuming, breaking: 0 s so far"
        wait_until(lambda: both in text.getvalue(), 10, text.getvalue)
        view.run_driven("a")
        wait_until(lambda: "  b producing, consuming, breaking: 0 s" in text.getvalue(), 10, text.getvalue)


class Starting:
    """An Airflow that starts."""

    returncode = 1

    def __init__(self, ends=False):
        self._ends = ends

    def poll(self):
        return self.returncode if self._ends else None


@pytest.fixture
def parts(monkeypatch):
    """The parts that are not ready, look after look."""
    looks = []
    monkeypatch.setattr(airflow, "_unhealthy", lambda port: looks.pop(0) if looks else [])
    monkeypatch.setattr(airflow, "POLL_S", 0.0)
    return looks


def test_a_start_without_a_limit_goes_on_and_says_what_is_missing_and_where_the_log_is(
    plain, parts, tmp_path, monkeypatch
):
    view, text = plain()
    monkeypatch.setattr(airflow, "LOOK_S", 1e-9)
    parts += [["the web page"], ["the scheduler", "the DAG processor"]]
    airflow._wait_ready(Starting(), 1, tmp_path / "standalone.log", view, None)
    assert "the scheduler, the DAG processor" in text.getvalue() and "standalone.log" in text.getvalue()
    assert "it goes on" in text.getvalue()


def test_the_end_of_a_limit_ends_no_start_that_the_user_wants_to_wait_for(plain, parts, tmp_path, monkeypatch):
    view, _ = plain()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked = []
    monkeypatch.setattr("typer.confirm", lambda text, **_: asked.append(text) or len(asked) < 3)
    parts += [["the web page"]] * 2
    airflow._wait_ready(Starting(), 1, tmp_path / "log", view, 1e-9)
    assert len(asked) == 2 and "the web page" in asked[0] and str(tmp_path / "log") in asked[0]
    parts += [["the web page"]]
    with pytest.raises(ClusterError, match=r"still starting after .*the web page; Airflow's log is .*--start-limit"):
        airflow._wait_ready(Starting(), 1, tmp_path / "log", view, 1e-9)


def test_without_a_terminal_a_limit_ends_the_start(plain, parts, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    parts += [["the database"]]
    with pytest.raises(ClusterError, match="the database"):
        airflow._wait_ready(Starting(), 1, tmp_path / "log", plain()[0], 1e-9)


def test_an_airflow_that_ended_is_not_waited_for(plain, parts, tmp_path):
    parts += [["the database"]] * 9
    with pytest.raises(ClusterError, match="exit code 1"):
        airflow._wait_ready(Starting(ends=True), 1, tmp_path / "log", plain()[0], None)


def test_a_limit_is_a_duration():
    assert parsed("--start-limit", "10m", parse_duration) == 600
    assert parsed("--start-limit", None, parse_duration) is None
    with pytest.raises(UsageError, match="--start-limit"):
        parsed("--start-limit", "soon", parse_duration)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", ""),
        ("INFO - Task: done\nan Error: in a text\n", ""),
        ("KeyError: 1\nairflow.sdk.exceptions.ParamValidationError: Invalid run_id: 'a b'\n\nAttributeError: 'D'\n",
         ": Invalid run_id: 'a b'"),
    ],
)  # fmt: skip
def test_the_error_in_the_log_of_a_dag_without_a_result_is_said(tmp_path, log, said):
    (tmp_path / "log").write_text(log)
    assert airflow._last_error(tmp_path / "log") == said
