"""Moments on the wire: the rules that hold them, what passes and what is lost, and the triggers of a scenario."""

from types import SimpleNamespace

import pytest

from chaos.drive.moments import MOST_HELD_S, Moments, Recoveries
from chaos.errors import ClientError, ScenarioError
from chaos.relay.control import Hits
from chaos.scenario.load import parse
from chaos.scenario.timeline import Progress, is_due, steps

SCENARIO = """
title: Moments
topics:
  - {{name: orders, partitions: 1, replication_factor: 1}}
  - {{name: invoices, partitions: 1, replication_factor: 1}}
producers:
  - {{name: shop, topic: orders, rate: 100/s, records: 100, value: {{template: '{{{{"id": "{{id}}"}}}}'}}}}
apps: [{{name: billing, command: [service, "{{bootstrap}}"], reads: [orders]}}]
effects: [{{name: invoices, topic: invoices, id: $.id}}]
cluster: {{brokers: 1{cluster}}}
faults:
  - {{name: crash, kind: {kind}, target: {target}, when: {{wire: {wire}}}{heal}}}
"""
COMMIT = "{app: billing, api: OffsetCommit, after: Produce response, nth: 3}"


def scenario(kind="app.kill", target="{app: billing}", wire=COMMIT, heal="", cluster=""):
    return parse(SCENARIO.format(kind=kind, target=target, wire=wire, heal=heal, cluster=cluster), "moments.yaml")


class Proxy:
    def __init__(self):
        self.rules, self.removed, self.hit = [], [], {}
        self.counted = {"billing/1": {("Produce response", "OffsetCommit request"): 2}}

    def add(self, rule):
        self.rules.append(rule)
        return len(self.rules)

    def counts(self, number):
        return self.hit.get(number, Hits(0, 0, 0))

    def remove(self, number, lose=False):
        self.removed.append((number, lose))
        return self.counts(number)

    def steps(self):
        return {"billing/1": "AddOffsetsToTxn response"}

    def moments(self):
        return {front: dict(moments) for front, moments in self.counted.items()}


def faults(**phases):
    return {"crash": SimpleNamespace(phases=phases)}


@pytest.mark.parametrize(("kind", "lost"), [("app.kill", True), ("app.stop", False), ("app.pause", False)])
def test_a_moment_is_held_until_its_fault_is_in(kind, lost):
    proxy = Proxy()
    moments = Moments(proxy, scenario(kind).faults)
    with moments.armed():
        rule = proxy.rules[0]
        assert (rule.act, rule.count, rule.skip, rule.delay_s) == ("delay", 1, 2, MOST_HELD_S)
        assert (rule.frames.front, rule.frames.api, rule.frames.after) == (
            "billing/*",
            "OffsetCommit",
            "Produce response",
        )
        assert moments.came() == {}
        proxy.hit[1] = Hits(1, 0, 0, "billing/2", 3)
        assert moments.came()["crash"].front == "billing/2"
        moments.release(faults(injecting=1.0))
        assert proxy.removed == []
        moments.release(faults(injecting=1.0, injected=2.0))
        assert proxy.removed == [(1, lost)]
    assert len(proxy.removed) == 1


def test_faults_of_one_frame_begin_together_and_it_passes_when_all_are_in():
    crash = scenario().faults[0]
    slow = scenario("broker.kill", "{leader_of: orders/0}").faults[0].model_copy(update={"name": "kill"})
    later = crash.model_copy(update={"name": "later", "when": scenario(wire=COMMIT.replace("3", "4")).faults[0].when})
    proxy = Proxy()
    moments = Moments(proxy, [crash, slow, later])
    with moments.armed():
        assert [rule.skip for rule in proxy.rules] == [2, 3]
        proxy.hit[1] = Hits(1, 0, 0, "billing/1", 1)
        assert set(moments.came()) == {"crash", "kill"}
        into = {"crash": {"injected": 1.0}, "kill": {"injecting": 1.0}, "later": {}}
        moments.release({name: SimpleNamespace(phases=phases) for name, phases in into.items()})
        assert proxy.removed == []
        into["kill"]["injected"] = 2.0
        moments.release({name: SimpleNamespace(phases=phases) for name, phases in into.items()})
        assert proxy.removed == [(1, True)]  # lost: one of the faults ends the instance at once


class Processes:
    def __init__(self, gone=False):
        self.gone, self.done = gone, []

    def pause(self, name):
        if self.gone:
            raise ClientError(f"{name} is gone already")
        self.done.append(("pause", name))

    def resume(self, name):
        self.done.append(("resume", name))


def test_an_instance_is_suspended_from_its_moment_to_its_kill():
    proxy, apps = Proxy(), Processes()
    moments = Moments(proxy, scenario().faults, apps)
    with moments.armed():
        moments.watch(0.01)
        assert apps.done == []
        proxy.hit[1] = Hits(1, 0, 0, "billing/2", 3)
        moments.watch(0.01)
        moments.watch(0.01)
        assert apps.done == [("pause", "billing/2")]
        moments.release(faults(injecting=1.0, injected=2.0))
    assert (apps.done, proxy.removed) == ([("pause", "billing/2")], [(1, True)])


def test_an_instance_goes_on_if_it_could_not_be_killed():
    proxy, apps = Proxy(), Processes()
    moments = Moments(proxy, scenario().faults, apps)
    with moments.armed():
        proxy.hit[1] = Hits(1, 0, 0, "billing/2", 3)
        moments.came()
        moments.release(faults(injecting=1.0))
        assert apps.done == [("pause", "billing/2")]
        moments.release(faults(injecting=1.0, failed=2.0))
        moments.release(faults(injecting=1.0, failed=2.0))
    assert apps.done == [("pause", "billing/2"), ("resume", "billing/2")]


@pytest.mark.parametrize(
    ("kind", "target"),
    [("app.kill", "{app: billing/1}"), ("app.stop", "{app: billing}"), ("broker.kill", "{broker: 1}")],
)
def test_an_instance_that_is_not_killed_goes_on_and_keeps_its_frame(kind, target):
    proxy, apps = Proxy(), Processes()
    moments = Moments(proxy, scenario(kind, target).faults, apps)
    with moments.armed():
        proxy.hit[1] = Hits(1, 0, 0, "billing/2", 3)
        moments.came()
        moments.release(faults(injected=1.0))
    assert (apps.done, proxy.removed) == ([], [(1, False)])


def test_an_instance_that_ended_at_its_moment_is_left_to_its_fault():
    proxy, apps = Proxy(), Processes(gone=True)
    moments = Moments(proxy, scenario().faults, apps)
    with moments.armed():
        proxy.hit[1] = Hits(1, 0, 0, "billing/2", 3)
        assert moments.came()["crash"].front == "billing/2"
        moments.release(faults(failed=1.0))
    assert apps.done == []


def test_a_moment_that_did_not_come_is_no_longer_waited_for_after_the_load():
    proxy = Proxy()
    with Moments(proxy, scenario().faults).armed():
        pass
    assert proxy.removed == [(1, False)]


def test_moments_are_counted_from_the_begin_of_the_load():
    proxy = Proxy()
    moments = Moments(proxy, scenario().faults)
    with moments.armed():
        proxy.counted["billing/1"]["Produce response", "OffsetCommit request"] = 7
        proxy.counted["billing/2"] = {("", "Fetch request"): 1}
    assert moments.counted() == {
        "billing/1": [("Produce response", "OffsetCommit request", 5)],
        "billing/2": [("", "Fetch request", 1)],
    }


def test_a_step_is_due_when_its_moment_has_come():
    (step,) = steps(scenario().faults)
    progress = Progress(1.0, {}, {})
    assert not is_due(step, progress)
    assert is_due(step, Progress(1.0, {}, {}, moments={"crash"}))
    assert step.describe() == "inject crash at OffsetCommit request 3 of billing after Produce response"


def test_a_fault_comes_without_its_moment_at_the_latest_at_a_time():
    (step,) = steps(scenario(wire=COMMIT.replace("nth: 3", "nth: 3, latest: 20s")).faults)
    assert not is_due(step, Progress(19.9, {}, {}))
    assert is_due(step, Progress(1.0, {}, {}, moments={"crash"})) and is_due(step, Progress(20.0, {}, {}))


def test_the_moment_of_a_fault_that_came_without_it_takes_nothing_from_an_instance():
    crash = scenario().faults[0]
    other = crash.model_copy(update={"name": "other"})
    proxy = Proxy()
    moments = Moments(proxy, [crash, other])
    with moments.armed():
        moments.pass_by("crash")
        assert proxy.removed == []  # the other one waits for it, too
        moments.pass_by("other")
        assert proxy.removed == [(1, False)]
        proxy.hit[1] = Hits(1, 0, 0, "billing/1", 1)
        assert moments.came() == {}
        moments.release({name: SimpleNamespace(phases={"injected": 1.0}) for name in ("crash", "other")})
    assert proxy.removed == [(1, False)]


def test_a_moment_that_came_is_not_passed_by():
    proxy = Proxy()
    moments = Moments(proxy, scenario().faults)
    with moments.armed():
        proxy.hit[1] = Hits(1, 0, 0, "billing/1", 1)
        assert moments.came()
        moments.pass_by("crash")
        assert proxy.removed == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"wire": "{app: biling, api: Fetch}"}, r"faults\[0\]\.when\.wire\.app"),
        ({"wire": "{app: billing/2, api: Fetch}"}, "billing has instances 1 to 1, not 2"),
        ({"wire": "{app: billing, api: Metadata}"}, "api"),
        ({"wire": "{app: billing, api: Fetch, after: Fetch response}"}, "is no step; write a request or its answer"),
        ({"wire": "{app: billing, api: Fetch, nth: 0}"}, "nth"),
        ({"heal": f", heal: {{when: {{wire: {COMMIT}}}}}"}, "a heal does not wait for the wire"),
    ],
)
def test_a_moment_that_cannot_come_is_refused_at_load(given, message):
    with pytest.raises(ScenarioError, match=message):
        scenario(**given)


def test_the_broker_of_a_moment_needs_a_moment():
    assert scenario("broker.kill", "{broker_of_moment: true}").faults[0].target.describe() == "broker of moment"
    text = SCENARIO.format(kind="broker.kill", target="{broker_of_moment: true}", wire=COMMIT, heal="", cluster="")
    with pytest.raises(ScenarioError, match="the fault waits for no moment"):
        parse(text.replace(f"{{wire: {COMMIT}}}", "{at: 1s}"), "moments.yaml")
    with pytest.raises(ScenarioError, match=r"give when\.wire, without"):
        parse(text.replace("nth: 3", "nth: 3, latest: 9s"), "moments.yaml")


def test_a_value_that_is_refused_is_one_line_and_not_a_second_one_of_what_follows():
    text = SCENARIO.format(kind="app.kill", target="{app: billing}", wire=COMMIT, heal="", cluster="")
    with pytest.raises(ScenarioError) as e:
        parse(text.replace("value: {", "value: {id: $.id, "), "m")
    assert len(str(e.value).splitlines()) == 2 and "leave id out" in str(e.value)


AGAIN = """
  - {name: stop, kind: app.stop, target: {app: billing}, when: {works: {app: billing, after: crash.healed + 1s}}}
"""


def two_faults(more=AGAIN):
    text = SCENARIO.format(
        kind="app.kill", target="{app: billing}", wire=COMMIT, heal=", heal: {after: 2s}", cluster=""
    )
    return parse(text + more, "works.yaml")


class Apps:
    state, names = "", ("billing/1", "billing/2")

    def expected(self, app):
        return self.names

    def unstable(self, app):
        return self.state


def test_a_fault_waits_until_each_instance_has_fetched_since_and_the_group_is_stable(monkeypatch):
    monkeypatch.setattr("chaos.drive.moments.LOOK_S", -1.0)
    proxy, apps = Proxy(), Apps()
    proxy.counted = {"billing/1": {("", "Fetch request"): 9}, "billing/2": {("a", "Fetch request"): 5}}
    recoveries = Recoveries(proxy, apps, two_faults().faults)
    before, healed = Progress(9.0, {}, {}), Progress(20.0, {}, {}, phases={("crash", "healed"): 12.0})
    assert recoveries.working(before) == set()
    assert recoveries.overdue("stop", "limits.drive") == "", "it waits for the heal of crash"
    proxy.counted["billing/1"] = {("", "Fetch request"): 10}
    assert recoveries.working(healed) == set(), "fetches before the heal count nothing"
    proxy.counted["billing/1"] = {("b", "Fetch request"): 11}
    assert recoveries.working(healed) == set(), "billing/2 has not fetched again"
    assert recoveries.overdue("stop", "limits.drive") == (
        "billing did not work again after crash.healed + 1s: billing/1 fetches, its last step was AddOffsetsToTxn "
        "response; billing/2 fetched nothing since, its last step was none; see what its instances wait for in logs/, "
        "or raise limits.drive"
    )
    proxy.counted["billing/2"] = {("a", "Fetch request"): 5, ("c", "ShareFetch request"): 1}
    apps.state = "group billing is PreparingRebalance"
    assert recoveries.working(healed) == set(), "a rebalance goes on"
    assert ": group billing is PreparingRebalance; billing/1 fetches" in recoveries.overdue("stop", "limits.drive")
    apps.state = ""
    assert recoveries.working(healed) == {"stop"}
    proxy.counted = {}
    assert recoveries.working(healed) == {"stop"}, "it has worked since"
    assert recoveries.overdue("stop", "limits.drive") == recoveries.overdue("crash", "limits.drive") == ""


def test_an_application_that_does_not_work_again_is_not_waited_for_any_more(monkeypatch):
    monkeypatch.setattr("chaos.drive.moments.LOOK_S", -1.0)
    clock = [100.0]
    monkeypatch.setattr("chaos.drive.moments.time", SimpleNamespace(monotonic=lambda: clock[0]))
    proxy, waiting = Proxy(), steps(two_faults().faults)
    proxy.counted = {"billing/1": {("", "Fetch request"): 9}}
    recoveries = Recoveries(proxy, Apps(), two_faults().faults)
    clock[0] = 500.0
    recoveries.working(Progress(9.0, {}, {}))
    assert recoveries.given_up(waiting, 120.0) == [], "the heal before it has not come"
    recoveries.working(Progress(20.0, {}, {}, phases={("crash", "healed"): 12.0}))
    clock[0] += 120.0
    assert recoveries.given_up(waiting, 120.0) == []
    clock[0] += 0.1
    ((step, words),) = recoveries.given_up(waiting, 120.0)
    assert (step.fault, step.action) == ("stop", "inject")
    assert "billing/1 fetched nothing since" in words and words.endswith("raise limits.works")
    assert recoveries.given_up([], 120.0) == [], "it is not waited for"
    proxy.counted = {name: {("b", "Fetch request"): 11} for name in Apps.names}
    recoveries.working(Progress(20.0, {}, {}, phases={("crash", "healed"): 12.0}))
    assert recoveries.given_up(waiting, 120.0) == [], "it works"


def test_a_step_is_due_when_the_phase_has_come_and_the_application_works_again():
    step = next(step for step in steps(two_faults().faults) if step.fault == "stop")
    healed = {("crash", "healed"): 12.0}
    assert not is_due(step, Progress(20.0, {}, {}, working={"stop"}))
    assert not is_due(step, Progress(20.0, {}, {}, phases=healed))
    assert not is_due(step, Progress(12.5, {}, {}, phases=healed, working={"stop"}))
    assert is_due(step, Progress(13.5, {}, {}, phases=healed, working={"stop"}))
    assert step.describe() == "inject stop once billing works again after crash.healed + 1s"
    assert step.awaits() == {("crash", "healed")}


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ("{works: {app: biling, after: crash.healed}}", r"faults\[1\]\.when\.works\.app"),
        ("{works: {app: billing, after: crush.healed}}", r"faults\[1\]\.when\.works\.after"),
        ("{works: {app: billing}}", "after"),
        ("{at: 1s}, heal: {when: {works: {app: billing, after: crash.healed}}}", "a heal does not wait for the wire"),
    ],
)
def test_a_wait_that_cannot_end_is_refused_at_load(trigger, message):
    with pytest.raises(ScenarioError, match=message):
        two_faults(f"  - {{name: stop, kind: app.stop, target: {{app: billing}}, when: {trigger}}}\n")
