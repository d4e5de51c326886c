"""Kafka Streams applications with a real broker: outputs, rows, threads, a crash, and a state that is restored."""

from __future__ import annotations

from collections import Counter

import pytest

from chaos.fleet.fleet import Fleet
from chaos.run.directory import Run
from checks.readback.stage import log_ranges
from tests.chaos.clients.conftest import WAIT_S, MakeFleet, crash_while_reading, until
from tests.chaos.clients.test_transactions import committed_rows
from tests.support.ledgers import rows, topic_name

pytestmark = [pytest.mark.landing, pytest.mark.kafka]

RECORDS = 1500


QUICK = "auto.offset.reset: earliest, session.timeout.ms: 3000, heartbeat.interval.ms: 300"


def application(fleet: MakeFleet, t: str, out: str, client: str, more: str, settings: str = QUICK) -> Fleet:
    return fleet(f"""
topics: [{{name: {t}, partitions: 4, replication_factor: 1}}, {{name: {out}, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: {RECORDS}, rate: 300/s, keys: 30}}]
processors:
  - name: billing
    group: g{t}
    topics: [{t}]
    to: {out}
    client: {client}
    config: {{commit.interval.ms: 200, replication.factor: 1}}
    consumer_config: {{{settings}}}
    {more}
""")


def to_the_end(f: Fleet, t: str, bootstrap: str) -> None:
    ends = {f"{t}/{p}": end for (_, p), (_, end) in log_ranges(bootstrap, [t]).items()}
    until(lambda: f.positions("billing") == ends, "the application is not at the end")
    assert f.stop_all(WAIT_S) == [] and f.unexpected_exits() == []


OTHER = pytest.mark.nightly(
    twin="chaos/clients/streams/test_streams.py::test_threads_count_each_input_once_across_a_crash[4.3.1]"
)


@pytest.mark.parametrize("release", ["4.3.1", *(pytest.param(release, marks=OTHER) for release in ("3.9.2", "2.8.2"))])
def test_threads_count_each_input_once_across_a_crash(fleet: MakeFleet, run: Run, bootstrap: str, release: str) -> None:
    t, out = topic_name(), topic_name()
    more = "members: 4\n    threads: 2\n    state: count\n    lose_state: true"
    f = application(fleet, t, out, f"streams:{release}", more)
    crash_while_reading(f, "billing")
    to_the_end(f, t, bootstrap)
    log = [r for r in committed_rows(run, bootstrap, out) if r["committed"]]
    inputs = Counter((r["input_partition"], r["input_offset"]) for r in log)
    assert inputs == Counter(
        (p, offset) for (_, p), (_, end) in log_ranges(bootstrap, [t]).items() for offset in range(end)
    )
    assert {r["producer"] for r in log} <= {f"billing/{n}" for n in range(1, 5)} and all(r["crc_ok"] for r in log)
    sends = [s for s in rows(run, "sends") if s["producer"] != "shop/1"]
    placed = {(s["partition"], s["offset"]): s["seq"] for s in sends if s["outcome"] == "ok"}
    assert {(r["partition"], r["offset"]) for r in log} <= set(placed)
    assert all(placed[r["partition"], r["offset"]] == r["seq"] for r in log)
    txns = {(r["producer"], r["incarnation"], r["txn"]): r for r in rows(run, "transactions")}
    of_log = {(s["partition"], s["offset"]): txns.get((s["producer"], s["incarnation"], s["txn"])) for s in sends}
    still_open = {
        incarnation for _, incarnation, _ in {(s["producer"], s["incarnation"], s["txn"]) for s in sends} - set(txns)
    }
    assert still_open <= {1}, "only a killed process leaves a transaction open"
    ends = [of_log[r["partition"], r["offset"]] for r in log]
    assert {end["outcome"] for end in ends if end} <= {"committed", "unknown"}
    commits = rows(run, "commits")
    assert {c["kind"] for c in commits} == {"transaction"}
    consumed = {(d["partition"], d["offset"]) for d in rows(run, "deliveries")}
    assert consumed == set(inputs)


@pytest.mark.nightly(
    twin="chaos/clients/streams/test_streams.py::test_threads_count_each_input_once_across_a_crash[4.3.1]"
)
def test_at_least_once_commits_without_transactions(fleet: MakeFleet, run: Run, bootstrap: str) -> None:
    t, out = topic_name(), topic_name()
    f = application(fleet, t, out, "streams", "plain: {commit: after_output}")
    crash_while_reading(f, "billing")
    to_the_end(f, t, bootstrap)
    log = committed_rows(run, bootstrap, out)
    inputs = Counter((r["input_partition"], r["input_offset"]) for r in log)
    assert len(inputs) == RECORDS and rows(run, "transactions") == []
    commits = rows(run, "commits")
    assert {(c["kind"], c["outcome"]) for c in commits} == {("sync", "ok")}
    last = {c["partition"]: c["offset"] for c in sorted(commits, key=lambda c: c["completed_us"])}
    assert last == {p: end for (_, p), (_, end) in log_ranges(bootstrap, [t]).items()}


@pytest.mark.nightly(
    twin="chaos/clients/streams/test_streams.py::test_threads_count_each_input_once_across_a_crash[4.3.1]"
)
def test_a_member_that_exceeds_the_poll_interval_loses_its_tasks_and_no_output_twice(
    fleet: MakeFleet, run: Run, bootstrap: str
) -> None:
    t, out = topic_name(), topic_name()
    more = "members: 2\n    state: count"
    text = "auto.offset.reset: earliest, max.poll.interval.ms: 2000"
    f = application(fleet, t, out, "streams", more, text)
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    f.start_producers()
    until(lambda: f.delivered("billing") > 200, "nothing is processed")
    f.order("billing/1", {"do": "slow", "per_record_s": 6.0})
    until(lambda: len(f.state("billing/2").assigned()) == 4, "its tasks do not move")
    f.order("billing/1", {"do": "slow", "per_record_s": 0.0})
    until(f.producers_done, "the producer did not finish")
    to_the_end(f, t, bootstrap)
    assert any(a["event"] == "lost" for a in rows(run, "assignments"))
    log = [r for r in committed_rows(run, bootstrap, out) if r["committed"]]
    assert set(Counter((r["input_partition"], r["input_offset"]) for r in log).values()) == {1} and len(log) == RECORDS
