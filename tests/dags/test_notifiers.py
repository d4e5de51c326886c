"""The documented notifiers, a mail and a webhook, with local servers: failed, inconclusive and newly worse runs."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from chaos.history.recording import new_regressions
from chaos.history.store import Store, default_url
from chaos.run.directory import Run
from chaos.run.result import Judged
from tests.chaos.history.metrics.entries import ENTRY, later
from tests.support.platform import ROOT
from tests.support.receivers import hook_server, mail_server

TOKEN, PASSWORD = "T0/B0/xoxp-secret", "hunter2-secret"
NOTIFY = """
import json, sys
from types import SimpleNamespace
from airflow.sdk import Connection
from dags.provider.outcome import Notifier, Variable
given = json.loads(sys.argv[1])
for name in given["known"]:
    Connection.get(name)
Variable.get = staticmethod(lambda name, default=None: given["variable"])
ti = SimpleNamespace(task_id="verdict", xcom_pull=lambda task_ids, key=None: given["run_dir"])
run = SimpleNamespace(run_id="scheduled__1", conf={"runs_dir": given["runs"]})
notifier = Notifier("leader-kill", "deploy", given["runs"])
getattr(notifier, given["call"])({"ti": ti, "run_id": "scheduled__1", "dag_run": run})
"""
README = (ROOT / "dags" / "README.md").read_text()


def documented():
    """Return the list of notifiers in the README: the example that a reader copies."""
    (example,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    return example


class Runs:
    """A folder of runs with a history, and the servers that the example in the README names."""

    def __init__(self, folder, smtp, hook):
        self.folder = folder
        smtp_uri = {"conn_type": "smtp", "host": "127.0.0.1", "port": smtp, "password": PASSWORD}
        smtp_uri["extra"] = {"disable_ssl": True, "disable_tls": True}
        hook_uri = {"conn_type": "http", "host": "http://127.0.0.1", "port": hook, "password": TOKEN}
        self.env = {
            **os.environ,
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(smtp_uri),
            "AIRFLOW_CONN_AFTERSHOCK_WEBHOOK": json.dumps(hook_uri),
            "AIRFLOW__API__BASE_URL": "https://airflow.example.org",
            "PYTHONPATH": str(ROOT),
        }

    def judged(self, verdict, sentence="Nothing more."):
        """Make a run directory with a result."""
        run = Run.create(self.folder, ENTRY.run_id)
        result = {"run_id": run.run_id, "run_dir": str(run.path), "scenario": "leader-kill", "title": "T", "seed": 7}
        run.result.write_text(Judged(**result, verdict=verdict, sentence=sentence, command="c").model_dump_json())
        return run

    def notify(self, run, call="notify", known=()):
        given = {"variable": documented(), "run_dir": str(run.path), "runs": str(self.folder), "call": call}
        argv = [sys.executable, "-c", NOTIFY, json.dumps({**given, "known": known})]
        done = subprocess.run(argv, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        file = self.folder / "notifications.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def mails():
    with mail_server() as server:
        yield server


@pytest.mark.airflow
@pytest.mark.parametrize("verdict", ["fail", "inconclusive"])
def test_a_mail_and_a_webhook_say_what_happened(tmp_path, mails, verdict):
    with hook_server() as (hook, posted):
        runs = Runs(tmp_path, mails[0], hook)
        (line,) = runs.notify(runs.judged(verdict, 'lost_write 3 in "<b>&orders".'))
    (mail,), ((path, body),) = mails[1], posted
    assert mail["Subject"] == f"{verdict}: leader-kill" and mail["To"] == "oncall@example.org"
    text = mail.get_body(("html",)).get_content()
    assert f"{verdict}: leader-kill. lost_write 3 in &quot;&lt;b&gt;&amp;orders&quot;." in text
    assert path == f"/{TOKEN}" and set(body) == {"text"}
    link = f"https://airflow.example.org/aftershock/runs/{ENTRY.run_id}/report.html"
    assert body["text"].startswith(f'{verdict}: leader-kill. lost_write 3 in "&lt;b&gt;&amp;orders".')
    assert body["text"].endswith(f"<{link}|report>") and link in text
    assert line["verdict"] == verdict and "failed_notifiers" not in line


@pytest.mark.airflow
def test_a_pass_that_got_worse_is_notified_once_and_another_pass_is_not(tmp_path, mails):
    slow = (ENTRY.times[0]._replace(value_us=60_000_000),)
    store = Store(default_url(tmp_path))
    for n in range(1, 11):
        store.add(later(ENTRY, n, run_id=f"r-{n}"))
    store.add(later(ENTRY, 60, run_id="r-60", times=slow))
    with hook_server() as (hook, posted):
        runs = Runs(tmp_path, mails[0], hook)
        run = runs.judged("pass", "It kept its contract.")
        assert runs.notify(run, "notify_regressions") == []
        store.add(later(ENTRY, 70, times=slow))
        (line,) = runs.notify(run, "notify_regressions")
    assert line["headline"] == "pass: leader-kill became worse"
    assert (
        "produce unavailability max of orders after kill" in line["regressions"]
        and line["regressions"] in posted[0][1]["text"]
    )
    assert mails[1][0]["Subject"] == line["headline"]


@pytest.mark.airflow
def test_no_secret_is_in_a_message_or_in_the_log_of_notifications(tmp_path, mails):
    with hook_server(404) as (hook, _):
        runs = Runs(tmp_path, 1, hook)  # nothing listens there
        sentence = f"It broke off in deploy: SASL of kafka with {PASSWORD} failed."
        (line,) = runs.notify(runs.judged("inconclusive", sentence), known=["smtp_default"])
    text = json.dumps(line)
    assert TOKEN not in text and PASSWORD not in text and "SASL of kafka with *** failed" in line["message"]
    assert len(line["failed_notifiers"]) == 2
    assert "the webhook of the connection aftershock_webhook answered 404" in text


def trend_of(tmp_path, verdicts, slow=()):
    """Return what became worse with the last of some runs."""
    store = Store(default_url(tmp_path))
    times = (ENTRY.times[0]._replace(value_us=60_000_000),)
    for n, verdict in enumerate(verdicts):
        made = later(ENTRY, n + 1, run_id=f"r-{n}", verdict=verdict)
        store.add(replace(made, times=times) if n in slow else made)
    return new_regressions([Run(tmp_path / f"r-{len(verdicts) - 1}")], tmp_path)


@pytest.mark.parametrize(
    ("verdicts", "slow", "regressions"),
    [
        (["pass"] * 5 + ["fail"], (), ["verdict"]),
        (["pass"] * 5 + ["fail", "fail"], (), []),  # not new
        (["pass"] * 2 + ["fail"], (), []),  # too few before it
        (["pass"] * 11, (10,), []),  # one slow run is none
        (["pass"] * 12, (10, 11), ["produce unavailability"]),
        (["pass"] * 13, (10, 11, 12), []),
        (["pass"] * 13, (9, 11, 12), ["produce unavailability"]),
    ],
)
def test_worse_is_said_of_the_run_with_which_it_began(tmp_path, monkeypatch, verdicts, slow, regressions):
    monkeypatch.delenv("AFTERSHOCK_HISTORY", raising=False)
    found = trend_of(tmp_path, verdicts, slow)
    assert len(found) == len(regressions) and all(
        f"leader-kill: {w}" in text for text, w in zip(found, regressions, strict=True)
    )


def test_nothing_is_worse_without_a_history_or_with_another_last_run(tmp_path, monkeypatch):
    monkeypatch.delenv("AFTERSHOCK_HISTORY", raising=False)
    assert new_regressions([Run(tmp_path / "r-1")], tmp_path) == []
    trend_of(tmp_path, ["pass"] * 5 + ["fail"])
    assert new_regressions([Run(tmp_path / "r-4")], tmp_path) == []
    monkeypatch.setenv("AFTERSHOCK_HISTORY", "off")
    assert new_regressions([Run(tmp_path / "r-5")], tmp_path) == []
