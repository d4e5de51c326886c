"""Facts that stories share: the incarnation at a time, changes of offsets by faults, assignments, and ends in a row."""

from __future__ import annotations

import pytest

from checks.audit.facts.offset_changes import OffsetChange
from checks.effects.seen import BY_ITSELF, Facts, Life, lives_of

ENDED, ASKED = f"{BY_ITSELF} (exit code 1)", "was stopped"
STOPPED = '{"asked": "stop"}'
LIVES = [Life("a/0", 10, 20, ENDED), Life("a/0", 30)]


def facts(lives=None, changes=(), synced=None, begun=None):
    return Facts(lives or {}, {}, {}, {}, {}, True, {}, synced or {}, begun or {}, changes)


def row(event, at_us, detail="{}", instance=0):
    return {"app": "a", "instance": instance, "event": event, "at_us": at_us, "detail": detail}


@pytest.mark.parametrize(("at_us", "begin_us"), [(9, None), (10, 10), (20, 10), (29, 10), (30, 30), (99, 30)])
def test_an_incarnation_begins_with_its_start(at_us, begin_us):
    found = facts({"a/0": LIVES}).life("a/0", at_us)
    assert (found.begin_us if found else None) == begin_us
    assert facts({"a/0": LIVES}).life("a/1", at_us) is None


@pytest.mark.parametrize(("at_us", "ended"), [(9, False), (19, True), (20, True), (21, False), (31, False)])
def test_an_end_is_of_the_incarnation_that_ran_until_then(at_us, ended):
    found = facts({"a/0": LIVES}).end("a/0", at_us)
    assert (found == LIVES[0]) is ended and (found is None) is not ended


@pytest.mark.parametrize(("instance", "at_us", "same"), [("a/0", 15, True), ("a/0", 30, False), ("a/1", 15, False)])
def test_a_fetch_is_of_one_incarnation(instance, at_us, same):
    known = facts({"a/0": LIVES, "a/1": LIVES})
    assert known.same({"instance": instance, "answered_us": at_us}, LIVES[0], "a/0") is same


@pytest.mark.parametrize(
    ("rows", "stop_us", "lives"),
    [
        ([row("started", 1), row("ready", 2)], None, [(1, None, "")]),
        ([row("started", 1), row("exited", 5, '{"exit_code": 3}')], None, [(1, 5, f"{BY_ITSELF} (exit code 3)")]),
        ([row("started", 1), row("exited", 5, '{"asked": "kill"}')], None, [(1, 5, "was killed")]),
        ([row("started", 1), row("exited", 5, STOPPED)], None, [(1, 5, ASKED)]),
        ([row("started", 1), row("exited", 5), row("exited", 6)], 9, [(1, 5, f"{BY_ITSELF} (exit code None)")]),
        ([row("started", 1), row("exited", 5)], 5, [(1, None, "")]),  # the run stops it
        ([row("started", 1), row("exited", 5)], 6, [(1, 5, f"{BY_ITSELF} (exit code None)")]),
        ([row("exited", 5)], None, []),  # of what was never seen to start
        ([row("started", 7), row("exited", 5, STOPPED), row("started", 1)], None, [(1, 5, ASKED), (7, None, "")]),
        ([row("started", 1), row("exited", 5, STOPPED), row("started", 7), row("exited", 9, STOPPED)], None,
         [(1, 5, ASKED), (7, 9, ASKED)]),
    ],
)  # fmt: skip
def test_incarnations_come_from_starts_and_ends_in_order(rows, stop_us, lives):
    assert [(e.begin_us, e.end_us, e.how) for e in lives_of(rows, stop_us)["a/0"]] == lives


def change(from_us=50, offset=100, sure=True, place="orders/0"):
    return OffsetChange("reset", "g", from_us, from_us + 5, sure, None if place is None else {place: offset})


@pytest.mark.parametrize(
    ("one", "past", "found"),
    [
        (change(), True, True),
        (change(), False, False),
        (change(offset=42), False, True),  # back to the input: it is read again
        (change(offset=42), True, False),
        (change(offset=43), True, True),
        (change(offset=None), True, True),  # deleted: auto.offset.reset decides
        (change(offset=None), False, True),
        (change(place=None), True, True),  # the whole group
        (change(sure=False), True, False),
        (change(place="orders/1"), True, False),
        (change(from_us=40), True, True),
        (change(from_us=39), True, False),
        (change(from_us=60), True, True),
        (change(from_us=61), True, False),
    ],
)
def test_a_change_of_offsets_moved_the_group_past_an_input_or_back_to_it(one, past, found):
    finding = {"topic": "orders", "partition": 0, "offset": 42}
    assert facts(changes=[change(sure=False), one]).change(finding, 40, 60, past) == (one if found else None)


@pytest.mark.parametrize(
    ("synced", "begun", "reader", "committed_us", "handed"),
    [
        ([30], [], "b/0", 30, True),
        ([30], [], "b/0", 29, False),  # the commit came before the assignment
        ([30], [], "b/0", None, False),  # it was never answered
        ([30, 45], [], "b/0", 35, True),  # the second one is after the fetch
        ([30, 40], [], "b/0", 35, False),
        ([15], [], "b/0", 35, True),  # before the first fetch, which is of another instance
        ([], [30], "b/0", 35, False),  # of another instance any assignment counts, and there is none
        ([30], [], "a/0", 35, False),  # its own fetches go on where it kept the partition
        ([30], [30], "a/0", 35, True),
        ([30], [20], "a/0", 35, False),  # before its first fetch
        ([30], [21], "a/0", 35, True),
    ],
)
def test_a_commit_was_in_force_only_after_the_next_assignment(synced, begun, reader, committed_us, handed):
    first, second = {"answered_us": 20}, {"instance": reader, "answered_us": 40}
    commit = {"instance": "a/0", "answered_us": committed_us}
    known = facts(synced={reader: synced}, begun={reader: begun})
    assert known.handed_over(first, commit, second) is handed


def ends(*words):
    """Return incarnations that ended in these ways; None: it still runs."""
    return [Life("a/0", n * 10, None if how is None else n * 10 + 5, how or "") for n, how in enumerate(words)]


@pytest.mark.parametrize(
    ("lives", "left_off", "keeps"),
    [
        ({}, False, False),
        ({"a/0": []}, False, False),
        ({"a/0": ends(None)}, False, False),
        ({"a/0": ends(ENDED)}, True, False),
        ({"a/0": ends(ENDED, None)}, False, False),
        ({"a/0": ends(ASKED)}, False, False),
        ({"a/0": ends(ENDED, ENDED, ENDED)}, True, True),
        ({"a/0": ends(ENDED, ENDED, ENDED, None)}, False, True),
        ({"a/0": ends(ASKED, ENDED, ENDED, ENDED)}, True, True),
        ({"a/0": ends(ENDED, ENDED, ASKED, None)}, False, False),
        ({"a/0": ends(ENDED, ENDED, ENDED), "a/1": ends(None)}, False, False),
        ({"a/0": ends(ENDED, ENDED, ENDED), "a/1": ends(ENDED)}, True, False),
        ({"a/0": ends(ENDED), "a/1": []}, True, False),  # never started
    ],
)
def test_instances_that_left_off_and_instances_that_keep_ending(lives, left_off, keeps):
    known = facts(lives)
    assert (known.left_off, known.keeps_ending) == (left_off, keeps)
