"""The platform itself is interrupted or killed: nothing of the run survives it."""

import json
import signal

import pytest

from chaos.cluster.marked import find_marked
from chaos.wait import wait_until
from tests.system.platform import chaos, left_running, start

pytestmark = pytest.mark.kafka


def under_way(runs_dir, process):
    """Wait until records are acknowledged."""

    def acked():
        assert process.poll() is None, process.stderr.read()[-2000:]
        for events in runs_dir.glob("*/events.jsonl"):
            kinds = [json.loads(line) for line in events.read_text().splitlines()]
            if any(e["kind"] == "progress" and e["acked"] > 0 for e in kinds):
                return True
        return False

    wait_until(acked, 120, "no record was ever acknowledged")


def test_ctrl_c_ends_everything(tmp_path):
    process = start("run", "leader-kill", "--runs-dir", tmp_path)
    under_way(tmp_path, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert left_running(tmp_path) == []


def test_sigkill_of_the_platform_leaves_nothing_after_its_reaper_acted(tmp_path):
    process = start("run", "acks1-leader-kill", "--variant", "acks-1", "--runs-dir", tmp_path)
    under_way(tmp_path, process)
    process.kill()
    process.communicate(timeout=30)
    wait_until(lambda: left_running(tmp_path) == [], 30, lambda: f"left running: {left_running(tmp_path)}")
    (run,) = tmp_path.iterdir()
    assert not (run / "brokers").exists()


def test_what_even_the_reaper_could_not_end_is_listed_and_collected(tmp_path):
    process = start("run", "leader-kill", "--runs-dir", tmp_path)
    under_way(tmp_path, process)
    reaper = next(m for m in find_marked() if tmp_path in m.run_dir.parents and m.role == "reaper")
    reaper.identity.signal(signal.SIGKILL)
    process.kill()
    process.communicate(timeout=30)
    (run,) = tmp_path.iterdir()
    listed = json.loads(chaos("ps", "--json").out)
    assert {"gone"} == {p["owner"] for p in listed if p["run_id"] == run.name}
    assert chaos("gc", "--run", run.name).code == 0
    assert left_running(tmp_path) == []


def test_a_run_killed_half_way_is_judged_inconclusive_never_green(tmp_path):
    process = start("run", "leader-kill", "--runs-dir", tmp_path)
    under_way(tmp_path, process)
    process.kill()
    process.communicate(timeout=30)
    wait_until(lambda: left_running(tmp_path) == [], 30, lambda: f"left running: {left_running(tmp_path)}")
    (run,) = tmp_path.iterdir()
    ended = chaos("audit", run, "--json")
    assert ended.code == 3
    assert "Traceback" not in ended.err
    assert ended.result["verdict"] == "inconclusive"
