"""`compare --every`: rounds of a real cluster, a report after each, and the folder in which they go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from chaos.compare.rounds import Rounds
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.chaos.compare.topics import Topics, reading, sent

pytestmark = pytest.mark.kafka
RUN = Run(Path("mirror"))


def argv(topics: Topics, *more: str, every: str = "1s") -> list[str]:
    own = ["compare", topics.bootstrap, topics.bootstrap, "--topics", topics.a, "--rename", topics.b]
    return [sys.executable, "-m", "chaos", *own, "--every", every, "--into", "mirror", *more]


def done(topics: Topics, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv(topics, *more), capture_output=True, text=True, check=False, timeout=300)


@contextmanager
def going(topics: Topics, *more: str, every: str = "1s") -> Iterator[subprocess.Popen[str]]:
    with Path("said").open("w") as said:
        child = subprocess.Popen(
            argv(topics, *more, every=every), stdout=said, stderr=said, text=True, start_new_session=True
        )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()


def said() -> str:
    return Path("said").read_text()


def rounds(count: int) -> None:
    wait_until(lambda: len(Rounds(RUN).numbers) >= count, 120, lambda: f"no round {count}:\n{said()[-2000:]}")


@pytest.mark.landing
def test_rounds_report_what_came_and_end_on_ctrl_c_with_the_verdict_of_all(topics: Topics) -> None:
    topics.produce(topics.a, sent(10))
    topics.produce(topics.b, sent(6))
    with going(topics, every="4s") as child:
        wait_until(lambda: "the next round begins at" in said(), 120, said)
        topics.produce(topics.b, sent(10)[6:])
        rounds(2)
        wait_until(lambda: said().count("the next round begins at") >= 2, 60, said)
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does
        assert child.wait(60) == 0, said()
    assert "so far equal: no difference; 6 records are the same, 4 are behind (1 round" in said()
    assert "so far equal: no difference; 10 records are the same (2 rounds" in said()
    assert "Traceback" not in said()


@pytest.mark.landing
def test_a_folder_goes_on_where_it_ended_and_reads_only_what_is_new(topics: Topics) -> None:
    topics.produce(topics.a, sent(10))
    topics.produce(topics.b, sent(9))
    first = done(topics, "--rounds", "1", "--json")
    assert (first.returncode, json.loads(first.stdout)["topics"][0]["partitions"][1]["found"]) == (0, {"behind": 1})
    topics.produce(topics.a, sent(12)[10:])
    second = done(topics, "--rounds", "1", "--json")
    result = json.loads(second.stdout)
    assert (second.returncode, result["rounds"], result["verdict"]) == (1, 2, "differs"), second.stderr
    last = Rounds(RUN).result(2).topics[0]
    assert (last.records, last.found) == ((2, 0), {"missing": 1, "behind": 2})


@pytest.mark.landing
def test_a_killed_round_is_compared_again(topics: Topics) -> None:
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(2_000))
    with going(topics, "--rate", "1B") as child:
        reading(RUN)
        running = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
        child.kill()
        child.wait()
        assert psutil.wait_procs(running[1:], timeout=60)[1] == []
    again = done(topics, "--rounds", "1")
    assert again.returncode == 0, again.stderr
    assert "so far equal: no difference; 2,000 records are the same (1 round" in again.stdout
    assert not Path("mirror/work").exists()


def test_ctrl_c_twice_leaves_a_round_out(topics: Topics) -> None:
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(2_000))
    with going(topics, "--rate", "1B") as child:
        reading(RUN)
        running = psutil.Process(child.pid).children(recursive=True)
        os.killpg(child.pid, signal.SIGINT)
        wait_until(lambda: "Ctrl-C once more leaves it out" in said(), 30, said)
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(60) == 130, said()
    assert psutil.wait_procs(running, timeout=30)[1] == []
    assert "Traceback" not in said()


@pytest.mark.landing
def test_a_round_without_a_result_is_said_and_made_up_for(topics: Topics) -> None:
    topics.produce(topics.a, sent(8))
    topics.produce(topics.b, sent(8))
    with going(topics) as child:
        rounds(1)
        topics.delete(topics.b)
        wait_until(lambda: "this round has no result" in said(), 60, said)
        assert "B: " in said()
        topics.create_again(topics.b)
        topics.produce(topics.b, sent(7))
        wait_until(lambda: "was deleted and made again; it is compared from its start again" in said(), 60, said)
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(60) in (0, 1), said()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--timestamps",), "compares other clusters, or with other options"),
        ((), "is there already, and holds no comparison with --every"),
    ],
)
def test_a_folder_of_something_else_is_refused(topics: Topics, more: tuple[str, ...], words: str) -> None:
    topics.produce(topics.a, sent(2))
    if more:
        assert done(topics, "--rounds", "1").returncode == 0
    else:
        Path("mirror").mkdir()
        Path("mirror/run.json").write_text("{}")
    refused = done(topics, "--rounds", "1", *more)
    assert refused.returncode == 2
    assert words in " ".join(refused.stderr.split()), refused.stderr
    assert "Traceback" not in refused.stderr


def test_two_processes_do_not_compare_into_one_folder(topics: Topics) -> None:
    topics.produce(topics.a, sent(2))
    with going(topics, every="1h"):
        rounds(1)
        second = done(topics)
    assert second.returncode == 2
    assert "another process compares into" in " ".join(second.stderr.split())


def test_rounds_without_every_are_refused(topics: Topics) -> None:
    words = [word for word in argv(topics, "--rounds", "2") if word not in ("--every", "1s")]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--rounds needs --every" in refused.stderr
