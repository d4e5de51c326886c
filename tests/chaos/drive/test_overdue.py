"""Moments that do not come any more: when a run stops waiting for one, and when it goes on."""

import time
from types import SimpleNamespace

import pytest

from chaos.drive.drive import Drive
from chaos.drive.overdue import LOOK_S, Overdue, Seen, only_moments
from chaos.fleet.roster import Roster
from chaos.kafka.partition import TopicPartition
from chaos.run.directory import Run
from chaos.run.events import EventLog, read_events
from chaos.scenario.load import parse
from chaos.scenario.resolve import resolve
from chaos.scenario.timeline import Progress, steps

SCENARIO = """
title: t
cluster: {{brokers: 3}}
topics: [{{name: orders, partitions: 2}}, {{name: invoices, partitions: 1}}]
producers:
  - {{name: shop, topic: orders, rate: 100/s, records: 100, value: {{template: '{{{{"id": "{{id}}"}}}}'}}}}
apps: [{{name: billing, command: [service, "{{bootstrap}}"], reads: [orders], group: billing, instances: 2}}]
effects: [{{name: invoices, topic: invoices, id: $.id}}]
faults:
  - {{name: crash, kind: app.kill, target: {{app: billing}}, when: {{wire: {wire}}}}}
{more}
"""
COMMIT = "{app: billing, api: OffsetCommit, after: Produce response, nth: 3}"
KEY = ("Produce response", "OffsetCommit request")
WORK = ("Produce response", "Produce request")
STOP = "  - {name: stop, kind: app.stop, target: {app: billing/1}, when: {at: 1s}, heal: {after: 2s}}"
SLOW = "  - {name: slow, kind: app.slow, target: {app: billing}, latency: 20ms, when: {at: 1s}}"
NEXT = "  - {name: next, kind: broker.kill, target: {broker: 1}, when: {after: crash.proven + 1s}}"


class World:
    """A run in which all was sent and worked off, with a clock of its own. Its applications work off each second."""

    def __init__(self, more="", wire=COMMIT, outlasting=True):
        self.scenario = parse(SCENARIO.format(wire=wire, more=more), "overdue.yaml")
        self.waiting = list(steps(self.scenario.faults))
        self.faults = {
            spec.name: SimpleNamespace(phases={}, busy=False, fault=SimpleNamespace(spec=spec))
            for spec in self.scenario.faults
        }
        self.now, self.members, self.sent, self.ended = 600.0, 2, True, not outlasting
        self.moments_of = {"billing/1": {KEY: 1, WORK: 9}, "other/1": {KEY: 7}}
        self.committed_to, self.end, self.commits, self.group = {0: 0, 1: 0}, 100, True, "billing"
        self.overdue = Overdue(self.scenario, self, self, self, self.partitions, lambda: self.now)
        self.overdue.begin()
        self.overdue.look(self.waiting, self.faults, False, False)

    def partitions(self):
        return [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("invoices", 0)]

    def moments(self):
        return {front: dict(of) for front, of in self.moments_of.items()}

    def at_work(self, app):
        return self.members

    def group_of(self, app):
        return self.group

    def end_offsets(self, partitions):
        return {p: self.end for p in partitions}

    def done(self, group, partitions):
        return {p: self.committed_to[p.number] for p in partitions}

    def after(self, seconds, each_second=lambda: None):
        """Let time pass, and return what was given up on the way, by second."""
        begin = int(self.now)
        for second in range(begin + 1, begin + seconds + 1):
            while self.now < second:
                self.now += LOOK_S
                if found := self.overdue.look(self.waiting, self.faults, self.sent, self.ended):
                    return {step.fault: (second - begin, why) for step, why in found}
            each_second()
            if self.commits:
                self.committed_to = {0: self.end, 1: self.end}
            if not self.ended:
                self.end += 100
                self.moments_of["billing/1"][WORK] += 100
        return {}

    def begin(self, name, *phases):
        """Let the phases of a fault come, and its steps go."""
        self.faults[name].phases.update(dict.fromkeys(phases, self.now))
        self.waiting = [step for step in self.waiting if step.fault != name]


@pytest.mark.parametrize("outlasting", [True, False])
def test_a_moment_that_does_not_come_is_given_up_when_all_was_worked_off_for_long_enough(outlasting):
    world = World(outlasting=outlasting)
    ((second, why),) = world.after(60).values()
    assert second == 21
    assert why == (
        "OffsetCommit request 3 of billing after Produce response is not waited for any more, 20 s after the load "
        "began: it never came, and billing worked off all records that were sent, 2 times over "
        "(limits.moment: 20s); set it earlier or raise limits.moment"
    )


def test_the_count_of_the_moment_is_said_and_its_time_begins_with_the_last_one():
    world = World()

    def once():
        if int(world.now) == 604:
            world.moments_of["billing/1"][KEY] += 2
            world.moments_of["other/1"][KEY] += 9

    ((second, why),) = world.after(60, once).values()
    assert second == 25
    assert "20 s after the last such moment: it came 2 times only, and" in why


def test_a_moment_that_comes_rarely_is_waited_for_twice_the_time_between_two():
    world = World()
    world.commits = False

    def each_minute():
        if int(world.now) % 60 == 0 and world.now <= 720:
            world.moments_of["billing/1"][KEY] += 1
            world.committed_to = {0: world.end, 1: world.end}

    assert not world.after(238, each_minute)
    world.commits = True
    assert world.after(10)


def test_each_round_begins_with_the_end_of_the_one_before():
    world = World()
    world.commits = False
    world.after(30)
    world.committed_to, second = {0: 100, 1: 100}, world.end  # what was there in the beginning
    assert not world.after(30)
    world.committed_to = {0: world.end, 1: second - 1}  # one partition is not at the end of the second round
    assert not world.after(30)
    world.commits = True
    assert world.after(3)


@pytest.mark.parametrize(
    "change",
    [
        lambda w: setattr(w, "sent", False),
        lambda w: setattr(w, "commits", False),
        lambda w: setattr(w, "members", 1),
        lambda w: setattr(w, "members", None),  # an instance is down or suspended, or the group is not stable
        lambda w: setattr(w, "group", None),
        lambda w: setattr(w.faults["slow"], "busy", True),
        lambda w: w.begin("slow", "injecting", "injected", "proven"),
        lambda w: w.begin("slow", "injecting", "failed"),
    ],
)
def test_a_run_goes_on_while_work_is_left_or_something_else_than_in_the_beginning(change):
    world = World(SLOW)
    world.begin("slow")
    change(world)
    assert not world.after(200)


def test_a_step_that_comes_by_itself_is_awaited_and_the_time_begins_after_its_heal():
    world = World(STOP)
    assert not world.after(100)
    world.begin("stop", "injecting", "injected", "proven", "healing", "healed")
    assert list(world.after(60)) == ["crash"]
    assert world.now > 719


def test_an_instance_that_was_killed_and_runs_again_is_no_fault_that_is_in():
    world = World(STOP.replace(", heal: {after: 2s}", ""))
    world.begin("stop", "injecting", "injected", "proven")
    assert list(world.after(60)) == ["crash"]


def test_a_fault_after_the_one_of_the_moment_does_not_keep_the_run():
    world = World(NEXT)
    assert list(world.after(60)) == ["crash"]
    assert only_moments(world.waiting)
    assert not only_moments(World(STOP).waiting)


def test_moments_are_given_up_together_or_not_at_all():
    other = "  - {name: more, kind: app.stop, target: {app: billing}, when: {wire: {app: billing/2, api: Produce}}}"
    world = World(other)
    key = ("", "Produce request")
    world.moments_of["billing/2"] = {key: 0}

    def until_40():
        if world.now <= 640:
            world.moments_of["billing/2"][key] += 1

    found = world.after(90, until_40)
    assert set(found) == {"crash", "more"} and found["crash"][0] == 61


def test_work_that_no_commit_shows_is_waited_for_after_the_load():
    world = World(outlasting=False)

    def until_40():
        if world.now <= 640:
            world.moments_of["billing/1"][WORK] += 1

    ((second, _),) = world.after(90, until_40).values()
    assert second == 61


def test_commits_alone_are_no_work_and_may_go_on_for_ever():
    world = World(outlasting=False)
    key = ("OffsetCommit response", "OffsetCommit request")

    def commit():
        world.moments_of["billing/1"][key] = world.moments_of["billing/1"].get(key, 0) + 1

    assert world.after(30, commit)


def test_nothing_is_known_of_an_application_that_was_never_at_work_before_a_fault():
    world = World(STOP)
    world.overdue._members = {"billing": None}
    world.begin("stop", "injecting", "injected", "proven", "healed")
    assert not world.after(100)


@pytest.mark.parametrize("change", [{"after": None}, {"app": "billing/1"}])
def test_the_counts_of_what_the_trigger_names_are_added(change):
    world = World()
    wire = world.scenario.faults[0].when.wire.model_copy(update=change)
    world.moments_of["billing/2"] = {KEY: 2, ("", "OffsetCommit request"): 3}
    world.moments_of["billing/1"][KEY] = 5
    assert world.overdue._count(world.moments(), wire) == (4 if "app" in change else 9)


def test_a_topic_whose_end_is_not_known_is_not_worked_off():
    world = World()
    world.end_offsets = lambda partitions: {p: world.end for p in list(partitions)[:1]}
    assert not world.after(100)


def test_the_load_ends_if_an_application_does_not_keep_up_and_the_moment_is_awaited_until_the_rest_is_worked_off():
    world = World()
    world.commits, behind = False, []

    def work_off_a_part():
        behind.append(world.overdue.is_behind)
        world.committed_to = {p: at + 5 for p, at in world.committed_to.items()}

    assert not world.after(12, work_off_a_part)
    assert behind.index(True) == 10
    assert "billing did not work off in 10s what had been sent before" in world.overdue.behind()
    world.ended = True
    assert not world.after(100, work_off_a_part) and not behind[-1]
    assert list(world.after(200, work_off_a_part)) == ["crash"]


@pytest.mark.parametrize(
    "change",
    [
        lambda w: setattr(w, "sent", False),
        lambda w: setattr(w, "members", 1),
        lambda w: setattr(w, "end_offsets", lambda partitions: {}),  # nothing shows whether it keeps up
    ],
)
def test_the_load_goes_on_while_something_else_is_awaited_or_nothing_is_known(change):
    world = World()
    world.commits = False
    change(world)
    assert not world.after(60) and not world.overdue.is_behind


def test_the_longest_time_between_two_counts_is_kept():
    seen = Seen(0, 0.0)
    for count, now in ((0, 3.0), (1, 8.0), (2, 10.0)):
        seen.note(count, now)
    assert (seen.at, seen.longest_s) == (10.0, 8.0)
    assert not seen.lacks(25.0, 5.0) and seen.lacks(26.0, 5.0) and not seen.lacks(26.0, 20.0)


@pytest.mark.parametrize(
    ("outlasts", "done", "sent", "enough"),
    [(True, False, 100, True), (True, False, 99, False), (False, False, 100, False), (False, True, 100, True)],
)
def test_enough_is_sent_when_a_producer_has_sent_its_records(monkeypatch, outlasts, done, sent, enough):
    scenario = World().scenario
    shop = scenario.producers[0].model_copy(update={"outlast_faults": outlasts})
    state = SimpleNamespace(progress=lambda: {"done": done}, count={"sent": sent}.get)
    roster = Roster(scenario.model_copy(update={"producers": [shop, shop]}))
    monkeypatch.setattr(roster, "present", lambda entry: ["shop/1"])
    monkeypatch.setattr(roster, "state", lambda client: state)
    assert roster.minimum_sent() == enough


def test_the_load_ends_without_the_overdue_fault_and_what_waits_for_it(tmp_path, monkeypatch):
    world, run = World(NEXT), Run.create(tmp_path, "r")
    resolved = resolve(world.scenario, run_id="r", name="mine", created_us=1, seed=1, overrides=[])
    drive = Drive(run, resolved, None, EventLog(run), lambda: None)
    progress = Progress(1.0, {}, {})
    monkeypatch.setattr(drive, "_progress", lambda fleet, faults: progress)
    monkeypatch.setattr(drive, "_check_infrastructure", lambda fleet: None)
    drive._started = time.monotonic()
    for fault in world.faults.values():
        fault.lost = set()
    ended = []
    fleet = SimpleNamespace(
        minimum_sent=lambda: True, producers_done=lambda: bool(ended), end_outlasting=lambda: ended.append(True)
    )
    moments = SimpleNamespace(came=dict, release=lambda faults: None, watch=time.sleep)
    overdue = SimpleNamespace(
        look=lambda waiting, *_: [(step, "it never came") for step in waiting[:1]], is_behind=False
    )
    observer, recoveries = (
        SimpleNamespace(broken=None),
        SimpleNamespace(working=lambda progress: set(), given_up=lambda *_: []),
    )
    drive._take_steps(fleet, world.faults, observer, moments, recoveries, overdue)
    assert ended
    said = [(event["kind"], event.get("fault"), event["words"]) for event in read_events(run) if "words" in event]
    assert said == [
        ("overdue", "crash", "it never came"),
        ("problem", None, "it never came"),
        ("problem", None, f"{world.waiting[1].describe()}: left out, because its trigger can no longer occur"),
    ]


def test_the_load_ends_once_the_applications_are_behind_and_the_run_goes_on_for_the_moment(tmp_path, monkeypatch):
    world, run = World(), Run.create(tmp_path, "r")
    resolved = resolve(world.scenario, run_id="r", name="mine", created_us=1, seed=1, overrides=[])
    drive = Drive(run, resolved, None, EventLog(run), lambda: None)
    monkeypatch.setattr(drive, "_progress", lambda fleet, faults: Progress(1.0, {}, {}))
    monkeypatch.setattr(drive, "_check_infrastructure", lambda fleet: None)
    drive._started, ended = time.monotonic(), []
    world.faults["crash"].lost = set()
    fleet = SimpleNamespace(
        minimum_sent=lambda: True, producers_done=lambda: bool(ended), end_outlasting=lambda: ended.append(True)
    )
    overdue = SimpleNamespace(
        look=lambda waiting, *_: [(step, "it never came") for step in waiting if len(ended) > 1],
        is_behind=True,
        behind=lambda: "it is behind",
    )
    moments = SimpleNamespace(came=dict, release=lambda faults: None, watch=time.sleep)
    observer, recoveries = (
        SimpleNamespace(broken=None),
        SimpleNamespace(working=lambda progress: set(), given_up=lambda *_: []),
    )
    drive._take_steps(fleet, world.faults, observer, moments, recoveries, overdue)
    said = [(event["kind"], event["words"]) for event in read_events(run) if "words" in event]
    assert said == [
        ("note", "it is behind"),
        ("overdue", "it never came"),
        ("problem", "it never came"),
    ]
