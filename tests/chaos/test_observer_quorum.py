"""What is recorded of the answers of a controller."""

from __future__ import annotations

import threading

import pytest

from chaos.kafka.client import Belief
from chaos.observer import QuorumWatch, Track
from chaos.wait import wait_until


def recorded(*answers: Belief | None) -> list[tuple[str, object]]:
    """Return the changes of each key, as the observer records them."""
    rows: list[tuple[str, object]] = []
    latest: dict[str, object] = {}

    def note(entity: str, key: str, value: object) -> None:
        assert entity == "controller:101"
        if key not in latest or latest[key] != value:
            latest[key] = value
            rows.append((key, value))

    track = Track(101, note)
    for answer in answers:
        track.add(answer)
    track.end()
    return rows


def test_the_last_answer_as_the_active_one_is_recorded_when_it_ends() -> None:
    rows = recorded(Belief(None, 0), Belief(3, 1), Belief(3, 2), Belief(None, 3), Belief(5, 4))
    assert rows == [
        ("active", 3),
        ("active_last", {"epoch": 3, "asked_us": 2}),
        ("active", None),
        ("active", 5),
        ("active_last", {"epoch": 5, "asked_us": 4}),
    ]


def test_the_first_answer_after_silence_does_not_count() -> None:
    """A paused process may answer before it looks at its clock."""
    rows = recorded(Belief(3, 0), Belief(3, 1), None, Belief(3, 9), Belief(None, 10))
    assert rows == [("active", 3), ("active_last", {"epoch": 3, "asked_us": 1}), ("active", None)]


def test_a_new_epoch_of_the_same_controller_ends_the_former_one() -> None:
    rows = recorded(Belief(3, 0), Belief(3, 1), Belief(4, 2))
    assert rows == [
        ("active", 3),
        ("active_last", {"epoch": 3, "asked_us": 1}),
        ("active", 4),
        ("active_last", {"epoch": 4, "asked_us": 2}),
    ]


def test_each_controller_is_watched_until_the_context_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[tuple[str, str, object]] = []
    monkeypatch.setattr("chaos.observer.QUORUM_EVERY_S", 0.01)
    monkeypatch.setattr("chaos.observer.ask_controller", lambda node, link, timeout_s: Belief(node, 1))
    controllers = {101: ("127.0.0.1", 1), 102: ("127.0.0.1", 2)}
    with QuorumWatch(controllers, lambda *note: notes.append(note), lambda node: None):
        for node in controllers:
            wait_until(lambda node=node: (f"controller:{node}", "active", node) in notes, 5, "it is not watched")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("quorum-watch-")]
    ends = {(entity, value["epoch"]) for entity, key, value in notes if key == "active_last"}
    assert ends == {("controller:101", 101), ("controller:102", 102)}
