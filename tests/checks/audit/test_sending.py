"""Unit: what hangs on how producers send: the partition that they promise, and failures that they do not notice."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka.partitioner.default import murmur2

from chaos.ledger.schemas import TABLES
from checks.audit.arrays import NONE, Columns
from checks.audit.engine.blocks import FAIL, OK, UNKNOWN
from checks.audit.engine.parts import Part
from checks.audit.engine.survey import SurveyPlan
from checks.audit.engine.tally import FINDINGS, Tally
from checks.audit.facts.epochs import Epochs
from checks.audit.facts.routes import Route
from checks.audit.facts.run_facts import NO_TXN, RunFacts
from checks.audit.rules.positions import misplaced_write
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.registry import ROW_RULES, judge_writes

ROUTES = {
    "turns": Route("seq", {3: 0}),
    "java": Route("murmur2", {3: 0}),
    "own": Route("key number", {3: 0}),
    "grown": Route("seq", {3: 0, 7: 3}),  # row by row, the acknowledgements come at 2, 3 and so on
}
PLAN = SurveyPlan("x", routes=ROUTES, row_rules=ROW_RULES)


def sends(*rows: tuple[str, int, int | None, str, str | None]) -> Part:
    """Rows of `sends`: producer, seq, partition, outcome, key."""
    names = ("producer", "seq", "partition", "outcome", "key")
    whole = [
        dict(zip(names, row, strict=True))
        | {"incarnation": 1, "topic": "orders", "offset": 9, "invoked_us": 1, "completed_us": 2 + nth}
        for nth, row in enumerate(rows)
    ]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(whole, TABLES["sends"]), file)
    return Part("sends", "x", pa.py_buffer(file.getvalue()), PLAN.columns("sends"))


def found(tally: Tally, check: str) -> tuple[int, list[int]]:
    """How often a check found something, and the seqs that it shows."""
    for key, (count, rows) in tally.each(FINDINGS):
        if key[0] == check and count:
            return count, sorted(row["seq"] for row in rows)
    return 0, []


def misrouted(*rows: tuple[str, int, int | None, str, str | None]) -> tuple[int, list[int]]:
    tally = Tally()
    PLAN.judge(sends(*rows), tally)
    return found(tally, "misrouted_write")


def test_a_record_in_the_partition_that_was_promised_is_where_it_belongs() -> None:
    assert misrouted(("turns/1", 4, 1, "ok", None), ("turns/2", 5, 2, "ok", None)) == (0, [])
    assert misrouted(("java/1", 0, java_partition("k1"), "ok", "k1")) == (0, [])


def test_a_record_in_another_partition_is_misrouted() -> None:
    assert misrouted(("turns/1", 4, 1, "ok", None), ("turns/1", 6, 1, "ok", None)) == (1, [6])
    assert misrouted(("java/1", 7, (java_partition("k1") + 1) % 3, "ok", "k1")) == (1, [7])


def test_no_promise_and_no_partition_are_nothing_to_judge() -> None:
    assert misrouted(("plain/1", 6, 1, "ok", None)) == (0, [])  # its partitioner promises nothing
    assert misrouted(("turns/1", 6, 1, "unknown", None)) == (0, [])  # not acknowledged
    assert misrouted(("turns/1", 6, None, "ok", None)) == (0, [])  # acknowledged nobody knows where
    assert misrouted(("java/1", 6, 1, "ok", None)) == (0, [])  # without a key it may be anywhere


def test_keys_without_a_number_take_part_in_no_route_by_number() -> None:
    """Other programs write to a topic too, with other keys."""
    others = [("other/1", n, 1, "ok", key) for n, key in enumerate(["shop-17", "", "k", "k-4", "kx", "k٣"])]
    assert misrouted(*others, ("own/1", 7, 1, "ok", "k4")) == (0, [])
    assert misrouted(*others, ("own/1", 8, 2, "ok", "k4")) == (1, [8])
    assert misrouted(("own/1", 9, 2, "ok", "customer"), ("own/1", 10, 0, "ok", "k4")) == (1, [10])


def test_after_partitions_were_added_both_numbers_may_be_known_to_a_client() -> None:
    early, late = ("grown/1", 10, 3, "ok", None), ("grown/1", 10, 3, "ok", None)  # 10 % 3 is 1, 10 % 7 is 3
    assert misrouted(early, late) == (1, [10])  # nobody can know 7 at the first
    assert misrouted(("grown/1", 1, 1, "ok", None), ("grown/1", 10, 1, "ok", None), late) == (0, [])
    assert misrouted(("grown/1", 1, 1, "ok", None), ("grown/1", 10, 2, "ok", None)) == (1, [10])  # by neither


def java_partition(key: str) -> int:
    return int((murmur2(key.encode()) & 0x7FFFFFFF) % 3)


def unnoticed(producer: str, outcomes: list[int], in_log: list[int]) -> tuple[int, list[int]]:
    """Sends of seq 0, 1, ... with these outcomes; the seqs that are in the log."""
    n = len(outcomes)
    same = {"incarnation": np.ones(n, np.int64), "topic": np.zeros(n, np.int64), "partition": np.zeros(n, np.int64)}
    times = {"invoked_us": np.ones(n, np.int64), "completed_us": np.full(n, 2)}
    offset = np.array([s if outcomes[s] == OK else NONE for s in range(n)], np.int64)
    sent: Columns = {"seq": np.arange(n), **same, "offset": offset, "outcome": np.array(outcomes), **times}
    sent["end"] = np.full(n, NO_TXN)
    seqs = np.array(in_log, np.int64)
    zeros = np.zeros(len(seqs), np.int64)
    copies: Columns = {"seq": seqs, "incarnation": zeros + 1, "topic": zeros, "partition": zeros, "offset": seqs}
    facts = RunFacts(
        run_token="x",
        topics=["orders"],
        senders=[(producer, 1)],
        epochs=Epochs([]),
        log_ranges={("orders", 0): (0, n)},
        producer_ends={(producer, 1): "stopped"},
        unwatched=frozenset({"forgetful"}),
    )
    tally = Tally()
    copies |= {"timestamp_us": zeros, "committed": zeros + 1}
    judge_writes(ProducerBlock(producer, 0, facts, {"sends": sent, "log": copies}), tally)
    return found(tally, "unnoticed_failure")


def test_a_failure_that_nobody_looks_at_is_unnoticed() -> None:
    assert unnoticed("forgetful/1", [OK, FAIL, UNKNOWN], [0]) == (2, [1, 2])


def test_a_failure_that_a_callback_reports_is_noticed() -> None:
    assert unnoticed("callback/1", [OK, FAIL, UNKNOWN], [0]) == (0, [])


def test_what_is_in_the_log_has_not_failed() -> None:
    assert unnoticed("forgetful/1", [OK, UNKNOWN], [0, 1]) == (0, [])


HERE = {"seq": 5, "incarnation": 1, "topic": 0, "partition": 1, "offset": 7}


@pytest.mark.parametrize(
    ("elsewhere", "odd"),
    [
        ({}, False),
        ({"incarnation": 2}, True),
        ({"topic": 1}, True),
        ({"partition": 2}, True),
        ({"offset": 8}, True),
        ({"partition": 2, "offset": 8}, True),
        ({"seq": 6}, True),
    ],
)
@pytest.mark.parametrize("unlocated", [False, True])
def test_a_record_that_is_not_where_it_was_acknowledged_is_looked_at(
    elsewhere: dict[str, int], odd: bool, unlocated: bool
) -> None:
    """Without an acknowledged position, a record may be anywhere in its topic."""
    position = dict.fromkeys(("partition", "offset"), NONE) if unlocated else {}
    sent = HERE | position | {"outcome": OK, "end": NO_TXN}
    copied = HERE | elsewhere | {"timestamp_us": 1, "committed": 1}
    rows: Any = {"sends": columns(sent), "log": columns(copied)}
    block = ProducerBlock("p/1", 0, RunFacts("x", ["orders", "bills"], [("p/1", 1)], Epochs([])), rows)
    odd = odd and not (unlocated and {*elsewhere} <= {*position})
    assert len(block.sends["seq"]) == len(block.appends["seq"]) == int(odd)


@pytest.mark.parametrize(("place", "count"), [({}, 0), ({"partition": 2}, 0), ({"offset": 8}, 1), ({"topic": 1}, 1)])
def test_without_an_acknowledged_partition_a_record_is_misplaced_at_another_offset_only(
    place: dict[str, int], count: int
) -> None:
    """Two copies: a single one with the same topic and offset is not looked at."""
    sent = HERE | {"partition": NONE, "outcome": OK, "end": NO_TXN, "invoked_us": 1, "completed_us": 2}
    copied = columns(HERE | place | {"timestamp_us": 1, "committed": 1})
    twice = {name: np.concatenate([column, column]) for name, column in copied.items()}
    facts, tally = RunFacts("x", ["orders", "bills"], [("p/1", 1)], Epochs([])), Tally()
    misplaced_write(ProducerBlock("p/1", 0, facts, {"sends": columns(sent), "log": twice}), tally)
    assert found(tally, "misplaced_write")[0] == count


def columns(row: dict[str, int]) -> Columns:
    return {name: np.array([value], np.int64) for name, value in row.items()}
