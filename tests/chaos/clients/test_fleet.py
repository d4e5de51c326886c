"""Clients as processes with a real broker: their counts, their rows, and their rows after a kill."""

from __future__ import annotations

import json
import signal
from collections import Counter

import pytest

from chaos.errors import ClientError
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.ledger.seal import read_seal, seal
from chaos.run.directory import Run
from tests.chaos.clients.conftest import WAIT_S, MakeFleet, take_half_over, until
from tests.support.ledgers import rows, topic_name

pytestmark = pytest.mark.kafka

CALM = "session.timeout.ms: 30000, heartbeat.interval.ms: 300, auto.offset.reset: earliest"
QUICK = "session.timeout.ms: 3000, heartbeat.interval.ms: 300, auto.offset.reset: earliest"


def test_each_group_and_each_assign_consumer_receives_and_counts_all_records(
    fleet: MakeFleet, run: Run, bootstrap: str
) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 4, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, count: 2, records: 500, rate: 5000/s, keys: 20}}]
consumers:
  - {{mode: subscribe, name: billing, group: g{t}, members: 2, topics: [{t}], config: {{{CALM}}}}}
  - {{mode: assign, name: replay, members: 2, topics: [{t}]}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    f.start_producers()
    until(f.producers_done, "producers did not finish")
    assert f.total_acked() == 1000
    until(lambda: f.delivered("billing") == 1000, "the group did not receive all records")
    until(lambda: f.delivered("replay") == 2000, "the assign consumers did not receive all records")
    ends = Counter((s["topic"], s["partition"]) for s in rows(run, "sends"))
    until(lambda: f.positions("billing") == {f"{t}/{p}": n for (_, p), n in ends.items()}, "group not at the end")
    assert f.positions("replay/2") == f.positions("billing")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    sends = rows(run, "sends")
    assert {(s["producer"], s["seq"]) for s in sends} == {(f"shop/{i}", n) for i in (1, 2) for n in range(500)}
    assert {s["outcome"] for s in sends} == {"ok"}
    assert all(s["invoked_us"] <= s["completed_us"] for s in sends)
    sent = {(s["partition"], s["offset"]): (s["producer"], s["incarnation"], s["seq"]) for s in sends}
    for reader in ({"group": f"g{t}"}, {"consumer": "replay/1"}, {"consumer": "replay/2"}):
        got = rows(run, "deliveries", **reader)
        assert len(got) == 1000
        assert {
            (d["partition"], d["offset"]): (d["producer"], d["producer_incarnation"], d["seq"]) for d in got
        } == sent
    assert {d["group"] for d in rows(run, "deliveries", mode="assign")} == {None}
    assert all(d["leader_epoch"] is not None and d["assignment"] for d in rows(run, "deliveries"))
    sources = {a["source"] for a in rows(run, "assignments", event="assigned", mode="subscribe")}
    assert sources and sources <= {"reset", "committed"}
    assert all(a["generation"] and a["member_id"] for a in rows(run, "assignments", mode="subscribe"))
    assert {(c["kind"], c["outcome"]) for c in rows(run, "commits")} == {("sync", "ok")}
    at_end = {TopicPartition(t, p): n for (_, p), n in ends.items()}
    assert Kafka(bootstrap).committed(f"g{t}", at_end) == at_end
    assert Counter(e["event"] for e in rows(run, "lifecycle")) == {"started": 6, "stopped": 6, "usage": 6}
    seal(run.ledger)
    assert read_seal(run.ledger).tables["deliveries"].rows == 3000


def test_two_topics_are_distinguished_and_acks_0_gives_no_offsets(fleet: MakeFleet, run: Run) -> None:
    t, u = topic_name(), topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}, {{name: {u}, replication_factor: 1}}]
producers:
  - {{name: shop, topic: {t}, records: 50}}
  - {{name: till, topic: {u}, records: 60, config: {{acks: 0}}}}
consumers:
  - {{mode: subscribe, name: billing, group: g{t}, topics: [{t}, {u}], config: {{{CALM}}},
      commit: {{when: after_record, kind: async}}}}
""")
    f.start_producers()
    until(f.producers_done, "producers did not finish")
    f.start_consumers()
    until(lambda: f.delivered("billing") == 110, "not everything is delivered")
    until(lambda: f.positions("billing").get(f"{u}/0") == 60, "the second topic has no position")
    assert f.stop_all(WAIT_S) == []
    assert {(s["outcome"], s["offset"]) for s in rows(run, "sends", producer="till/1")} == {("ok", None)}
    by_topic = Counter((d["topic"], d["producer"]) for d in rows(run, "deliveries"))
    assert by_topic == {(t, "shop/1"): 50, (u, "till/1"): 60}
    commits = rows(run, "commits", topic=u)
    assert sorted(c["offset"] for c in commits) == list(range(1, 61))  # after each record, each answered
    assert {(c["kind"], c["outcome"]) for c in commits} == {("async", "ok")}


def test_a_killed_consumer_has_rows_for_all_committed_offsets_and_restarts_there(fleet: MakeFleet, run: Run) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 300}}]
consumers:
  - {{mode: subscribe, name: billing, group: g{t}, topics: [{t}], max_poll_records: 40, per_record: 3ms,
      config: {{{QUICK}}}}}
""")
    f.start_producers()
    until(f.producers_done, "the producer did not finish")
    f.start_consumers()
    until(lambda: f.delivered("billing") >= 60, "nothing is delivered")
    f.crash("billing/1")
    with pytest.raises(ClientError, match="gone already"):
        f.crash("billing/1")

    first = rows(run, "deliveries", incarnation=1)
    assert len(first) < 300
    # 3 ms per record, rows every 20 ms: the kill left part of a batch
    processed = {(d["partition"], d["offset"]) for d in first}
    last_commit = {c["partition"]: c["offset"] for c in rows(run, "commits", outcome="ok")}
    assert last_commit
    assert all((p, n) in processed for p, end in last_commit.items() for n in range(end))
    (crashed,) = rows(run, "lifecycle", event="crashed")
    assert json.loads(crashed["detail"]) == {"exit_code": -signal.SIGKILL, "killed": "crash"}
    used = json.loads(rows(run, "lifecycle", event="usage", client="billing/1")[0]["detail"])
    assert 0 < used["start_us"] <= used["user_us"] + used["system_us"] and used["peak_rss_bytes"] > 2**20
    assert 0 < used["delivered"] <= len(first)
    assert f.unexpected_exits() == []

    f.restart("billing/1")
    until(
        lambda: set(f.positions("billing").values()) and sum(f.positions("billing").values()) == 300, "not at the end"
    )
    assert f.stop_all(WAIT_S) == []
    began = {a["partition"]: a for a in rows(run, "assignments", incarnation=2, event="assigned")}
    assert began
    for partition, assigned in began.items():
        offset = last_commit.get(partition)
        assert (assigned["position"], assigned["source"]) == (offset or 0, "reset" if offset is None else "committed")
    again = rows(run, "deliveries", incarnation=2)
    assert processed | {(d["partition"], d["offset"]) for d in again} == {
        (s["partition"], s["offset"]) for s in rows(run, "sends")
    }
    assert len(again) == 300 - sum(last_commit.values())


def test_a_slow_consumer_is_evicted_its_late_commit_is_refused_and_it_rejoins(fleet: MakeFleet, run: Run) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 200, keys: 20}}]
consumers:
  - {{mode: subscribe, name: billing, group: g{t}, members: 2, topics: [{t}], max_poll_records: 30,
      config: {{{QUICK}, max.poll.interval.ms: 3000, retry.backoff.ms: 1000}}}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    before = f.state("billing/1").count("generation")
    f.order("billing/1", {"do": "slow", "per_record_s": 0.2})
    until(lambda: rows(run, "lifecycle", client="billing/1", event="slowed"), "the order was not obeyed")
    f.start_producers()
    until(lambda: rows(run, "lifecycle", client="billing/1", event="error"), "it was not evicted")
    f.order("billing/1", {"do": "slow", "per_record_s": 0})
    until(lambda: f.state("billing/1").count("generation") > before, "it did not rejoin")
    until(lambda: sum(f.positions("billing").values()) == 200, "the group did not continue")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    errors = rows(run, "lifecycle", client="billing/1", event="error")
    assert "_MAX_POLL_EXCEEDED" in errors[0]["detail"]
    assert rows(run, "lifecycle", client="billing/1", event="resumed")
    late = [c for c in rows(run, "commits", consumer="billing/1") if c["outcome"] != "ok"]
    assert late, rows(run, "commits", consumer="billing/1")
    assert {(c["outcome"], c["error"]) for c in late} <= {
        ("fail", "UNKNOWN_MEMBER_ID"),
        ("fail", "ILLEGAL_GENERATION"),
    }
    assert rows(run, "assignments", consumer="billing/1", event="lost")
    sent = {(s["partition"], s["offset"]) for s in rows(run, "sends")}
    assert {(d["partition"], d["offset"]) for d in rows(run, "deliveries")} == sent


def test_an_assign_consumer_continues_at_its_checkpoint_exactly_once(fleet: MakeFleet, run: Run) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 3, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 300}}]
consumers: [{{mode: assign, name: replay, topics: [{t}], max_poll_records: 40, per_record: 3ms}}]
""")
    f.start_producers()
    until(f.producers_done, "the producer did not finish")
    f.start_consumers()
    until(lambda: f.delivered("replay") >= 60, "nothing is delivered")
    f.crash("replay/1")
    before = len(rows(run, "deliveries"))
    assert 60 <= before < 300
    f.restart("replay/1")
    until(lambda: sum(f.positions("replay/1").values()) == 300, "it did not continue")
    assert f.stop_all(WAIT_S) == []
    deliveries = rows(run, "deliveries")
    assert Counter((d["partition"], d["offset"]) for d in deliveries).most_common(1)[0][1] == 1
    assert len(deliveries) == 300
    assert {a["source"] for a in rows(run, "assignments", incarnation=2)} == {"checkpoint"}


def test_an_assign_consumer_starts_at_the_configured_position(fleet: MakeFleet, run: Run) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 100}}, {{name: late, topic: {t}, records: 50}}]
consumers:
  - {{mode: assign, name: all, topics: [{t}], group: g{t}, commit: {{when: after_batch, kind: async}}}}
  - {{mode: assign, name: new, topics: [{t}], start: latest}}
  - {{mode: assign, name: from, topics: [{t}], start: {{offsets: {{{t}/0: 30}}}}}}
  - {{mode: assign, name: timed, topics: [{t}], start: {{timestamp: 0s}}}}
  - {{mode: assign, name: group, topics: [{t}], group: g{t}, start: group}}
  - {{mode: assign, name: none, topics: [{t}], group: h{t}, start: group, config: {{auto.offset.reset: earliest}}}}
""")
    start = {e.name: e for e in (*f._scenario.producers, *f._scenario.consumers)}
    f._start_all([start["shop"], start["all"]])
    f.order("shop/1", {"do": "start"})
    until(lambda: f.delivered("all") == 100, "not all is delivered")
    until(lambda: {c["offset"] for c in rows(run, "commits", outcome="ok")} >= {100}, "nothing is committed")
    f._start_all([start[name] for name in ("new", "from", "timed", "group", "none")])
    f.wait_assigned(WAIT_S)
    until(lambda: f.state("timed/1").assigned(), "no position for the time")
    f._start_all([start["late"]])
    f.order("late/1", {"do": "start"})
    expected = {"all": 150, "new": 50, "from": 120, "timed": 150, "group": 50, "none": 150}
    until(lambda: {name: f.delivered(name) for name in expected} == expected, "not everything is delivered")
    assert f.stop_all(WAIT_S) == []
    began = {a["consumer"]: (a["position"], a["source"]) for a in rows(run, "assignments", event="assigned")}
    assert began == {
        "all/1": (0, "start"),
        "new/1": (100, "start"),
        "from/1": (30, "start"),
        "timed/1": (0, "start"),
        "group/1": (100, "committed"),
        "none/1": (0, "reset"),
    }


def test_an_unexpected_exit_is_detected(fleet: MakeFleet, run: Run) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 10}}]
consumers: [{{mode: assign, name: replay, topics: [{t}]}}]
""")
    f.start_consumers()
    assert f.state("replay/1").process.signal(signal.SIGKILL)
    until(f.unexpected_exits, "the exit was not detected")
    assert "replay/1" in f.unexpected_exits()[0].describe_exit()
    (crashed,) = rows(run, "lifecycle", event="crashed")
    assert json.loads(crashed["detail"])["unexpected"]
    with pytest.raises(ClientError, match="takes no order"):
        f.order("replay/1", {"do": "stop"})


def test_a_client_that_cannot_start_reports_the_reason(fleet: MakeFleet) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, config: {{plugin.library.paths: /nowhere}}}}]
""")
    with pytest.raises(ClientError, match="nowhere"):
        f.start_producers()


@pytest.mark.parametrize(
    "strategy",
    [
        f"partition.assignment.strategy: cooperative-sticky, {CALM}",
        "group.protocol: consumer, auto.offset.reset: earliest",
    ],
    ids=["cooperative", "KIP-848"],
)
def test_partitions_move_one_by_one_and_no_record_is_delivered_twice(fleet: MakeFleet, run: Run, strategy: str) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 4, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 400, rate: 400/s}}]
consumers:
  - {{mode: subscribe, name: a, group: g{t}, topics: [{t}], config: {{{strategy}}}, commit: {{on_revoke: true}}}}
  - {{mode: subscribe, name: b, group: g{t}, topics: [{t}], config: {{{strategy}}}, commit: {{on_revoke: true}}}}
""")
    take_half_over(f)
    until(lambda: f.delivered("a") + f.delivered("b") >= 400, "not everything is delivered")
    assert f.stop_all(WAIT_S) == []
    assert max(Counter((d["partition"], d["offset"]) for d in rows(run, "deliveries")).values()) == 1
    moved = rows(run, "assignments", consumer="b/1", event="assigned")
    assert moved and {a["source"] for a in moved} <= {"committed", "reset"}
    assert all(a["position"] is not None and a["generation"] for a in moved)
