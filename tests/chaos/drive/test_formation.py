"""The drive by hand: its wait for groups before the load, and what it records as problem or as note."""

from types import SimpleNamespace

import pytest

from chaos.drive.drive import Drive, wait_formed
from chaos.errors import ClusterError, WaitTimeout
from chaos.kafka.client import GroupState
from chaos.run.directory import Run
from chaos.run.events import EventLog, read_events
from chaos.scenario.load import parse

HEAD = "title: t\ntopics: [{name: orders}]\nproducers: [{name: shop, topic: orders, records: 9}]\n"


def wait(entries, members, unchanged_s, state="Stable"):
    """Wait for a group of these entries; the observer sees `members` for `unchanged_s`."""
    scenario = parse(f"{HEAD}{entries}", "x")
    seen = {"g": GroupState(state, 1, (SimpleNamespace(),) * members)}
    observer = SimpleNamespace(groups=seen, unchanged_s=lambda group: unchanged_s)
    wait_formed(scenario, observer, 0.0, lambda: None)


def group(assignors, members=2):
    return (
        f"consumers: [{{mode: subscribe, name: billing, group: g, members: {members}, topics: [orders], "
        f"config: {{partition.assignment.strategy: '{assignors}'}}}}]\n"
    )


def test_a_group_has_settled_later_if_its_partitions_move_in_two_steps():
    wait(group("range"), 2, 0.4)
    wait(group("cooperative-sticky"), 2, 2.1)
    with pytest.raises(WaitTimeout, match="g changed within the last 2 s"):
        wait(group("cooperative-sticky"), 2, 1.9)
    with pytest.raises(WaitTimeout, match=r"g changed within the last 0\.3 s"):
        wait(group("range"), 2, 0.2)


def test_a_group_without_all_its_members_or_in_another_state_is_not_formed():
    with pytest.raises(WaitTimeout, match="g is Stable with 1 of 2 members"):
        wait(group("range"), 1, 9.0)
    with pytest.raises(WaitTimeout, match="g is CompletingRebalance with 2 of 2 members"):
        wait(group("range"), 2, 9.0, "CompletingRebalance")


def test_members_that_join_later_are_not_awaited():
    join = "faults: [{name: join, kind: consumer.join, target: {member: billing/1}, when: {acked: 2}}]\n"
    wait(group("range") + join, 1, 9.0)
    wait(group("range", members=1) + join, 0, 9.0, "Dead")


APPS = """
apps: [{name: billing, command: [service, "{bootstrap}", "{http.calls}"], reads: [orders]}]
effects: [{name: calls, http: {path: /calls}, id: $.id}]
"""
VALUE = '{name: shop, topic: orders, records: 9, value: {template: \'{{"id": "{id}"}}\'}}'


def failing() -> dict[str, str]:
    raise ClusterError("the wire proxy does not answer")


@pytest.mark.parametrize(("more", "kind"), [(APPS, "problem"), ("", "note")])
@pytest.mark.parametrize(("sealed", "why"), [(lambda: {"failure": "the disk is full"}, "disk"), (failing, "answer")])
def test_a_capture_that_is_not_complete_is_a_problem_if_it_has_to_show_applications(tmp_path, more, kind, sealed, why):
    head = HEAD.replace("{name: shop, topic: orders, records: 9}", VALUE if more else "{name: shop, topic: orders}")
    run = Run.create(tmp_path, "r1")
    resolved = SimpleNamespace(scenario=parse(f"{head}capture: {{}}\n{more}", "x"))
    drive = Drive(run, resolved, SimpleNamespace(), EventLog(run), lambda: None)
    drive._end_capture(SimpleNamespace(seal=lambda: {"failure": ""}))
    drive._end_capture(SimpleNamespace(seal=sealed), ClusterError)  # an interruption ends the proxy, too
    assert read_events(run) == []
    drive._end_capture(SimpleNamespace(seal=sealed))
    (event,) = read_events(run)
    assert event["kind"] == kind and "the capture of the wire is not complete: " in event["words"]
    assert why in event["words"]
