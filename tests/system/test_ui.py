"""The command `ui`: the scheduler runs a scenario by its schedule, and the notifiers get its verdict."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from urllib.parse import quote

import pytest

from chaos.history.store import Store, default_url
from chaos.wait import wait_until
from tests.support.airflow_api import ask
from tests.support.browser import Browser, find
from tests.support.platform import ROOT, left_running, start

pytestmark = [pytest.mark.landing, pytest.mark.airflow, pytest.mark.kafka, pytest.mark.timeout(900)]

NO_EFFECT = """
title: a consumer that is slowed down by nothing
schedule: "@daily"
cluster: {brokers: 1}
topics: [{name: orders, partitions: 2, replication_factor: 1}]
producers: [{name: shop, topic: orders, rate: 1000/s, records: 3000, outlast_faults: true}]
consumers:
  - {mode: subscribe, name: billing, group: billing, members: 1, topics: [orders],
     config: {auto.offset.reset: earliest}}
faults:
  - {name: slow, kind: consumer.slow, target: {member: billing/1}, when: {acked: 500}, per_record: 1us,
     heal: {after: 1s}}
limits: {proof: 2s}
"""


@pytest.fixture
def ui(tmp_path):
    """Yield the running command with an empty home and a folder of scenarios, and end it with Ctrl-C."""
    (tmp_path / "nightly").mkdir()
    (tmp_path / "nightly" / "no-effect.yaml").write_text(NO_EFFECT)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    argv = ["ui", "--port", str(port), "--scenarios", str(tmp_path / "nightly"), "--runs-dir", str(tmp_path / "runs")]
    # a schedule of intervals is due for the last one at once, and then not before the next day
    intervals = {"AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS": "True"}
    env = {**os.environ, **intervals, "AIRFLOW_HOME": str(tmp_path / "airflow")}
    with (tmp_path / "said").open("wb") as sink:
        process = start(*argv, env=env, stderr=sink)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(120)


def rows(home, question):
    with sqlite3.connect(f"file:{home / 'airflow.db'}?mode=ro", uri=True) as db:
        return db.execute(question).fetchall()


class Api:
    """The REST API of a running `ui`."""

    def __init__(self, said, home):
        self.base = re.search(r"http://127\.0\.0\.1:\d+", said).group()
        passwords = json.loads((home / "simple_auth_manager_passwords.json.generated").read_text())
        (user, password), *_ = passwords.items()
        self.token = ""
        self.token = self("/auth/token", {"username": user, "password": password})["access_token"]

    def __call__(self, path, body=None):
        return ask(self.base + path, body, self.token)

    def refusal(self, dag, **conf):
        """Return the message with which the API refuses a run."""
        with pytest.raises(urllib.error.HTTPError) as e:
            self(f"/api/v2/dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})
        assert e.value.code == 400
        return str(json.loads(e.value.read())["detail"])


def check_forms_and_links(api, entry):
    """Check the list of DAGs, the form of one, and the links of the tasks of the run of an entry of the history."""
    dag = api("/api/v2/dags/resilience.no-effect/details")
    assert dag["dag_display_name"] == "no-effect: a consumer that is slowed down by nothing"
    assert {"consumer.slow", "own scenario", "scheduled"} <= {tag["name"] for tag in dag["tags"]}
    assert dag["params"]["kafka"]["schema"]["title"] == "Kafka release" and "`consumer.slow`" in dag["doc_md"]
    bad = {"kafka": "latest", "driver": "vm", "overrides": ["x"], "seed": -1, "run_id": "..", "bootstrap": "kafka"}
    for name, value in bad.items():
        named = value[0] if isinstance(value, list) else value  # the form names the bad item of a list
        assert str(named) in api.refusal("resilience.no-effect", **{name: value})
    (run, *_) = api("/api/v2/dags/resilience.no-effect/dagRuns?order_by=start_date")["dag_runs"]
    where = f"/api/v2/dags/resilience.no-effect/dagRuns/{urllib.parse.quote(run['dag_run_id'])}/taskInstances"
    report = f"{api.base}/aftershock/runs/{entry.run_id}/report.html"
    for task, section in {"deploy": "settings", "drive": "faults", "audit": "anomalies", "report": "verdict"}.items():
        assert api(f"{where}/{task}/links")["extra_links"] == {"Report": f"{report}#{section}"}


@pytest.mark.nightly(twin="system/test_airflow.py::test_the_demo_runs_through_airflow_and_proves_all_three_faults")
def test_a_scheduled_run_is_recorded_published_and_notified_and_ctrl_c_ends_everything(ui, tmp_path):
    notifications = tmp_path / "runs" / "notifications.jsonl"

    def notified():
        assert ui.poll() is None, (tmp_path / "said").read_text()
        return notifications.exists()

    wait_until(notified, 600, lambda: (tmp_path / "said").read_text(), every_s=1)
    line = json.loads(notifications.read_text().splitlines()[0])
    assert (line["verdict"], line["scenario"]) == ("inconclusive", "no-effect") and "no effect" in line["sentence"]
    assert line["dag_run"].startswith("scheduled__")
    first = Store(default_url(tmp_path / "runs")).entries("no-effect")[0]
    assert first.verdict == "inconclusive" and first.run_dir == line["run_dir"]
    home = tmp_path / "airflow"
    events = rows(home, "SELECT a.name, e.extra FROM asset_event e JOIN asset a ON a.id = e.asset_id")
    assert {name for name, _ in events} == {"aftershock/no-effect/verdict"}  # no event of a pass
    assert json.loads(events[0][1])["verdict"] == "inconclusive"
    check_forms_and_links(Api((tmp_path / "said").read_text(), home), first)
    assert rows(home, "SELECT slots FROM slot_pool WHERE pool = 'aftershock_clusters'") == [(1,)]
    said = (tmp_path / "said").read_text()
    assert_pages(*re.findall(r"(http://127[\d.:]+)  user (\S+), password (\S+)", said)[0], line)
    ui.send_signal(signal.SIGINT)
    assert ui.wait(120) == 130
    assert left_running(tmp_path / "runs") == []
    assert "http://127.0.0.1:" in (tmp_path / "said").read_text() and "password" in (tmp_path / "said").read_text()


def assert_form_can_be_sent(browser, page, ready):
    """Assert that the form to trigger a DAG can be sent as it opens, unless a value has to be given (`ready`)."""
    button = "[...document.querySelectorAll('{} button')].find(b => b.innerText.trim() === 'Trigger')"
    browser.open(page)
    wait_until(lambda: browser.run(f"!!{button.format('')}"), 60, f"{page} has no button Trigger")
    browser.run(f"{button.format('')}.click()")
    send = button.format("[role=dialog]")
    wait_until(lambda: browser.run(f"!!{send}"), 60, f"{page} has no form")
    state = f"{send}.disabled === {'false' if ready else 'true'}"
    wait_until(lambda: browser.run(state), 20, lambda: browser.run("document.querySelector('[role=dialog]').innerText"))


def assert_pages(address, user, password, line):
    """Assert that the pages need a login, and that a nav entry, a DAG run and a task show the run."""
    for page in ("/aftershock/", "/aftershock/runs/x/report.html", "/aftershock/none", "/aftershock/of/a/b/"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address + page, timeout=60)
    if find() is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    dag_run = f"/dags/resilience.no-effect/runs/{quote(line['dag_run'], safe='')}"
    with Browser() as browser:
        browser.open(address + "/auth/login/")
        wait_until(lambda: browser.run("!!document.querySelector('[name=password]')"), 60, "no login form")
        for name, value in (("username", user), ("password", password)):
            browser.run(f"document.querySelector('[name={name}]').focus()")
            browser.call("Input.insertText", {"text": value})
        browser.run("document.querySelector('button[type=submit]').click()")
        wait_until(lambda: "/auth/login" not in browser.run("location.href"), 60, "the login did not end")
        for dag, ready in (("resilience.no-effect", True), ("prove", True), ("incident_reproduction", False)):
            assert_form_can_be_sent(browser, f"{address}/dags/{dag}", ready)
        browser.open(address + "/dags")
        shown(browser, "document", "Aftershock")  # the nav entry
        browser.run("[...document.querySelectorAll('a')].find(a => a.innerText.trim() === 'Aftershock').click()")
        shown(browser, FRAME, "no-effect")
        browser.open(address + dag_run)
        shown(browser, "document", "Aftershock")
        for tab in ("/plugin/aftershock-run", "/tasks/drive/plugin/aftershock-task"):
            browser.open(address + dag_run + tab)
            shown(browser, FRAME, "Run again")  # the report
            assert line["sentence"][:40] in browser.run(f"{FRAME}.body.innerText")
        link = f"{FRAME}.querySelector('[download]').href"
        size = browser.run(f"fetch({link}).then(r => r.blob()).then(b => b.size)")
        assert size > 1000  # the bundle


FRAME = "document.querySelector('iframe').contentDocument"


def shown(browser, document, text):
    """Wait until a document shows a text."""
    seen = f"(() => {{ try {{ return {document}.body.innerText }} catch {{ return '' }} }})()"
    wait_until(lambda: text in browser.run(seen), 90, lambda: f"{text!r} is not in {browser.run(seen)[:500]!r}")


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        argv = [sys.executable, "-m", "chaos", "ui", "--port", str(s.getsockname()[1]), "--runs-dir", str(tmp_path)]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "is taken; choose another with --port" in " ".join(done.stderr.split())
