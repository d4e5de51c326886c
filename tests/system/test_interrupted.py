"""The platform is interrupted or killed: nothing of the run stays."""

import json
import signal

import pytest

from chaos.processes.process import find_marked
from chaos.run.events import STAGE_TEXTS
from chaos.wait import wait_until
from tests.support.platform import chaos, left_running, start

pytestmark = pytest.mark.kafka


LASTING = """
title: Everything that must not outlast a run, at once
cluster: {brokers: 3}
topics: [{name: orders, partitions: 3, replication_factor: 3}]
producers: [{name: shop, topic: orders, rate: 200/s, records: 40000}]
consumers: [{mode: subscribe, name: billing, group: billing, members: 2, topics: [orders]}]
faults:
  - {name: sleep, kind: consumer.pause, target: {member: billing/1}, when: {acked: 200}, heal: {after: 10m}}
  - {name: full, kind: disk.limit, target: {leader_of: orders/0}, when: {after: slow.injected}, heal: {after: 10m}}
  - {name: apart, kind: broker.isolate, target: {follower_of: orders/0}, when: {acked: 200}, heal: {after: 10m}}
  - {name: slow, kind: wire.slow, target: {broker: 3}, latency: 50ms, when: {acked: 200}, heal: {after: 10m}}
  - {name: stop, kind: broker.pause, target: {broker: 3}, when: {after: slow.injected}, heal: {after: 10m}}
"""


SMALL = """
title: Records from one broker until the platform ends
cluster: {brokers: 1}
topics: [{name: orders, partitions: 2, replication_factor: 1}]
producers: [{name: shop, topic: orders, rate: 200/s, records: 40000}]
consumers: [{mode: subscribe, name: billing, group: billing, members: 2, topics: [orders]}]
faults:
  - {name: sleep, kind: consumer.pause, target: {member: billing/1}, when: {acked: 20}, heal: {after: 10m}}
"""


@pytest.fixture
def small(tmp_path):
    """Return the file of a scenario with one broker, records without end, and a consumer that is stopped."""
    (tmp_path / "small.yaml").write_text(SMALL)
    return tmp_path / "small.yaml"


def under_way(runs_dir, process, happened, words):
    """Wait until a condition holds for the events of the run."""

    def seen():
        assert process.poll() is None, process.stderr.read()[-2000:]
        lines = [line for file in runs_dir.glob("*/events.jsonl") for line in file.read_text().splitlines()]
        return happened([json.loads(line) for line in lines])

    wait_until(seen, 180, words)


def injected(events):
    """Return the number of injected faults."""
    return sum(e["kind"] == "fault" and e["phase"] == "injected" for e in events)


@pytest.mark.landing
def test_ctrl_c_ends_everything(small, tmp_path):
    process = start("run", small, "--runs-dir", tmp_path / "runs")
    under_way(tmp_path / "runs", process, lambda events: injected(events) == 1, "no fault")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err and "KeyboardInterrupt" not in err
    assert err.splitlines()[-1] == "interrupted; everything of the run was ended, and nothing is left running"
    assert left_running(tmp_path) == []


EACH_STAGE = """
title: Every stage of a run
cluster: {brokers: 1}
topics: [{name: orders, partitions: 2, replication_factor: 1}]
producers: [{name: shop, topic: orders, rate: 500/s, records: 2000}]
consumers:
  - name: billing
    mode: subscribe
    group: billing
    topics: [orders]
    per_record: 4ms
    config: {auto.offset.reset: earliest}
faults:
  - {name: back, kind: clock.jump, by: -1h, target: {broker: 1}, when: {acked: 300}, heal: {after: 3s}}
"""
PHASES = ("injected", "healed")


@pytest.mark.nightly(twin="system/test_interrupted.py::test_ctrl_c_ends_everything")
@pytest.mark.parametrize("moment", [*PHASES, *(stage for stage in STAGE_TEXTS if stage not in ("workers", "heal"))])
def test_ctrl_c_at_each_stage_leaves_nothing(tmp_path, moment):
    (tmp_path / "each.yaml").write_text(EACH_STAGE)
    runs = tmp_path / "runs"
    with (tmp_path / "stderr").open("w+") as output:
        process = start("run", tmp_path / "each.yaml", "--runs-dir", runs, stderr=output)

        def reached():
            assert process.poll() is None, (tmp_path / "stderr").read_text()[-2000:]
            events = [json.loads(line) for f in runs.glob("*/events.jsonl") for line in f.read_text().split("\n")[:-1]]
            return any(
                e.get("phase") == moment or (e.get("stage"), e.get("state")) == (moment, "begin") for e in events
            )

        wait_until(reached, 240, f"no {moment}", every_s=0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    err = (tmp_path / "stderr").read_text()
    assert process.returncode == 130 and "Traceback" not in err
    assert err.splitlines()[-1] == "interrupted; everything of the run was ended, and nothing is left running"
    assert left_running(tmp_path) == [] and not list(runs.glob("*/brokers"))


@pytest.mark.landing
def test_sigkill_of_the_platform_leaves_nothing_and_its_run_is_judged_inconclusive_never_green(small, tmp_path):
    process = start("run", small, "--runs-dir", tmp_path / "runs")
    under_way(tmp_path / "runs", process, lambda events: injected(events) == 1, "no fault")
    process.kill()
    process.communicate(timeout=30)
    wait_until(lambda: left_running(tmp_path) == [], 30, lambda: f"left running: {left_running(tmp_path)}")
    (run,) = (tmp_path / "runs").iterdir()
    assert not (run / "brokers").exists()
    ended = chaos("audit", run, "--json")
    assert ended.code == 3
    assert "Traceback" not in ended.err
    assert ended.result["verdict"] == "inconclusive"


@pytest.mark.landing
def test_ps_lists_and_gc_ends_what_faults_left_on_processes_disks_and_links(tmp_path):
    (tmp_path / "lasting.yaml").write_text(LASTING)
    runs = tmp_path / "runs"
    process = start("run", tmp_path / "lasting.yaml", "--runs-dir", runs)
    under_way(runs, process, lambda events: injected(events) == 5, "not all faults are at work")
    reaper = next(m for m in find_marked() if runs in m.run_dir.parents and m.role == "reaper")
    reaper.identity.signal(signal.SIGKILL)
    process.kill()
    process.communicate(timeout=30)
    assert {"proxy", "switch"} < {role.partition(" of ")[0] for role in left_running(runs)}
    (run,) = runs.glob("lasting-*")
    listed = json.loads(chaos("ps", "--json").out)
    assert {"gone"} == {p["owner"] for p in listed if p["run_id"] == run.name}
    assert chaos("gc", "--run", run.name).code == 0
    assert left_running(runs) == []
    assert not [folder for folder in runs.glob("*/brokers") if any(folder.iterdir())]
