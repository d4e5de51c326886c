"""Which open transactions hang: what partitions say before and after, and what coordinators say between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.errors import UsageError
from chaos.forensics import transactions
from chaos.forensics.model import Findings
from chaos.forensics.transactions import AtCoordinator, OnPartition, Seen, judge
from chaos.kafka.admin import DescribedSetting
from chaos.kafka.metadata import Metadata
from chaos.kafka.partition import TopicPartition

NOW_MS = 10_000_000
HELD = OnPartition(TopicPartition("orders", 0), 7, 2, 40, NOW_MS - 5_000)
KNOWN = AtCoordinator("shop-1", 7, 2, "Ongoing", NOW_MS - 6_000, 60_000, frozenset({("orders", 0)}))


def judged(seen: Seen) -> tuple[list[tuple[str, str | None, str | None]], Findings]:
    findings = Findings()
    rows = judge(seen, NOW_MS, findings)
    return [(r.state, r.transactional_id, r.partition) for r in rows], findings


def seen(**fields: Any) -> Seen:
    return Seen(**{"before": [HELD], "after": [HELD], "listed": [], "restricted": False, **fields})


def test_a_transaction_that_its_coordinator_has_is_open() -> None:
    rows, found = judged(seen(listed=[KNOWN]))
    assert rows == [("open", "shop-1", "orders/0")]
    assert found.counts == {}


def test_a_transaction_that_no_coordinator_has_hangs() -> None:
    rows, found = judged(seen())
    assert rows == [("hanging", None, "orders/0")]
    assert found.named[0].words == "producer id 7, epoch 2: no coordinator has it; its last record is 5 s old"
    assert found.named[0].where == "orders/0 from offset 40"


def test_a_transaction_that_its_coordinator_has_without_the_partition_hangs() -> None:
    rows, found = judged(seen(listed=[replace(KNOWN, partitions=frozenset({("orders", 1)}))]))
    assert rows == [("hanging", "shop-1", "orders/0")]
    assert "shop-1 is Ongoing without this partition" in found.named[0].words


def test_a_transaction_that_ended_meanwhile_is_left_out() -> None:
    assert judged(seen(after=[])) == ([], Findings())


def test_the_next_transaction_of_the_producer_is_another_one() -> None:
    assert judged(seen(after=[replace(HELD, start_offset=50)])) == ([], Findings())


def test_nothing_hangs_while_a_coordinator_does_not_answer() -> None:
    rows, found = judged(seen(complete="broker 2 does not list its transactions"))
    assert (rows, found.counts) == ([("undecided", None, "orders/0")], {})


def test_a_hidden_transactional_id_is_undecided_until_no_transaction_can_last_so_long() -> None:
    assert judged(seen(restricted=True))[0] == [("undecided", None, "orders/0")]
    assert judged(seen(restricted=True, longest_ms=6_000))[0] == [("undecided", None, "orders/0")]
    assert judged(seen(restricted=True, longest_ms=4_000))[0] == [("hanging", None, "orders/0")]


def test_a_transaction_without_a_record_yet_is_open_at_its_coordinator() -> None:
    rows, found = judged(seen(before=[], after=[], listed=[KNOWN]))
    assert (rows, found.counts) == ([("open", "shop-1", None)], {})


class Settings:
    """One broker."""

    def metadata(self) -> Metadata:
        return Metadata({1: ("h", 1)}, {}, 1, "id", {})


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ({"authorizer.class.name": "", "transaction.max.timeout.ms": "900000"}, (False, 900_000)),
        ({"authorizer.class.name": "an.Authorizer"}, (True, None)),
        ({}, (True, None)),
        (None, (True, None)),
    ],
)
def test_only_a_cluster_without_an_authorizer_hides_nothing(
    described: dict[str, str] | None, expected: tuple[bool, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings(*_: object) -> dict[str, DescribedSetting]:
        if described is None:
            raise UsageError("the user needs the right DescribeConfigs")
        return {name: DescribedSetting(value, "file") for name, value in described.items()}

    monkeypatch.setattr(transactions.admin, "broker_settings", settings)
    assert transactions.limits(Settings()) == expected


class Old:
    """Brokers before Kafka 3.0, one with a transaction open on orders/0."""

    def stable_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return {p: (50, 40 if p.number == 0 else 50) for p in partitions if p.number < 2}

    def supports(self, _: int) -> bool:
        return False


@pytest.mark.parametrize(("numbers", "held"), [((0, 1), "; transactions are open on orders/0"), ((1,), "")])
def test_old_brokers_are_named_with_what_is_known(numbers: tuple[int, ...], held: str) -> None:
    found, problem = transactions.ask(Old(), [TopicPartition("orders", n) for n in numbers])
    assert found == Seen()
    assert problem == f"transactions: brokers before Kafka 3.0 do not say which ones are open (KIP-664){held}"
