"""The command `compare`: its exit codes, its refusals in one line each, and its end on Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from chaos.cli import app
from chaos.compare import pairs
from chaos.errors import AftershockError
from chaos.run.directory import Run
from tests.chaos.compare.topics import Sent, Topics, reading, sent

pytestmark = pytest.mark.kafka


def command(topics: Topics, *more: str) -> list[str]:
    return ["compare", topics.bootstrap, topics.bootstrap, "--topics", topics.a, "--rename", topics.b, *more]


def refusal(*argv: str) -> str:
    done = CliRunner().invoke(app, [*argv])
    assert isinstance(done.exception, AftershockError), done.output
    assert done.exception.exit_code == 2
    assert "\n" not in str(done.exception)
    assert not Path("runs").exists()
    return str(done.exception)


@pytest.mark.parametrize(
    ("copy", "code", "verdict"), [(sent(9), 0, "equal"), (sent(8), 1, "differs"), ([], 1, "differs")]
)
def test_the_exit_code_and_the_result_say_the_verdict(
    topics: Topics, copy: list[Sent], code: int, verdict: str
) -> None:
    topics.produce(topics.a, sent(9))
    topics.produce(topics.b, copy)
    argv = [sys.executable, "-m", "chaos", *command(topics, "--into", "mine", "--json")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["verdict"] == verdict
    assert Path("mine/result.json").read_text() == done.stdout.removesuffix("\n")
    assert not Path("mine/work").exists()


def test_the_lines_name_what_is_missing(topics: Topics) -> None:
    topics.produce(topics.a, sent(9))
    topics.produce(topics.b, sent(8))
    done = CliRunner().invoke(app, command(topics))
    assert done.exit_code == 1
    assert "  missing: 1 in A, and not in B; partition 0 (1)\n    A 0@4, key 'k8', written at " in done.stdout
    assert "differs: 1 missing; 8 records are the same" in done.stdout


def test_a_topic_that_disappears_meanwhile_is_inconclusive(topics: Topics) -> None:
    argv = command(topics, "--into", "mine")
    topics.produce(topics.a, sent(9))
    topics.produce(topics.b, sent(9))
    real = pairs.prepared

    def prepared(*args: Any) -> object:
        asked = real(*args)
        topics.admin.delete_topics([topics.b])[topics.b].result(30)
        return asked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "prepared", prepared)
        done = CliRunner().invoke(app, argv)
    assert isinstance(done.exception, AftershockError)
    assert done.exception.exit_code == 3
    assert str(done.exception).startswith("B: ")
    assert not Path("mine/result.json").exists()


def test_ctrl_c_ends_with_130_and_leaves_no_process(topics: Topics) -> None:
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(2_000))
    argv = [sys.executable, "-m", "chaos", *command(topics, "--into", "mine", "--rate", "1B")]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    run = Run(Path("mine").absolute())
    reading(run)
    running = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
    assert len(running) > 1
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert psutil.wait_procs(running, timeout=30)[1] == []
    assert b"Traceback" not in said
    assert not run.result.exists()


def test_a_side_that_does_not_answer_is_named(topics: Topics) -> None:
    said = refusal("compare", topics.bootstrap, "127.0.0.1:1", "--topics", topics.a)
    assert said == "B: nothing listens at 127.0.0.1:1"


def test_a_topic_is_not_compared_with_itself(topics: Topics) -> None:
    said = refusal("compare", topics.bootstrap, topics.bootstrap, "--topics", topics.a)
    assert said.startswith("A and B are one cluster (")
    assert f"{topics.a} would be compared with itself; name another cluster, or the topic in B" in said


def test_a_cluster_is_known_by_its_id_and_not_by_its_address(topics: Topics) -> None:
    other = topics.bootstrap.replace("127.0.0.1", "localhost")
    assert "A and B are one cluster" in refusal("compare", topics.bootstrap, other, "--topics", topics.a)


def test_a_topic_that_a_side_lacks_is_named(topics: Topics) -> None:
    said = refusal("compare", topics.bootstrap, topics.bootstrap, "--topics", "compare-none", "--rename", topics.b)
    assert said.startswith("A: ")
    assert "compare-none" in said
    said = refusal("compare", topics.bootstrap, topics.bootstrap, "--topics", topics.a, "--rename", "{}-none")
    assert said.startswith("B: ")
    assert f"{topics.a}-none" in said


def test_a_pattern_without_a_topic_is_named(topics: Topics) -> None:
    said = refusal("compare", topics.bootstrap, topics.bootstrap, "--topics", "compare-none.*", "--rename", "x-{}")
    assert said == "A: the cluster has no topic like 'compare-none.*'; quote the pattern, as in 'orders.*'"


def test_several_topics_are_not_compared_with_one(topics: Topics) -> None:
    argv = ["--topics", topics.a, "--topics", topics.b, "--rename", "one"]
    said = refusal("compare", topics.bootstrap, topics.bootstrap, *argv)
    assert said == "--rename 'one' gives 2 topics one name; write {} for the name in A"


def test_timestamps_of_the_brokers_clock_are_not_compared(bootstrap: str, topics: Topics, tmp_path: Path) -> None:
    appended = Topics(bootstrap, tmp_path)
    appended.create(config={"message.timestamp.type": "LogAppendTime"})
    said = refusal(*command(appended, "--timestamps"))
    assert said.startswith(f"A: {appended.a} has message.timestamp.type=LogAppendTime")
    assert said.endswith("leave --timestamps out")


def test_compacted_topics_of_other_numbers_of_partitions_are_not_compared(
    bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    compacted = Topics(bootstrap, tmp_path)
    compacted.create((2, 3), {"cleanup.policy": "compact"})
    said = refusal(*command(compacted))
    assert said.startswith(f"{compacted.a} is compacted, and has 2 partitions in A and 3 in B")


def test_a_user_who_may_not_read_is_told_so(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "refusal", lambda *_: "TopicAuthorizationFailedError")
    said = refusal(*command(topics))
    assert said.startswith(
        f"A: {topics.a} cannot be read: TopicAuthorizationFailedError; the user needs the right Read"
    )


def test_a_folder_that_is_there_is_not_overwritten(topics: Topics) -> None:
    Path("mine").mkdir()
    assert "mine is there already" in refusal(*command(topics, "--into", "mine"))


def test_a_rate_that_is_no_size_is_refused(topics: Topics) -> None:
    assert refusal(*command(topics, "--rate", "fast")).startswith("--rate: ")
