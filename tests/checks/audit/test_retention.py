"""What should have been deleted when the log was read back: the bounds of segments, checks, faults and clocks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from chaos.scenario.load import parse
from checks.audit.engine.blocks import KINDS
from checks.audit.engine.tally import FINDINGS, Tally
from checks.audit.facts.retention import Overdue, backdated_topics, overdue_records
from checks.audit.findings import UNDECIDED
from checks.audit.rules.cleanup import DUE, ahead_by, behind_by, overdue_record
from checks.audit.rules.producer_block import ProducerBlock

PLACE = ("orders", 0)
S = 1_000_000
READ_US = 100 * S


def overdue(
    acked: dict[int, int],
    topic: str = "retention.ms: 4000, segment.ms: 1000",
    faults: str = "",
    rows: list[dict[str, Any]] | None = None,
    end: int = 1_000,
    begin_us: int = 0,
    start: int = 0,
    compacts: bool = False,
) -> Overdue | None:
    """acked: by second, the offset after the last one that was acknowledged by then."""
    text = f"""
title: t
cluster: {{kafka: 3.9.2, config: {{log.retention.check.interval.ms: 1000, log.initial.task.delay.ms: 1000}}}}
topics: [{{name: orders, config: {{{topic}}}}}]
producers: [{{name: shop, topic: orders, keys: 9}}]
faults: [{faults}]
"""
    keys = np.array([(at * S - 1) // 250_000 for at in acked], np.int64)
    reached = {"orders": (keys, np.array(list(acked.values()), np.int64))}
    ranges, read = {PLACE: (start, end)}, {PLACE: (READ_US, READ_US)}
    found = overdue_records(parse(text, "x"), compacts, rows or [], ranges, read, reached, begin_us)
    return found.get(PLACE)


def test_a_record_is_due_when_its_segment_and_the_check_are_over() -> None:
    """Read at 100 s; a check that is late by 10 s was at 89 s; what was 4 s old then is from before 85 s."""
    written = {80: 100, 84: 200, 85: 300, 86: 400, 99: 1_000}
    assert overdue(written) == Overdue(200)  # the segment of offset 200 may end at 86 s
    assert overdue(written, "retention.ms: 4000") is None  # all may be in the last segment
    assert overdue(written, "retention.ms: 4000, segment.bytes: 1280") == Overdue(300 - 11)
    assert overdue(written, "retention.ms: 4000, segment.bytes: 1280, compression.type: lz4") is None
    assert overdue(written, start=200) == Overdue(200)  # they are examined, though they are gone


def test_the_last_segment_is_due_too_if_nothing_was_written_since() -> None:
    assert overdue({80: 100, 84: 1_000}, "retention.ms: 4000") == Overdue(1_000)
    assert overdue({80: 100, 84: 999}, "retention.ms: 4000") is None  # nobody knows when the last record was written
    assert overdue({80: 100, 86: 1_000}, "retention.ms: 4000") is None


IN_TRANSACTIONS = """title: t
topics: [{name: orders, config: {cleanup.policy: compact, max.compaction.lag.ms: 4000}}]
producers: [{name: shop, topic: orders, keys: 9, transactions: {}}]
"""
LAG = "cleanup.policy: compact, max.compaction.lag.ms: 4000"


def test_a_superseded_record_is_due_when_its_segment_had_ended_and_the_cleaner_has_looked_since() -> None:
    """Read at 100 s; the cleaner looks every 15 s, and may take 25 s more; 4 s old then is what is from before 56 s."""
    written = {30: 100, 42: 200, 45: 300, 55: 400, 59: 1_000}
    assert overdue(written, LAG, compacts=True) == Overdue(200)  # max.compaction.lag.ms ends a segment, too
    assert overdue(written, f"{LAG}, segment.ms: 1000", compacts=True) == Overdue(300)
    assert overdue(written, f"{LAG}, segment.bytes: 1280", compacts=True) == Overdue(400 - 11)
    assert overdue({30: 100, 42: 1_000}, LAG, compacts=True) is None  # the active segment is never cleaned
    assert overdue({30: 100, 42: 200, 61: 1_000}, LAG, compacts=True) is None  # it ended after the last look
    assert overdue(written, "cleanup.policy: compact", compacts=True) is None
    assert overdue(written, LAG) is None
    assert parse(IN_TRANSACTIONS, "x").superseded("orders") is None  # the cleaner waits for their end
    assert parse(IN_TRANSACTIONS.replace(", transactions: {}", ""), "x").superseded("orders") is not None
    throttled = (
        "{name: f, kind: broker.config, target: {broker: 1}, settings: {log.cleaner.threads: 1}, when: {at: 1s}}"
    )
    assert overdue(written, LAG, throttled, compacts=True) is None
    for at_s, found in ((55, Overdue(200)), (57, None)):
        rows = [row("k", "injected", 10), row("k", "healed", at_s)]
        assert overdue(written, LAG, STOPPED, rows, compacts=True) == found


STOPPED = "{name: k, kind: broker.kill, target: {broker: 1}, when: {at: 1s}, heal: {after: 1s}}"
CUT = "{name: d, kind: topic.delete_records, leave: 1, target: {topic: orders}, when: {at: 1s}}"
AHEAD = "{name: c, kind: clock.jump, by: +48h, target: {member: shop/1}, when: {at: 1s}}"
WRONG = "{name: c, kind: clock.jump, by: -48h, target: {broker: 1}, when: {at: 1s}}"


def row(fault: str, phase: str, at_s: int) -> dict[str, Any]:
    return {"fault": fault, "phase": phase, "at_us": at_s * S}


def test_checks_count_from_the_end_of_the_last_fault_of_a_broker() -> None:
    written = {80: 100, 84: 1_000}
    assert overdue(written, faults=STOPPED, rows=[row("k", "injected", 50), row("k", "healed", 87)]) is not None
    assert overdue(written, faults=STOPPED, rows=[row("k", "injected", 50), row("k", "healed", 89)]) is None
    assert overdue(written, faults=AHEAD, rows=[row("c", "injected", 50), row("c", "healed", 99)]) is not None
    assert overdue(written, faults=CUT, rows=[row("d", "proven", 99)]) is not None
    assert overdue(written, begin_us=89 * S) is None


def test_a_broker_that_kept_a_wrong_clock_leaves_it_open() -> None:
    written = {80: 100, 84: 1_000}
    assert overdue(written, faults=WRONG, rows=[row("c", "injected", 50)]) == Overdue(1_000, unsure=True)
    assert overdue(written, faults=WRONG, rows=[row("c", "injected", 50), row("c", "healed", 60)]) == Overdue(1_000)


def scenario(producers: str, topic: str = "", faults: str = "") -> Any:
    return parse(
        f"title: t\ntopics: [{{name: orders, config: {{{topic}}}}}]\nproducers: [{producers}]\nfaults: [{faults}]\n",
        "x",
    )


def test_only_records_with_times_behind_are_explained() -> None:
    two = "{name: shop, topic: orders, count: 2, timestamps: seconds}, {name: till, topic: orders}"
    (found,) = backdated_topics(scenario(two), [], {PLACE: 7}, 60 * S).values()
    once = np.array([5 * S])
    assert found.explains("shop/2", once, once).all()
    assert not found.explains("till/1", once, once).any()
    assert found.ordered == {0: 7}
    assert backdated_topics(scenario(two), [], {PLACE: None}, 60 * S) == {}  # a fault may have deleted any record
    assert backdated_topics(scenario(two, "retention.ms: 1000"), [], {PLACE: 0}, 60 * S) == {}


def test_a_clock_explains_what_was_sent_while_it_was_wrong() -> None:
    behind = AHEAD.replace("+48h", "-8d")
    rows = [row("c", "injecting", 10), row("c", "injected", 10), row("c", "healed", 20)]
    shop = scenario("{name: shop, topic: orders}", faults=behind)
    found = backdated_topics(shop, rows, {PLACE: 0}, 60 * S)["orders"]
    times = np.array([9 * S, 15 * S, 21 * S])
    assert found.explains("shop/1", times, times + 1).tolist() == [False, True, False]
    assert not backdated_topics(shop, [], {PLACE: 0}, 60 * S)["orders"].explains("shop/1", times, times).any()


@pytest.mark.parametrize(
    ("producers", "faults", "cause"),
    [
        ("{name: shop, topic: orders, timestamps: seconds}", "", "shop sets them, and its timestamps are seconds"),
        ("{name: shop, topic: orders, timestamps: -8d}", "", "shop sets them, and its timestamps are 8 d behind"),
        (
            "{name: shop, topic: orders}",
            AHEAD.replace("+48h", "-8d"),
            "the timestamps of shop are up to 8 d behind (c changed",
        ),
        ("{name: shop, topic: orders}", "", ""),
    ],
)
def test_the_cause_of_an_early_deletion_names_the_timestamps(producers: str, faults: str, cause: str) -> None:
    text = behind_by(scenario(producers, faults=faults), "shop/1", "orders")
    assert cause in text and bool(cause) == bool(text)


@pytest.mark.parametrize(
    ("producers", "faults", "cause"),
    [
        ("{name: shop, topic: orders}", AHEAD, "the timestamps of shop are up to 2 d ahead (c changed its clock)"),
        ("{name: shop, topic: orders, timestamps: microseconds}", "", "microseconds, which are far in the future"),
        ("{name: shop, topic: orders}", WRONG, "c changed clocks of brokers"),
        ("{name: shop, topic: orders}", "", ""),
    ],
)
def test_the_cause_of_a_record_kept_too_long_names_timestamps_or_clocks(
    producers: str, faults: str, cause: str
) -> None:
    text = ahead_by(scenario(producers, faults=faults), "orders")
    assert cause in text and bool(cause) == bool(text)


@pytest.mark.parametrize(("unsure", "found"), [(False, {"": 2}), (True, {UNDECIDED: 2})])
def test_records_that_a_wrong_clock_may_have_kept_are_undecided(unsure, found):
    three = np.arange(3)
    rows: Any = {side: dict.fromkeys(KINDS[side], np.zeros(3, np.int64)) for side in ("sends", "log")}
    rows = {side: columns | {"seq": three, "offset": three} for side, columns in rows.items()}
    place = ("t", 0)
    facts: Any = SimpleNamespace(overdue={place: Overdue(2, unsure)}, topics=["t"])
    facts.read_us, facts.log_ranges = {place: (8, 9)}, {place: (0, 3)}
    tally = Tally()
    overdue_record(ProducerBlock("p/1", 0, facts, rows), tally)
    assert {split: count for (_, split, _), (count, _) in tally.each(FINDINGS)} == found
    assert tally.count(DUE, "t") == 2
