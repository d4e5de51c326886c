"""Places for clusters: as many as there are, held for as long as anything of the run lives, and no longer."""

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
    """A process that bears the mark of a run, as a broker does."""
    env = {**os.environ, RUN_DIR: str(tmp_path / "run")}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE) as process:
        yield process, tmp_path / "run"
        process.kill()


def someone(alive):
    """Another process that deploys, or that did and is gone."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessId.of(process.pid)
    if not alive:
        process.kill()
        process.wait()
    return process, str(identity)


def test_there_are_so_many_places_and_no_more(file):
    places = Slots(file, 2)
    assert [places.take("a"), places.take("b"), places.take("c")] == [True, True, False]
    assert places.take("a")  # it has one: the other side of an A/B run, or a second try


@pytest.mark.parametrize("alive", [True, False])
def test_a_deployment_that_died_holds_no_place(file, alive):
    process, identity = someone(alive)
    file.write_text(json.dumps({"a": {"deploys": identity, "run_dir": ""}}))
    assert Slots(file, 1).take("b") is not alive
    process.kill()
    process.wait()


def test_a_place_is_held_by_whatever_lives_of_the_run_and_free_when_nothing_does(file, run):
    process, run_dir = run
    _, identity = someone(alive=False)
    file.write_text(json.dumps({"a": {"deploys": identity, "run_dir": str(run_dir)}}))
    places = Slots(file, 1)
    assert not places.take("b")
    process.kill()
    process.wait()
    assert places.take("b")


def test_it_can_be_bound_to_a_run_directory(file):
    places = Slots(file, 1)
    places.take("a")
    places.bind("a", Path("/runs/a"))
    assert json.loads(file.read_text())["a"]["run_dir"] == "/runs/a"


def test_a_place_that_is_given_back_is_free_though_its_holder_lives_on(file):
    assert Slots(file, 1).take("a") and not Slots(file, 1).take("b")
    Slots(file, 1).leave("a")
    assert Slots(file, 1).take("b")
    Slots(file, 1).leave("never held")


def test_a_file_cut_short_blocks_nobody(file):
    file.write_text('{"a": {"depl')
    assert Slots(file, 1).take("b")


def _take(file, n, taken):
    if Slots(file, 3).take(f"run-{n}"):
        taken.put(n)
    taken.put(None)
    taken.close()
    input_never()


def input_never():
    """Live on, as a deployment does."""
    multiprocessing.Event().wait(60)


def test_many_that_ask_at_once_get_no_more_than_there_are(file):
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
