"""Transactional producers and processors with a real broker: commits, aborts and fencing."""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as pq
import pytest

from chaos.drive.drain import readable_ends
from chaos.kafka.partition import TopicPartition
from chaos.run.directory import Run
from checks.readback.source import OffsetRange, read
from checks.readback.stage import log_ranges, stable_offsets
from tests.chaos.clients.conftest import WAIT_S, MakeFleet, until
from tests.support.ledgers import rows, topic_name

pytestmark = pytest.mark.kafka


def committed_rows(run: Run, bootstrap: str, topic: str) -> list[dict[str, object]]:
    """Return the log of a topic as the read-back writes it."""
    folder = run.path / f"read-{topic}"
    folder.mkdir()
    stable = stable_offsets(bootstrap, [topic])
    for i, ((name, number), (start, end)) in enumerate(log_ranges(bootstrap, [topic]).items()):
        if start < end:
            read(OffsetRange(bootstrap, name, number, start, end, folder, i, None, stable[name, number]))
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def test_committed_records_are_readable_and_aborted_ones_are_not(fleet: MakeFleet, run: Run, bootstrap: str) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 450, keys: 20, transactions: {{records: 100, abort_every: 2}}}}]
""")
    f.start_producers()
    until(f.producers_done, "the producer did not finish")
    assert f.stop_all(WAIT_S) == [] and f.unexpected_exits() == []
    txns = {r["txn"]: r["outcome"] for r in rows(run, "transactions")}
    assert txns == {1: "committed", 2: "aborted", 3: "committed", 4: "aborted", 5: "committed"}
    sends = rows(run, "sends")
    assert {(s["seq"], s["txn"], s["outcome"]) for s in sends} == {(n, n // 100 + 1, "ok") for n in range(450)}
    log = committed_rows(run, bootstrap, t)
    assert {(r["seq"], r["committed"]) for r in log} == {(n, (n // 100 + 1) % 2 == 1) for n in range(450)}
    ends = {TopicPartition(t, p): e for (_, p), (_, e) in log_ranges(bootstrap, [t]).items()}
    readable = readable_ends(bootstrap, None, ends, "read_committed")
    assert readable == {TopicPartition(t, p): max(r["offset"] for r in log if r["partition"] == p) + 1 for p in (0, 1)}
    assert all(readable[name] < end for name, end in ends.items())  # the marker of the last transaction follows


def test_a_transaction_spans_all_topics_of_its_producer(fleet: MakeFleet, run: Run, bootstrap: str) -> None:
    t, u = topic_name(), topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}, {{name: {u}, replication_factor: 1}}]
producers: [{{name: shop, topics: [{t}, {u}], records: 60, transactions: {{records: 20, abort_every: 2}}}}]
""")
    f.start_producers()
    until(f.producers_done, "the producer did not finish")
    assert f.stop_all(WAIT_S) == [] and f.unexpected_exits() == []
    expected = {(n, (t, u)[n % 2], n // 20 != 1) for n in range(60)}
    assert {
        (r["seq"], r["topic"], r["committed"]) for n in (t, u) for r in committed_rows(run, bootstrap, n)
    } == expected
    assert {(s["seq"], s["topic"], s["txn"] != 2) for s in rows(run, "sends")} == expected


def test_the_next_incarnation_fences_the_earlier_one_and_continues(fleet: MakeFleet, run: Run, bootstrap: str) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 100000, rate: 500/s, transactions: {{records: 50}}}}]
""")
    f.start_producers()
    until(lambda: f.total_acked() > 200, "nothing is acknowledged")
    first = f.state("shop/1")
    f.take_over("shop/1")
    until(lambda: not first.alive, "the first incarnation still runs")
    assert any("fenced" in e.lower() or "PRODUCER_EPOCH" in e for e in first.errors), first.errors
    until(lambda: f.state("shop/1").count("acked") > 200, "the second incarnation does not continue")
    assert f.stop_all(WAIT_S) == [] and f.unexpected_exits() == []
    log = committed_rows(run, bootstrap, t)
    assert set(Counter(r["seq"] for r in log if r["committed"]).values()) == {1}
    assert {r["incarnation"] for r in log} == {1, 2}


def test_a_hanging_transaction_is_unknown_and_not_readable(fleet: MakeFleet, run: Run, bootstrap: str) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 100, transactions: {{records: 60, hold: 30s}}}}]
""")
    f.start_producers()
    until(lambda: f.total_acked() == 60, "nothing is acknowledged")
    until(lambda: len(rows(run, "sends")) == 60, "the sends have no rows")
    f.crash("shop/1")
    assert rows(run, "transactions") == [] and {s["txn"] for s in rows(run, "sends")} == {1}
    assert [r["committed"] for r in committed_rows(run, bootstrap, t)] == [None] * 60


def test_a_processor_writes_one_record_per_input_record_despite_aborts_and_a_crash(
    fleet: MakeFleet, run: Run, bootstrap: str
) -> None:
    t, out = topic_name(), topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 3, replication_factor: 1}}, {{name: {out}, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 2000, rate: 500/s}}]
processors:
  - name: billing
    group: g{t}
    topics: [{t}]
    to: {out}
    transactions: {{records: 40, abort_every: 3}}
    consumer_config: {{auto.offset.reset: earliest, session.timeout.ms: 3000, heartbeat.interval.ms: 300}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    f.start_producers()
    until(lambda: f.delivered("billing") > 500, "nothing is processed")
    f.crash("billing/1")
    f.restart("billing/1")
    until(f.producers_done, "the producer did not finish")
    ends = {f"{t}/{p}": end for (_, p), (_, end) in log_ranges(bootstrap, [t]).items()}
    until(lambda: f.positions("billing") == ends, "the processor is not at the end")
    assert f.stop_all(WAIT_S) == [] and f.unexpected_exits() == []
    log = committed_rows(run, bootstrap, out)
    assert sum(1 for r in log if r["committed"]) == 2000  # one per input record: none twice, none missing
    assert any(not r["committed"] for r in log)
    assert {r["producer"] for r in log} == {"billing/1"}
    inputs = Counter((r["input_topic"], r["input_partition"], r["input_offset"]) for r in log if r["committed"])
    assert inputs == Counter((t, p, offset) for p in range(3) for offset in range(log_ranges(bootstrap, [t])[t, p][1]))
    coordinates = ("seq", "input_topic", "input_partition", "input_offset")
    sent = {tuple(s[name] for name in coordinates) for s in rows(run, "sends") if s["producer"] == "billing/1"}
    assert sent <= {tuple(r[name] for name in coordinates) for r in log} and len(sent) >= 1960
    assert {s["input_topic"] for s in rows(run, "sends") if s["producer"] == "shop/1"} == {None}
    assert {a["event"] for a in rows(run, "assignments")} >= {"assigned", "seek", "revoked"}
    assert {a["source"] for a in rows(run, "assignments") if a["event"] == "seek"} <= {"committed", "reset"}
    commits = rows(run, "commits")
    assert {c["kind"] for c in commits} == {"transaction"} and {c["outcome"] for c in commits} == {"ok", "fail"}
    consumed = Counter((d["partition"], d["offset"]) for d in rows(run, "deliveries"))
    assert len(consumed) == 2000 and max(consumed.values()) > 1


def test_a_producer_that_resends_restarts_at_the_first_unacknowledged_record(
    fleet: MakeFleet, run: Run, bootstrap: str
) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 3, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 2000, rate: 1000/s, resend: true}}]
""")
    f.start_producers()
    until(lambda: f.total_acked() > 300, "nothing is acknowledged")
    f.order("shop/1", {"do": "ignore_reports"})
    first = f.state("shop/1")
    until(lambda: first.count("sent") > first.count("acked") + 300, "it does not continue")
    f.crash("shop/1")
    recorded = {s["seq"] for s in rows(run, "sends")}
    f.restart("shop/1")
    until(f.producers_done, "the producer did not finish")
    assert f.stop_all(WAIT_S) == []
    again = [s for s in rows(run, "sends") if s["incarnation"] == 2]
    assert min(s["seq"] for s in again) == min(set(range(2000)) - recorded)
    copies = Counter(r["seq"] for r in committed_rows(run, bootstrap, t))
    assert sum(1 for n in copies.values() if n > 1) >= 100


@pytest.mark.parametrize("mode", ["synchronous", "fire_and_forget"])
def test_every_record_has_a_row_in_each_mode(fleet: MakeFleet, run: Run, bootstrap: str, mode: str) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 3, replication_factor: 1}}]
producers:
  - name: shop
    topic: {t}
    records: 300
    mode: {mode}
    partitioner: round_robin
    config: {{acks: all, queue.buffering.max.messages: 100, linger.ms: 1}}
""")
    f.start_producers()
    until(f.producers_done, "the producer did not finish")
    assert f.stop_all(WAIT_S) == []
    sends = rows(run, "sends")
    assert sorted(s["seq"] for s in sends) == list(range(300))
    assert all(s["partition"] == s["seq"] % 3 for s in sends if s["outcome"] == "ok")
    refused = {s["error"] for s in sends if s["outcome"] == "fail"}
    assert refused == ({"_QUEUE_FULL"} if mode == "fire_and_forget" else set())


@pytest.mark.parametrize(("commit", "again"), [("after_output", True), ("before_output", False)])
@pytest.mark.landing
def test_a_plain_processor_that_dies_between_its_steps_repeats_or_loses_outputs(
    fleet: MakeFleet, run: Run, bootstrap: str, commit: str, again: bool
) -> None:
    t, out = topic_name(), topic_name()
    f = fleet(f"""
topics: [{{name: {t}, replication_factor: 1}}, {{name: {out}, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 600, rate: 300/s}}]
processors:
  - name: billing
    group: g{t}
    topics: [{t}]
    to: {out}
    plain: {{commit: {commit}, hold: 2s, records: 500}}
    consumer_config: {{auto.offset.reset: earliest, session.timeout.ms: 3000, heartbeat.interval.ms: 300}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    f.start_producers()
    until(f.producers_done, "the producer did not finish")
    seen = f.delivered("billing")
    until(lambda: f.delivered("billing") > seen, "nothing is processed")
    f.crash("billing/1")
    f.restart("billing/1")
    until(lambda: f.positions("billing") == {f"{t}/0": 600}, "the processor is not at the end")
    assert f.stop_all(WAIT_S) == [] and f.unexpected_exits() == []
    log = committed_rows(run, bootstrap, out)
    outputs = Counter(r["input_offset"] for r in log)
    assert {r["input_topic"] for r in log} == {t}
    assert (max(outputs.values()) == 2, len(outputs) == 600) == (again, again)
    assert len({r["seq"] for r in log}) == len(log)  # no number is used twice, although rows died with the first one
    commits = rows(run, "commits")
    assert {(c["kind"], c["outcome"]) for c in commits} == {("sync", "ok")}
