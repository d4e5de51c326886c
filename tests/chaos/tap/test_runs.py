"""What the commands for runs make of the folder of a tap."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from chaos.campaign.subject import load_subject
from chaos.cli import app
from chaos.errors import UsageError
from chaos.kafka.security import Security
from chaos.relay.capture import FOLDER, SEAL
from chaos.run.directory import Run
from chaos.run.events import EventLog, read_events, stages_broken_off
from chaos.run.tap import Sitting, TapRecord
from chaos.scenario.load import parse
from chaos.scenario.resolve import read, save
from chaos.tap import session
from chaos.tap.order import Order
from chaos.tap.session import _resolved

TOPICS = [{"name": "orders", "partitions": 3, "replication_factor": 3}]
APPS = [{"name": "billing", "external": True, "group": "billing", "reads": ["orders"]}]


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path, "tap-1")
    security = Security(protocol="SASL_SSL", mechanism="PLAIN", username="u", password="env:TAP_PASSWORD")
    order = Order("kafka:9092", security, "0.0.0.0", 9092, "tap.internal", "none", options=["--listen", "0.0.0.0:9092"])
    save(made, _resolved(made, order, TOPICS, APPS))
    return made


def test_a_tap_is_a_run_without_clients_of_ours_that_is_judged_on_the_wire(run):
    resolved = read(run)
    assert resolved.scenario.tapped and resolved.scenario.judged_on_wire and resolved.scenario.hides_payloads
    (reader,) = resolved.audited().scenario.readers
    assert (reader.group, reader.topics) == ("billing", ["orders"])
    assert resolved.command() == "python -m chaos tap --listen 0.0.0.0:9092"


def test_nothing_of_a_tap_runs_again_and_changes_the_cluster(run):
    with pytest.raises(UsageError, match="nothing of it can run again"):
        load_subject(str(run.path))


@pytest.mark.parametrize(("going", "left"), [("seal", []), ("load", ["load"])])
def test_a_recording_that_was_whole_before_its_tap_was_killed_is_judged_as_whole(going, left, run, monkeypatch):
    (run.path / FOLDER).mkdir()
    (run.path / FOLDER / "1.wire").touch()
    TapRecord(listen="0.0.0.0", advertise="tap.internal", ports={1: 9092}, sittings=[Sitting(began_us=1)]).save(run)
    events = EventLog(run)
    events.emit("stage", stage="drive", state="begin")
    if going == "seal":
        (run.path / FOLDER / SEAL).write_text("{}")
        with events.stage("load"):
            pass
    events.emit("stage", stage=going, state="begin")
    monkeypatch.setenv("TAP_PASSWORD", "secret")
    monkeypatch.setattr(session, "Kafka", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(session.Tap, "finish", lambda tap: None)
    session.judge_later(run, events)
    assert list(stages_broken_off(read_events(run))) == left


@pytest.mark.parametrize("key", ["topics", "producers"])
def test_a_scenario_that_is_no_tap_has_topics_and_producers(key):
    given = {"topics": "[{name: orders}]", "producers": "[{name: shop, topic: orders, records: 1}]", key: "[]"}
    text = "title: t\n" + "".join(f"{name}: {value}\n" for name, value in given.items())
    with pytest.raises(Exception, match=rf"{key}: give at least one"):
        parse(text, "mine.yaml")


@pytest.mark.parametrize(
    ("size", "limit", "free", "words"),
    [
        (10, 2**30, 2**30, ""),
        (2**30, 2**30, 2**30, "it has 1.0 GiB, its limit is 1.0 GiB"),
        (10, 2**30, 100 * 2**20, "only 100.0 MiB are left at "),
    ],
)
def test_a_recording_ends_at_its_limit_or_before_its_disk_is_full_and_says_which(
    size, limit, free, words, tmp_path, monkeypatch
):
    monkeypatch.setattr(session.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    why = session.full(size, limit, tmp_path)
    assert why.startswith(words) and bool(why) == bool(words)


def test_a_recording_that_is_judged_later_is_in_the_history_with_that_verdict(run, monkeypatch):
    recorded = []
    monkeypatch.setattr("chaos.lab.lab.record", lambda runs, *_: recorded.extend(one.run_id for one in runs))
    monkeypatch.setattr("chaos.tap.session.judge_later", lambda *_: None)
    monkeypatch.setattr("chaos.cli.tap._judged", lambda *_: 0)
    monkeypatch.setattr("chaos.cli.tap.print_result", lambda *_: None)
    result = CliRunner().invoke(app, ["tap", "--judge", str(run.path)])
    assert (result.exit_code, recorded) == (0, [run.run_id])
