"""`break` without a cluster: what its words mean, what is possible, and how long partitions had no leader."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos.cli import breaking
from chaos.cluster.settings import Verbs
from chaos.drive import single_fault
from chaos.drive.single_fault import KINDS, LeaderWatch, possible
from chaos.errors import ScenarioError, UsageError
from chaos.faults import SPECS
from chaos.kafka.partition import TopicPartition

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_each_example_is_a_valid_fault(kind):
    fault = breaking._fault(kind, KINDS[kind].split())
    assert SPECS[kind].model_validate(fault).kind == kind


def test_a_target_alone_kills_and_a_run_directory_is_the_cluster(tmp_path):
    (tmp_path / "up-1").mkdir()
    (tmp_path / "up-1" / "cluster.json").write_text("{}")
    assert breaking._sorted(["leader_of=orders/0"], tmp_path) == (None, "broker.kill", ["leader_of=orders/0"])
    found = breaking._sorted(["up-1", "broker.pause", "broker=2"], tmp_path)
    assert found == (tmp_path / "up-1", "broker.pause", ["broker=2"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["broker.kil", "broker=2"], "did you mean broker.kill"),
        ([], "needs a target, such as leader_of=orders/0"),
        (["leader_of=orders"], "is not a partition; write topic/number"),
        (["leader_of=orders/0", "broker=1"], "give exactly one of"),
        (["broker.pause", "topic=orders"], "target topic does not fit this fault"),
        (["broker=x"], "target.broker: 'x' is not a whole number"),
        (["broker=1", "colour=red"], "broker.kill has no parameter colour; it takes none but the target"),
        (["broker.throttle", "broker=1", "cpu=1"], "no parameter cpu (did you mean cpus?)"),
        (["member=a/1"], "member is a target in a run"),
        (["wire.cut", "broker=1"], "wire.cut needs the connections of the clients of a run"),
    ],
)
def test_a_mistake_is_one_line(words, message, tmp_path):
    with pytest.raises((UsageError, ScenarioError)) as error:
        _, kind, values = breaking._sorted(words, tmp_path)
        breaking._fault(kind, values)
    assert message in str(error.value) and str(error.value).count("\n") <= 1


def test_without_commands_only_administrators_faults_are_possible_and_the_refusal_names_the_commands():
    assert {kind.partition(".")[0] for kind in possible(None, Verbs())} == {
        *("broker", "election", "group", "partition", "topic")
    }
    assert "broker.kill" in possible(None, Verbs(kill="k {broker}", start="s"))
    assert "broker.pause" not in possible(None, Verbs(kill="k", start="s", pause="p"))
    process = SimpleNamespace(driver="process", switch=None, clocks=False, disks=True)
    assert "broker.kill" in possible(process, Verbs()) and "broker.isolate" not in possible(process, Verbs())
    assert {"disk.slow", "topic.delete", "group.reset_offsets"} <= {*possible(process, Verbs())}
    assert "clock.jump" not in possible(process, Verbs())
    order, _ = breaking._order(None, "h:1", None, [], owned=False)
    order.fault = breaking._fault("broker.kill", ["broker=1"])
    with pytest.raises(UsageError, match=r"commands to kill and start, by --verb kill=.*see `break --list`"):
        breaking._check_possible(order, None)


def test_a_file_and_options_describe_a_cluster_that_exists(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("cluster: {bootstrap: 'a:1', security: {protocol: SSL}, verbs: {kill: 'k {broker}'}}\n")
    order, saved = breaking._order(None, "b:2", file, ["start=s {host}"], owned=True)
    assert saved is None and (order.bootstrap, order.security.protocol, order.final) == ("b:2", "SSL", True)
    assert order.verbs.commands() == {"kill": "k {broker}", "start": "s {host}"}
    for verb, message in (
        ("stat=x", r"verbs.stat: unknown key \(did you mean start\?\); the keys here are kill"),
        ("kill=x {node}", r"\{node\} is no placeholder"),
    ):
        with pytest.raises(ScenarioError, match=message):
            breaking._order(None, "b:2", None, [verb], owned=False)
    with pytest.raises(UsageError, match="name two clusters"):
        breaking._order(tmp_path, "b:2", None, [], owned=False)


def test_the_time_without_a_leader_is_that_between_two_answers():
    watch = LeaderWatch(lambda: None, [A, B])
    for at, answered in ((0.0, [A, B]), (1.0, [B]), (2.0, [B]), (3.0, [A, B]), (4.0, [A]), (4.5, [A])):
        watch.note(at, answered)
    assert watch.describe() == [
        "orders/0: no leader answered for 3.0 s",
        "orders/1: no leader answered for 1.5 s, and none does now",
    ]
    watch = LeaderWatch(lambda: None, [A])
    watch.note(0.0, [A])
    assert watch.describe() == ["each partition had a leader that answered all the time"]


def test_a_command_that_was_refused_is_the_reason_and_not_the_missing_proof(tmp_path):
    words = "injection of break failed: the kill of broker 1 command ended with exit code 255: Permission denied"
    broken = SimpleNamespace(
        fault=SimpleNamespace(lasting=False, begun=True, resolved="broker 1"),
        phases={"failed": 1.0, "healed": 2.0},
        errors=[words],
        busy=False,
        inject=lambda: None,
        heal=lambda: None,
        finish=lambda _: None,
    )
    leaders = SimpleNamespace(missing=[], describe=lambda: [])
    order, events = SimpleNamespace(for_s=1.0), SimpleNamespace(note=lambda _: None)

    def ended():
        return single_fault._run(broken, leaders, order, events, lambda: False, lambda: [])

    assert ended() == (3, f"{words}; broker 1: healed")
    broken.errors = []
    assert ended()[1].startswith("no proof: nothing changed")
