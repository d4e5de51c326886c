"""The lives of a group, from the states that its coordinator reported and from the generations of its members."""

from __future__ import annotations

from typing import Any

from checks.audit.facts.epochs import Epochs, build
from checks.audit.facts.lost_offsets import restarts
from checks.audit.facts.observed import Observed
from checks.audit.facts.offset_changes import group_lives


def observed(*states: tuple[int, str]) -> Observed:
    rows = [{"at_us": at, "entity": "group:g", "key": "state", "value": f'"{state}"'} for at, state in states]
    return Observed(rows, 100)


def epochs(*begun: tuple[int, str, int, str]) -> Epochs:
    """Epochs by begin, consumer, generation and member id."""
    one = {"incarnation": 1, "group": "g", "mode": "subscribe", "topic": "t", "partition": 0, "event": "assigned"}
    rows: list[dict[str, Any]] = []
    for n, (at_us, consumer, generation, member) in enumerate(begun):
        row = one | {"consumer": consumer, "assignment": n, "generation": generation, "member_id": member}
        rows.append(row | {"position": 0, "source": "committed", "at_us": at_us, "instance_id": None})
    return build(rows, {}, [], {}, 100)


def spans(seen: Observed, members: Epochs) -> list[tuple[int, int | None, int | None, int | None]]:
    found = group_lives(seen, restarts(members), members)
    assert [life.life for life in found] == list(range(1, len(found) + 1))
    return [(life.begin_us, life.end_us, life.first_generation, life.last_generation) for life in found]


def test_a_group_that_goes_on_has_one_life() -> None:
    members = epochs((22, "c/1", 1, "a"), (30, "c/1", 4, "a"), (31, "c/2", 4, "b"))
    assert spans(observed((10, "Dead"), (20, "Stable"), (40, "Empty")), members) == [(20, None, 1, 4)]


def test_a_life_ends_when_the_coordinator_does_not_know_the_group() -> None:
    members = epochs((22, "c/1", 3, "a"), (59, "c/1", 1, "a"), (70, "c/1", 2, "a"))
    seen = observed((20, "Stable"), (40, "Empty"), (50, "Dead"), (60, "Stable"))
    assert spans(seen, members) == [(20, 50, 3, 3), (60, None, 1, 2)]


def test_a_life_begins_when_generations_begin_again() -> None:
    """All members of the new life show it, which begins once."""
    members = epochs((22, "c/1", 3, "a"), (23, "c/2", 3, "b"), (50, "c/1", 1, "c"), (51, "c/2", 1, "d"))
    assert spans(observed((20, "Stable")), members) == [(20, 50, 3, 3), (50, None, 1, 1)]


def test_the_same_generation_with_another_member_id_is_another_life() -> None:
    assert len(spans(observed((20, "Stable")), epochs((22, "c/1", 1, "a"), (50, "c/1", 1, "b")))) == 2
    assert len(spans(observed((20, "Stable")), epochs((22, "c/1", 1, "a"), (50, "c/1", 1, "a")))) == 1


def test_a_member_that_was_away_shows_a_generation_of_the_same_life() -> None:
    """It gets the assignment of an earlier generation late, when another member is in a later one."""
    members = epochs((22, "c/1", 1, "a"), (30, "c/2", 5, "b"), (40, "c/1", 4, "a"))
    assert spans(observed((20, "Stable")), members) == [(20, None, 1, 5)]
