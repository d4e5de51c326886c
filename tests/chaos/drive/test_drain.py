"""The drain: it waits for the readers, and distinguishes one that is slow from one that is stalled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.drive import drain
from chaos.kafka.partition import TopicPartition
from chaos.run.directory import Run
from chaos.run.events import UNDRAINED, EventLog, read_events
from chaos.scenario.load import parse
from tests.chaos.conftest import Time

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
END = 1000
SCENARIO = """
title: t
topics: [{name: orders, partitions: 2}]
producers: [{name: shop, topic: orders, records: 2000}]
consumers: [{mode: subscribe, name: billing, group: billing, topics: [orders]}]
limits: {drain: 1s}
"""


class Fleet:
    """The readers: `position` has the offset of a partition after so many looks."""

    def __init__(self, position: Callable[[int, TopicPartition], int], members: int) -> None:
        self.looks = 0
        self._position, self._members = position, members

    def present(self, entry: str) -> list[str]:
        return [f"{entry}/1"]

    def positions(self, *names: str) -> dict[str, int]:
        self.looks += 1
        return {str(p): self._position(self.looks, p) for p in (FIRST, SECOND)}

    def holders(self, *names: str) -> dict[str, str]:
        return {str(FIRST): "billing/1", str(SECOND): f"billing/{self._members}"} if self._members else {}


def drained(
    run: Run, position: Callable[[int, TopicPartition], int], members: int = 2
) -> tuple[bool, list[dict[str, Any]]]:
    """Return the answer of a drain, and its events. members: who hold the two partitions."""
    kafka: Any = SimpleNamespace(end_offsets=lambda partitions: dict.fromkeys(partitions, END))
    fleet: Any = Fleet(position, members)
    cluster: Any = SimpleNamespace()
    one = drain.Drain(parse(SCENARIO, "t"), cluster, kafka, fleet, EventLog(run), lambda fleet, behind: None)
    return one.run([FIRST, SECOND]), read_events(run)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.drive.drain.time", Time())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, "r")


def test_readers_at_the_end_end_the_drain(run: Run) -> None:
    assert drained(run, lambda look, partition: min(END, 400 * look)) == (True, [])


def test_a_reader_that_goes_on_until_the_end_of_the_drain_is_slow(run: Run) -> None:
    done, events = drained(run, lambda look, partition: look)
    assert not done
    assert [e["kind"] for e in events] == ["note", UNDRAINED]
    assert (events[1]["readers"], events[1]["limit"]) == (["billing"], "1 s (limits.drain)")


@pytest.mark.parametrize(
    "position",
    [
        lambda look, partition: 7,
        lambda look, partition: look if partition == FIRST else 7,
        lambda look, partition: END if partition == FIRST else 7,
        lambda look, partition: min(look, 10),  # it stops early
        lambda look, partition: 500 - look,  # it goes back
        lambda look, partition: 100 + look % 5,  # it delivers the same again and again
    ],
)
def test_a_partition_without_progress_is_stalled(run: Run, position: Callable[[int, TopicPartition], int]) -> None:
    done, events = drained(run, position)
    assert not done
    assert [e["kind"] for e in events] == ["note"]
    assert "not drained after 1 s (limits.drain): billing is at " in events[0]["words"]


def test_a_member_that_works_on_one_partition_may_not_have_come_to_the_other_one(run: Run) -> None:
    one_after_another: Callable[[int, TopicPartition], int] = lambda look, p: look if p == FIRST else 7  # noqa: E731
    assert [e["kind"] for e in drained(run, one_after_another, members=1)[1]] == ["note", UNDRAINED]


@pytest.mark.parametrize("members", [0, 1])
def test_a_member_that_has_stopped_is_stalled_and_so_is_a_partition_that_nobody_holds(run: Run, members: int) -> None:
    stopped: Callable[[int, TopicPartition], int] = lambda look, p: min(look, 10) if members else 7  # noqa: E731
    assert [e["kind"] for e in drained(run, stopped, members)[1]] == ["note"]


SINK = "{connector.class: a.Sink, topics: orders}"
WORKER = f"""
title: t
topics: [{{name: orders, partitions: 2}}]
producers: [{{name: shop, topic: orders, records: 2000, value: {{template: '{{"id": "{{id}}"}}'}}}}]
effects: [{{name: rows, files: rows.csv, id: id}}]
apps: [{{name: worker, connect: {{connectors: {{acme.first: {SINK}, acme.second: {SINK}}}}}}}]
limits: {{drain: 1s}}
"""


@pytest.mark.parametrize("behind", [None, "connect-acme.first", "connect-acme.second"])
def test_each_sink_of_a_worker_is_waited_for_without_being_named(run: Run, behind: str | None) -> None:
    def done(group: str, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return ends | ({SECOND: 7} if group == behind else {})

    kafka: Any = SimpleNamespace(end_offsets=lambda partitions: dict.fromkeys(partitions, END), done=done)
    nothing: Any = SimpleNamespace()
    seen = []
    during = lambda fleet, behind: seen.append(drain.words_of(behind, 1))  # noqa: E731
    drain.Drain(parse(WORKER, "t"), nothing, kafka, nothing, EventLog(run), during).run([FIRST, SECOND])
    words = [event["words"] for event in read_events(run)]
    late = f"not drained after 1 s (limits.drain): worker (group {behind}) has done 7 of 1000 in orders/1"
    assert words == ([late] if behind else [])
    assert {*seen} == ({late.partition(": ")[2]} if behind else set())


def test_what_readers_have_left_is_said_shortly() -> None:
    behind = [drain.Behind("billing", FIRST, n, f"billing has {n} left", "billing/1") for n in range(1, 4)]
    assert drain.words_of(behind, 1) == "billing has 1 left and 2 more"
    assert drain.words_of(behind) == "billing has 1 left; billing has 2 left; billing has 3 left"
