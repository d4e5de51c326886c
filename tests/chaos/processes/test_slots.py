"""Slots for clusters: their number, their holders, and concurrency."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.processes.process import RUN_DIR, ProcessId
from chaos.processes.slots import Slots


@pytest.fixture
def file(tmp_path):
    return tmp_path / "places.json"


@pytest.fixture
def run(tmp_path):
    """A process with the mark of a run, and the run directory."""
    env = {**os.environ, RUN_DIR: str(tmp_path / "run")}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE) as process:
        yield process, tmp_path / "run"
        process.kill()


def deploying_process(alive):
    """Return a deploying process, alive or dead, with its identity."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessId.of(process.pid)
    if not alive:
        process.kill()
        process.wait()
    return process, str(identity)


def test_the_number_of_slots_is_limited(file):
    slots = Slots(file, 2)
    assert [slots.take("a"), slots.take("b"), slots.take("c")] == [True, True, False]
    assert slots.take("a")  # a holder keeps its slot: an A/B run or a retry takes it again


@pytest.mark.parametrize("alive", [True, False])
def test_a_dead_deployment_holds_no_slot(file, alive):
    process, identity = deploying_process(alive)
    file.write_text(json.dumps({"a": {"deploys": identity, "run_dir": ""}}))
    assert Slots(file, 1).take("b") is not alive
    process.kill()
    process.wait()


def test_any_live_process_of_a_run_holds_its_slot(file, run):
    process, run_dir = run
    _, identity = deploying_process(alive=False)
    file.write_text(json.dumps({"a": {"deploys": identity, "run_dir": str(run_dir)}}))
    slots = Slots(file, 1)
    assert not slots.take("b")
    process.kill()
    process.wait()
    assert slots.take("b")


def test_a_slot_is_bound_to_a_run_directory(file):
    slots = Slots(file, 1)
    slots.take("a")
    slots.bind("a", Path("/runs/a"))
    assert json.loads(file.read_text())["a"]["run_dir"] == "/runs/a"


def test_a_truncated_file_blocks_no_deployment(file):
    file.write_text('{"a": {"depl')
    assert Slots(file, 1).take("b")


def _take(file, n, taken):
    if Slots(file, 3).take(f"run-{n}"):
        taken.put(n)
    taken.put(None)
    taken.close()
    stay_alive()


def stay_alive():
    """Stay alive, as a deployment does."""
    multiprocessing.Event().wait(60)


def test_concurrent_requests_do_not_exceed_the_limit(file):
    context = multiprocessing.get_context("fork")
    taken = context.Queue()
    processes = [context.Process(target=_take, args=(file, n, taken), daemon=True) for n in range(8)]
    for process in processes:
        process.start()
    answers = []
    while answers.count(None) < 8:
        answers.append(taken.get(timeout=60))
    for process in processes:
        process.kill()
    assert len([n for n in answers if n is not None]) == 3
