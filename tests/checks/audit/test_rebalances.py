"""Unit: how long rebalances lasted, where static members come back without one (KIP-345)."""

from __future__ import annotations

from typing import Any

from checks.audit.facts.epochs import Life, build
from checks.audit.facts.readers import Reader
from checks.audit.output.metrics import rebalances

SECOND = 1_000_000
GROUP = Reader("g", "subscribe", "g", ("t",), 2, "earliest", "earliest", commits=True)


def row(at: int, event: str, consumer: str, partition: int, generation: int, incarnation: int = 1) -> dict[str, Any]:
    same = {"group": "g", "mode": "subscribe", "topic": "t", "position": 0, "source": "committed", "member_id": ""}
    return same | {
        "consumer": consumer,
        "incarnation": incarnation,
        "partition": partition,
        "generation": generation,
        "assignment": generation,
        "event": event,
        "instance_id": consumer,
        "at_us": at * SECOND,
    }


def lasted(*rows: dict[str, Any]) -> list[float]:
    died = Life("consumer", 0, 10 * SECOND, "crashed")
    epochs = build(list(rows), {("c/1", 1): died}, [], {}, 99 * SECOND)
    return [m["value_us"] / SECOND for m in rebalances([GROUP], epochs, {"t": 2})]


FORMED = row(1, "assigned", "c/1", 0, 1), row(1, "assigned", "c/2", 1, 1)
BACK = row(14, "assigned", "c/1", 0, 1, incarnation=2)


def test_a_static_member_that_is_back_in_its_generation_is_no_rebalance() -> None:
    assert lasted(*FORMED, BACK) == []


def test_the_next_rebalance_does_not_begin_when_it_was_away() -> None:
    later = [
        *(row(50, "revoked", "c/1", 0, 1, incarnation=2), row(51, "revoked", "c/2", 1, 1)),
        *(row(52, "assigned", "c/1", 1, 2, incarnation=2), row(53, "assigned", "c/2", 0, 2)),
    ]
    assert lasted(*FORMED, BACK, *later) == [3.0]


def test_a_static_member_that_is_not_back_in_time_is_a_rebalance() -> None:
    gone = row(20, "revoked", "c/2", 1, 1), row(21, "assigned", "c/2", 0, 2), row(21, "assigned", "c/2", 1, 2)
    assert lasted(*FORMED, *gone) == [11.0]
