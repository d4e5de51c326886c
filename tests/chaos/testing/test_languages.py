"""The fixture of pytest, and tests in other languages, on real brokers."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import chaos
from chaos.install.go import find_go
from chaos.install.programs import build
from tests.support.platform import ROOT, left_running, start

EXAMPLES = Path(chaos.__file__).parent / "examples"
CASES = """
import pytest

@pytest.fixture
def kafka(aftershock):
    with aftershock.cluster(brokers=1) as kafka:
        kafka.send("orders", samples="orders.jsonl", id="$.order_id", records=300)
        yield kafka

@pytest.mark.parametrize("program", ["work_then_commit.py", "commit_then_work.py"])
def test_no_order_is_lost(kafka, program):
    with kafka.app(["python", program], reads="orders", writes="invoices", group="billing") as app:
        for side in ("request", "response"):
            app.kill(1, when={"wire": {"app": "app/1", "api": "OffsetCommit", "side": side, "nth": 3}})
        invoices = {"topic": "invoices", "id": "$.order_id", "settle": "5s"}
        most = {"invoices": {"missing": 0, "duplicate": {"max": 600}}}
        kafka.verdict({"invoices": invoices}, {"effects": most}).assert_passed()
"""


def copied(folder):
    for name in ("orders.jsonl", "work_then_commit.py", "commit_then_work.py"):
        shutil.copy(EXAMPLES / name, folder)


@pytest.mark.nightly(twin="chaos/testing/test_control.py")
@pytest.mark.kafka
def test_the_fixture_runs_what_a_test_says_and_its_failure_has_the_story(tmp_path):
    copied(tmp_path)
    (tmp_path / "test_orders.py").write_text(CASES)
    argv = [sys.executable, "-m", "pytest", "-p", "chaos.pytest_plugin", "-q", "--basetemp", str(tmp_path / "made")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=400, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    shown = "\n".join(line for line in done.stdout.splitlines() if line.startswith("E "))
    assert re.search(r"FAIL: .*\d+ effects? in invoices (is|are) missing", shown), done.stdout
    assert "offsets are committed before the work is done" in shown and "what prevents it" in shown
    assert "[work_then_commit.py]" not in done.stdout.partition("short test summary")[2]
    assert left_running(tmp_path / "made") == []


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    process = start("control", "--socket", folder / "a.sock", "--runs-dir", folder / "runs")
    assert process.stdout.readline().strip() == str(folder / "a.sock")
    yield folder / "a.sock"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert not (folder / "a.sock").exists() and left_running(folder / "runs") == []


def passes(argv, socket):
    env = {**os.environ, "AFTERSHOCK_SOCKET": str(socket)}
    done = subprocess.run(argv, cwd=EXAMPLES, env=env, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly(twin="chaos/testing/test_control.py")
@pytest.mark.kafka
def test_a_go_test_gets_its_verdict(served):
    assert "proven crash" in passes([str(find_go().path), "test", "-v", "-count=1", "orders_test.go"], served)


@pytest.mark.nightly(twin="chaos/testing/test_control.py")
@pytest.mark.kafka
def test_a_junit_test_gets_its_verdict(served):
    built = build(EXAMPLES / "OrdersTest.java", ["org.junit.platform:junit-platform-console-standalone:1.13.4"])
    java, *options, _ = built.command
    launcher = ["org.junit.platform.console.ConsoleLauncher", "execute", "--select-class", "OrdersTest"]
    assert "1 tests successful" in passes([java, *options, *launcher], served)
