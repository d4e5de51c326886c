"""Faults of applications, on real processes: what is broken, proven and healed."""

import random
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from chaos.errors import FaultError, ScenarioError
from chaos.faults import FAULTS
from chaos.faults.base import World
from chaos.relay.control import Hits
from chaos.relay.rules import Frames, Rule
from chaos.scenario.load import parse
from chaos.setup.triggers import Trigger
from tests.chaos.faults.test_wire import Proxy
from tests.support.apps import DEAF, TIMEOUT_S, Started, eventually

pytestmark = pytest.mark.slow

NOW = {"at": "1s"}


@pytest.fixture
def broken(tmp_path):
    """Return a function that starts an application with one fault, and returns the fault, its world and the run."""
    entered = []

    def start(fault, **app):
        spec = {"name": "f", "when": NOW, "target": {"app": "billing/1"}} | fault
        one = Started(tmp_path / "x", faults=[spec], **{"restart": {"delay": "100ms"}, **app})
        one.__enter__()
        entered.append(one)
        one.apps.start()
        world = World(one.scenario, None, None, None, None, random.Random(1), apps=one.apps)
        (loaded,) = one.scenario.faults
        return FAULTS[loaded.kind](loaded), world, one

    yield start
    for one in entered:
        one.__exit__(None, None, None)


def proof(fault, world):
    eventually(lambda: fault.proof(world))
    return fault.proof(world)


def test_a_killed_instance_is_started_by_its_supervisor(broken):
    fault, world, one = broken({"kind": "app.kill"})
    assert fault.proof(world) is None
    assert fault.inject(world) == "killed billing/1"
    assert proof(fault, world) == "the process of billing/1 is gone"
    eventually(lambda: one.apps.instance("billing/1").incarnation == 2)
    assert fault.heal(world) == "nothing to heal"


class Members(Proxy):
    """The wire proxy of two instances in a group, and the brokers of that group."""

    def __init__(self, one):
        super().__init__()
        self.one, self.left = one, []

    def members(self, front):
        return {"billing": [f"{front}-a", f"{front}-b"]}

    def remove(self, kafka, group, members):
        assert not self.one.apps.instance("billing/1").alive, "the member still worked"
        self.left.append((group, members))


@pytest.mark.parametrize("kind", ["app.kill", "app.stop"])
@pytest.mark.parametrize("ends", [True, False])
def test_the_members_that_an_ended_instance_was_are_removed_if_the_scenario_says_so(broken, monkeypatch, kind, ends):
    fault, world, one = broken({"kind": kind, "ends_sessions": ends, "heal": {"after": "1s"}}, instances=2)
    proxy = Members(one)
    monkeypatch.setattr("chaos.kafka.admin.remove_members", proxy.remove)
    fault.inject(replace(world, proxy=proxy))
    assert proxy.left == ([("billing", ["billing/1-a", "billing/1-b"])] if ends else [])


def test_a_killed_instance_stays_down_until_a_heal_that_the_scenario_gives(broken):
    fault, world, one = broken({"kind": "app.kill", "heal": {"after": "1s"}})
    fault.inject(world)
    assert not one.apps.instance("billing/1").wanted
    assert fault.heal(world) == "billing/1 started again"
    assert fault.heal(world) == "nothing to heal"
    assert one.apps.instance("billing/1").incarnation == 2


def test_an_instance_that_no_supervisor_restarts_is_started_by_the_heal(broken):
    fault, world, one = broken({"kind": "app.kill", "target": {"app": "billing"}}, restart={"policy": "never"})
    fault.inject(world)
    assert fault.resolved == "billing/1"
    assert not one.apps.instance("billing/1").wanted
    assert fault.heal(world) == "billing/1 started again"


@pytest.mark.parametrize(
    ("program", "shown"),
    [(None, " s after SIGTERM"), (DEAF, "did not end within its grace of 0.3 s after SIGTERM, and was killed")],
)
def test_an_instance_that_is_asked_to_end_ends_in_time_or_is_killed(broken, program, shown):
    command = {} if program is None else {"command": [sys.executable, "-c", program]}
    fault, world, one = broken({"kind": "app.stop", "heal": {"after": "1s"}}, stop={"grace": "300ms"}, **command)
    assert fault.inject(world) == "sent SIGTERM to billing/1"
    assert shown in proof(fault, world)
    assert fault.heal(world) == "billing/1 started again"
    one.apps.wait_ready("billing")


@pytest.mark.parametrize("kind", ["app.kill", "app.stop"])
def test_an_instance_that_ends_for_good_stays_away_to_the_end(broken, kind):
    fault, world, one = broken({"kind": kind, "for_good": True})
    fault.inject(world)
    assert proof(fault, world)
    assert not one.apps.instance("billing/1").wanted
    assert fault.heal(world) == "billing/1 stays away"
    assert one.apps.instance("billing/1").incarnation == 1


def test_a_paused_instance_is_stopped_and_goes_on(broken):
    fault, world, one = broken({"kind": "app.pause"})
    fault.inject(world)
    assert proof(fault, world) == "the process of billing/1 is stopped"
    assert fault.heal(world) == "billing/1 goes on"
    assert not one.apps.instance("billing/1").suspended()
    assert fault.heal(world) == "billing/1 goes on"


def test_a_rolling_restart_restarts_each_instance_after_the_one_before_is_ready(broken):
    fault, world, one = broken({"kind": "app.restart", "target": {"app": "billing"}, "between": "50ms"}, instances=3)
    fault.inject(world)
    assert proof(fault, world) == "all 3 instances of billing run in a later incarnation"
    assert [i.incarnation for i in one.apps.of("billing")] == [2, 2, 2]
    rows = [(row["instance"], row["event"]) for row in one.rows()][6:15]
    assert rows == [(n, event) for n in (1, 2, 3) for event in ("stopped", "started", "ready")]


@pytest.mark.parametrize(("to", "names"), [(3, [1, 2, 3]), (1, [1]), (0, [])])
def test_a_scaled_application_has_that_many_instances_and_its_own_number_after_the_heal(broken, to, names):
    fault, world, one = broken({"kind": "app.scale", "target": {"app": "billing"}, "to": to}, instances=2)
    assert fault.inject(world) == f"changed billing from 2 to {to} instances"
    assert proof(fault, world) == f"{to} instances of billing run"
    assert [i.number for i in one.apps.of("billing") if i.alive] == names
    assert fault.heal(world) == "billing has 2 instances again"
    eventually(lambda: [i.number for i in one.apps.of("billing") if i.alive] == [1, 2])


@pytest.mark.parametrize(
    ("heal", "words", "left"),
    [({}, "billing keeps its 2 instances", [1, 2]), ({"heal": {"after": "1s"}}, "billing has 0 instances again", [])],
)
def test_the_first_instances_of_an_application_stay_unless_the_scenario_ends_them(broken, heal, words, left):
    scale = {"kind": "app.scale", "target": {"app": "billing"}, "to": 2}
    fault, world, one = broken(scale | heal, instances=0)
    assert one.apps.of("billing") == []
    assert fault.inject(world) == "changed billing from 0 to 2 instances"
    assert proof(fault, world) == "2 instances of billing run"
    assert fault.heal(world) == words
    eventually(lambda: [i.number for i in one.apps.of("billing") if i.alive] == left)


def test_a_fault_of_an_instance_that_is_gone_says_so(broken):
    fault, world, one = broken({"kind": "app.kill", "target": {"app": "billing"}}, instances=1)
    one.apps.kill("billing/1", hold=True)
    with pytest.raises(FaultError, match="no instance of billing runs"):
        fault.inject(world)
    assert fault.heal(world) == "nothing to heal"


KINDS = [("app.kill", "kill"), ("app.stop", "stop"), ("app.pause", "pause")]


@pytest.mark.parametrize(("kind", "target"), [*((kind, "billing/1") for kind, _ in KINDS), ("app.stop", "billing")])
def test_an_instance_that_its_supervisor_starts_again_is_hit_then(broken, kind, target):
    fault, world, one = broken({"kind": kind, "target": {"app": target}}, restart={"delay": "1s"})
    one.apps.kill("billing/1", hold=False)
    assert not one.apps.instance("billing/1").alive
    assert "billing/1 once it ran again, " in fault.inject(world)
    assert proof(fault, world)
    assert one.apps.instance("billing/1").incarnation >= 2


@pytest.mark.parametrize(("kind", "verb"), KINDS)
def test_there_is_nothing_to_do_to_an_instance_that_stays_down(broken, kind, verb):
    fault, world, one = broken({"kind": kind})
    one.apps.kill("billing/1", hold=True)
    with pytest.raises(FaultError, match=f"there was nothing to {verb}: billing/1 did not run$"):
        fault.inject(world)
    assert fault.heal(world) == "nothing to heal"


def test_an_instance_is_hit_after_the_heal_of_the_fault_that_keeps_it_down(broken):
    fault, world, _ = broken({"kind": "app.stop"})
    other = {"name": "first", "kind": "app.kill", "target": {"app": "billing/1"}, "when": NOW, "heal": {"after": "1s"}}
    first = FAULTS["app.kill"](FAULTS["app.kill"].specification(**other))
    world = replace(world, scenario=world.scenario.model_copy(update={"faults": [first.spec, fault.spec]}))
    first.inject(world)
    injecting = threading.Thread(target=fault.inject, args=(world,))
    injecting.start()
    assert first.heal(world) == "billing/1 started again"
    injecting.join(TIMEOUT_S)
    assert proof(fault, world)


@pytest.mark.parametrize("hold", [False, True])
def test_the_moment_of_an_instance_that_has_ended_is_over(broken, hold):
    wire = {"wire": {"app": "billing", "api": "LeaveGroup", "side": "response"}}
    fault, world, one = broken({"kind": "app.stop", "target": {"app": "billing"}}, restart={"delay": "1s"})
    fault.spec = fault.spec.model_copy(update={"when": Trigger(**wire)})
    one.apps.kill("billing/1", hold)
    with pytest.raises(FaultError, match="nothing to stop: billing/1 did not run when LeaveGroup response 1 of"):
        fault.inject(replace(world, moment=Hits(1, 0, 0, "billing/1", 1)))


def test_a_rolling_restart_starts_an_instance_that_waits_for_its_restart(broken):
    fault, world, one = broken(
        {"kind": "app.restart", "target": {"app": "billing"}, "between": "50ms"},
        instances=2,
        restart={"delay": "400ms"},
    )
    one.apps.kill("billing/1", hold=False)
    fault.inject(world)
    assert proof(fault, world) == "all 2 instances of billing run in a later incarnation"
    assert [i.incarnation for i in one.apps.of("billing")] == [2, 2]


def test_a_scaled_application_keeps_an_instance_down_that_waits_for_its_restart(broken):
    scale = {"kind": "app.scale", "target": {"app": "billing"}, "to": 1}
    fault, world, one = broken(scale, instances=2, restart={"delay": "5s"})
    one.apps.kill("billing/2", hold=False)
    assert fault.inject(world) == "changed billing from 2 to 1 instances"
    assert proof(fault, world) == "1 instances of billing run"
    assert not one.apps.instance("billing/2").wanted
    assert fault.heal(world) == "billing has 2 instances again"


WIRED = """
title: t
cluster: {{brokers: 5}}
topics: [{{name: orders}}]
producers: [{{name: shop, topic: orders, value: {{template: '{{{{"id": "{{id}}"}}}}'}}}}]
effects: [{{name: done, log: {{app: billing, pattern: 'done (?P<id>\\S+)'}}}}]
apps: [{{name: billing, command: "x {{bootstrap}}", instances: 2}}]
faults: [{{name: f, when: {{at: 1s}}, {0}}}]
"""


def wired(text):
    spec = parse(WIRED.format(text), "t.yaml").faults[0]
    proxy = Proxy()
    cluster = SimpleNamespace(broker_ids=(1, 2, 3, 4, 5), controller_ids=())
    return FAULTS[spec.kind](spec), SimpleNamespace(cluster=cluster, proxy=proxy, rng=random.Random(1)), proxy


@pytest.mark.parametrize(
    ("brokers", "count"), [("", 5), (", brokers: majority", 3), (", brokers: one", 1), (", brokers: 4", 1)]
)
@pytest.mark.parametrize(("manner", "act"), [("silent", "delay"), ("refused", "cut")])
def test_an_isolated_application_loses_both_directions_to_its_brokers(brokers, count, manner, act):
    fault, world, proxy = wired(f"kind: app.isolate, target: {{app: billing}}, manner: {manner}{brokers}")
    fault.inject(world)
    assert [(rule.act, rule.frames.side, rule.frames.front) for rule in proxy.rules] == [
        (act, "request", "billing/*"),
        (act, "response", "billing/*"),
    ]
    assert len(proxy.rules[0].frames.brokers) == count
    assert fault.proof(world) is None
    proxy.matched = 3
    kept = "3 requests of billing did not reach their brokers so far, and 3 answers did not reach it"
    assert fault.proof(world) == kept
    assert fault.heal(world) == fault.heal(world) == "the wire of billing is whole again; 6 frames were hit in all"


def test_a_slow_link_of_one_instance_is_that_of_its_front():
    fault, world, proxy = wired("kind: app.slow, target: {app: billing/2}, latency: 50ms, bandwidth: 1MiB")
    assert fault.inject(world) == (
        "slowed the links of billing/2: 50 ms more for a round trip, 1,048,576 bytes/s at most"
    )
    assert proxy.rules == [Rule("slow", Frames(front="billing/2"), latency_s=0.05, bandwidth=2**20)]
    proxy.matched = 7
    assert fault.proof(world) == "7 pieces of data of billing/2 were slowed so far"


def test_a_fault_of_the_wire_is_of_a_share_of_the_frames_of_an_application():
    text = "kind: wire.error, api: OffsetCommit, error: NOT_COORDINATOR, app: billing, share: 5 %"
    fault, world, proxy = wired(text + ", target: {all_brokers: true}")
    assert "0.05 of the OffsetCommit requests of billing" in fault.inject(world)
    (rule,) = proxy.rules
    assert (rule.share, rule.frames.front) == (0.05, "billing/*")
    assert fault.spec.breaks == frozenset() and not fault.spec.unpromised


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: app.slow, target: {app: billing/1}", "give latency, bandwidth or both"),
        ("kind: app.isolate, target: {app: billing/3}", "billing has instances 1 to 2, not 3"),
        ("kind: app.isolate, target: {app: billing}, brokers: 9", "brokers are numbered 1 to 5, not 9"),
        ("kind: wire.drop, app: bill, target: {broker: 1}", r"'bill' is not one of the apps \(billing\)"),
        ("kind: wire.drop, share: 5 percent, target: {broker: 1}", "is no share, such as 5 % or 0.05"),
        ("kind: wire.drop, share: 0, target: {broker: 1}", "above 0"),
    ],
)
def test_a_fault_that_fits_no_application_is_refused(text, message):
    with pytest.raises(ScenarioError, match=message):
        wired(text)
