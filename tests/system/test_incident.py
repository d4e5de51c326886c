"""An incident, from the run to its replay, with clients of another release than the environment's."""

import json
import re
import shutil
from pathlib import Path

import pytest

from chaos.incident.bundle import open_bundle
from chaos.run.directory import Run
from tests.support.platform import HELD, chaos, left_running

pytestmark = [pytest.mark.kafka, pytest.mark.landing]
OLDER = "2.5.0"


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("incident")


@pytest.fixture(scope="module")
def lost(runs_dir):
    """Return a run that lost records."""
    asked = ["--variant", "acks-1", "--client", OLDER, "--seed", 7, "--json", "--runs-dir", runs_dir]
    ended = chaos("run", "acks1-leader-kill", *asked)
    assert ended.code == 0, ended.err[-3000:]
    return Run.open(Path(ended.result["run_dir"]))


def lost_writes(result):
    return sum(t["count"] for t in result["totals"] if t["check"] == "lost_write" and not t["split"])


def test_the_run_names_the_lost_records_with_their_mechanism(lost):
    result = json.loads(lost.result.read_text())
    unmet = [(e["name"], e["seen"], e["why"]) for e in result["expectations"] if e["verdict"] not in HELD]
    assert (result["verdict"], unmet) == ("pass", []) and all(f["proven_us"] for f in result["faults"])
    found = [f for f in result["findings"] if f["check"] == "lost_write"]
    assert lost_writes(result) >= len(found) > 0
    for finding in found:
        assert finding["producer"] == "shop/1"
        assert finding["seq"] is not None
        assert (finding["topic"], finding["partition"]) == ("orders", 0)
    assert "acks=1" in found[0]["mechanism"]


def test_the_same_loss_fails_a_contract_that_forbids_it(lost, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(lost.path, copy)
    resolved = json.loads((copy / "resolved.json").read_text())
    resolved["scenario"]["expect"]["lost_write"] = {"min": 0, "max": 0}
    (copy / "resolved.json").write_text(json.dumps(resolved))
    ended = chaos("audit", copy, "--json")
    assert (ended.code, ended.result["verdict"]) == (1, "fail")
    assert lost_writes(ended.result) > 0


@pytest.fixture(scope="module")
def bundle(lost, runs_dir):
    """Return the bundle of that run."""
    file = runs_dir / "lost.aftershock.tar.gz"
    packed = chaos("bundle", lost.path, "--out", file)
    assert (packed.code, packed.out.strip()) == (0, str(file)), packed.err
    return file


def test_a_bundle_names_the_client_release_that_ran(bundle):
    manifest = open_bundle(bundle).manifest
    assert manifest.versions["confluent-kafka"] == manifest.versions["librdkafka"] == OLDER
    assert {"kafka", "java", "python"} <= manifest.versions.keys()
    assert manifest.seen.count("lost_write") > 0
    assert manifest.missing == []


def test_a_replay_shows_the_same_with_the_same_releases(bundle, runs_dir):
    ended = chaos("replay", bundle, "--json", "--runs-dir", runs_dir)
    found = json.loads(ended.out)
    assert found["answer"] == "the same", found
    assert ended.code == 0
    (resolved,) = (json.loads(path.read_text()) for path in runs_dir.glob("replay-*/*/resolved.json"))
    assert (resolved["seed"], resolved["versions"]["confluent-kafka"]) == (7, OLDER)
    assert left_running(runs_dir) == []


@pytest.mark.nightly(twin="chaos/incident/logs/test_from_logs.py")
def test_the_scenario_from_its_broker_logs_loses_records_too(lost, runs_dir, tmp_path):
    (tmp_path / "app.properties").write_text("acks=1\n")
    logs = [lost.path / "logs", "--clients", tmp_path / "app.properties"]
    drafted = chaos("incident", "from-logs", *logs, "--out", tmp_path / "s.yaml")
    assert drafted.code == 0, drafted.err
    assert "TODO" in (tmp_path / "s.yaml").read_text()
    ended = chaos("run", tmp_path / "s.yaml", "--json", "--runs-dir", runs_dir)
    assert (ended.code, ended.result["verdict"]) == (0, "pass"), ended.err[-3000:]
    assert sum(total["count"] for total in ended.result["totals"] if total["check"] == "lost_write") > 0
    assert left_running(runs_dir) == []


SLOW = re.compile(r" *[\d.]+ s  \w+: \d+ s so far")
"""The line about what takes longer than usual, which a busy machine prints besides."""


def test_a_damaged_bundle_is_one_line_and_starts_nothing(bundle, tmp_path):
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(bundle.read_bytes()[:-2000])
    for command in (["replay", cut], ["repeat", cut], ["shrink", cut, "--anomaly", "lost_write"]):
        ended = chaos(*command, "--runs-dir", tmp_path / "runs")
        assert ended.code == 2
        (line,) = [line for line in ended.err.strip().splitlines() if not SLOW.match(line)]
        assert "is cut short or damaged" in line
    assert not (tmp_path / "runs").exists()
