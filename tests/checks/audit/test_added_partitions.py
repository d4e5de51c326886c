"""Unit: which partitions came when a group had begun to read their topic, with several topics, which no story has."""

from __future__ import annotations

from dataclasses import replace

from checks.audit.facts.epochs import Epochs, build
from checks.audit.facts.observed import Observed
from checks.audit.facts.readers import Entry, Reader
from checks.audit.facts.topic_changes import AddedPartition, added_partitions

SECOND = 1_000_000
GROUP = Reader("g", "subscribe", "g", ("a", "b"), 2, "latest", "", commits=True, entries=(Entry("c", ("a", "b")),))


def epochs(*begun: tuple[str, str, int]) -> Epochs:
    """Of group g: consumer, topic and second of first assignments, of partition 0 each."""
    same = {"incarnation": 1, "assignment": 1, "partition": 0, "group": "g", "mode": "subscribe", "event": "assigned"}
    same |= {"member_id": "", "generation": 1, "source": "reset", "position": 0}
    rows = [same | {"consumer": who, "topic": topic, "at_us": at * SECOND} for who, topic, at in begun]
    return build(rows, {}, [], {}, 99 * SECOND)


def seen(*rows: tuple[int, str, str, str]) -> Observed:
    names = ("at_us", "entity", "key", "value")
    return Observed([dict(zip(names, (at * SECOND, *row), strict=True)) for at, *row in rows], 99 * SECOND)


LOOKED = (0, "cluster", "answers", "true")
B_MADE = (20, "b/0", "leader", "1")


def test_a_topic_made_after_the_group_had_subscribed_to_it_is_all_its_own() -> None:
    found = added_partitions([GROUP], epochs(("c/1", "a", 5)), seen(LOOKED, B_MADE), [("a", 0), ("b", 0)])
    assert found == {("g", "b", 0): AddedPartition(began_us=5 * SECOND, seen_us=20 * SECOND)}


def test_a_group_of_which_nobody_subscribed_to_the_topic_yet_has_not_begun() -> None:
    two = replace(GROUP, entries=(Entry("c", ("a",)), Entry("late", ("b",))))
    begun = epochs(("c/1", "a", 5), ("late/1", "b", 30))
    assert added_partitions([two], begun, seen(LOOKED, B_MADE), [("b", 0)]) == {}


def test_what_nobody_looked_for_may_have_been_there() -> None:
    begun = epochs(("c/1", "a", 5))
    assert added_partitions([GROUP], begun, seen(B_MADE), [("b", 0)]) == {}
    assert added_partitions([GROUP], begun, seen((6, *LOOKED[1:]), B_MADE), [("b", 0)]) == {}
    assert added_partitions([GROUP], begun, seen(LOOKED), [("b", 0)]) == {}


def test_it_may_have_been_made_while_nobody_answered() -> None:
    silent, again = (4, "cluster", "answers", "false"), (20, "cluster", "answers", "true")
    begun = epochs(("c/1", "a", 5))
    assert added_partitions([GROUP], begun, seen(LOOKED, silent, again, B_MADE), [("b", 0)]) == {}
    later = (10, *silent[1:])
    assert len(added_partitions([GROUP], begun, seen(LOOKED, later, again, B_MADE), [("b", 0)])) == 1


def test_an_assign_mode_consumer_owes_nothing_of_partitions_that_it_does_not_name() -> None:
    assigned = replace(GROUP, name="c/1", mode="assign")
    begun = epochs(("c/1", "a", 5))
    begun = Epochs(replace(e, reader="c/1", mode="assign") for e in begun.all)
    assert added_partitions([assigned], begun, seen(LOOKED, B_MADE), [("b", 0)]) == {}
