"""Consumers with a real broker: assignment, processing, commits and seeks."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from confluent_kafka.admin import NewPartitions, NewTopic

from chaos.fleet.fleet import Fleet
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.run.directory import Run
from tests.chaos.clients.conftest import WAIT_S, MakeFleet, admin, until
from tests.support.ledgers import rows, topic_name

pytestmark = pytest.mark.kafka

CALM = "session.timeout.ms: 30000, heartbeat.interval.ms: 300, auto.offset.reset: earliest"


def committed(bootstrap: str, group: str, topic: str) -> dict[int, int] | None:
    """Return the committed offset of partition 0 of a topic, by its number."""
    offsets = Kafka(bootstrap).committed(group, [TopicPartition(topic, 0)])
    return None if offsets is None else {partition.number: offset for partition, offset in offsets.items()}


def produced(f: Fleet) -> None:
    f.start_producers()
    until(f.producers_done, "the producer did not finish")


def test_a_seek_redelivers_exactly_the_range_and_is_recorded(fleet: MakeFleet, run: Run) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 300}}]
consumers:
  - {{mode: subscribe, name: billing, group: g{t}, topics: [{t}], config: {{{CALM}}}}}
  - {{mode: assign, name: replay, topics: [{t}]}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    produced(f)
    for name in ("billing", "replay"):
        until(lambda name=name: f.delivered(name) == 300, "not everything is delivered")
    f.order("billing/1", {"do": "seek", "offsets": {f"{t}/0": 100, "other/0": 3}})
    f.order("replay/1", {"do": "seek", "ago_s": 3600})
    until(lambda: f.delivered("billing") == 500, "the range was not redelivered")
    until(lambda: f.delivered("replay") == 600, "the records since that time were not redelivered")
    assert f.state("billing/1").progress()["sought"] == [[f"{t}/0", 300, 100]]
    assert f.stop_all(WAIT_S) == []
    (sought,) = rows(run, "assignments", consumer="billing/1", event="seek")
    assert (sought["position"], sought["source"], sought["assignment"]) == (100, "seek", 2)
    again = rows(run, "deliveries", consumer="billing/1", assignment=2)
    assert [d["offset"] for d in again] == list(range(100, 300))
    assert [c["offset"] for c in rows(run, "commits", consumer="billing/1", assignment=2)][-1] == 300


def test_a_periodic_commit_waits_and_a_commit_on_revocation_does_not(
    fleet: MakeFleet, run: Run, bootstrap: str
) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 200}}]
consumers:
  - {{mode: subscribe, name: late, group: late{t}, topics: [{t}], config: {{{CALM}}},
      commit: {{when: periodic, every: 1h, kind: sync}}}}
  - {{mode: subscribe, name: often, group: often{t}, topics: [{t}], config: {{{CALM}}},
      commit: {{when: periodic, every: 100ms, kind: sync}}}}
  - {{mode: subscribe, name: revoke, group: revoke{t}, topics: [{t}], config: {{{CALM}}},
      commit: {{when: periodic, every: 1h, kind: async, on_revoke: true}}}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    produced(f)
    for name in ("late", "often", "revoke"):
        until(lambda name=name: f.delivered(name) == 200, "not everything is delivered")
    until(
        lambda: committed(bootstrap, f"often{t}", t) == {0: 200},
        "no commit as time passes",
    )
    assert committed(bootstrap, f"revoke{t}", t) == {}
    assert f.stop_all(WAIT_S) == []
    assert committed(bootstrap, f"late{t}", t) == {}
    assert committed(bootstrap, f"revoke{t}", t) == {0: 200}
    (commit,) = rows(run, "commits", consumer="revoke/1")
    assert (commit["offset"], commit["kind"], commit["outcome"], commit["assignment"]) == (200, "sync", "ok", 1)


def test_automatic_commits_are_recorded_and_with_librdkafka_defaults_run_ahead(
    fleet: MakeFleet, run: Run, bootstrap: str
) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 100}}]
consumers:
  - {{mode: subscribe, name: ahead, group: ahead{t}, topics: [{t}], per_record: 100ms, max_poll_records: 100,
      config: {{{CALM}, auto.commit.interval.ms: 100}}, commit: {{when: before_processing, kind: auto}}}}
  - {{mode: subscribe, name: after, group: after{t}, topics: [{t}], per_record: 20ms, max_poll_records: 5,
      assign_by: client, config: {{{CALM}, auto.commit.interval.ms: 100}}, commit: {{when: after_batch, kind: auto}}}}
""")
    produced(f)
    f.start_consumers()
    until(
        lambda: (committed(bootstrap, f"ahead{t}", t) or {}).get(0, 0) > 50,
        "not ahead",
    )
    assert len(rows(run, "deliveries", consumer="ahead/1")) < 50
    until(lambda: f.delivered("after") == 100, "not everything is delivered")
    f.crash("ahead/1")
    assert f.stop_all(WAIT_S) == []
    ends = {d["offset"] + 1: d["processed_us"] for d in rows(run, "deliveries", consumer="after/1")}
    commits = [c for c in rows(run, "commits", consumer="after/1") if c["offset"]]
    assert {(c["kind"], c["outcome"]) for c in commits} == {("auto", "ok")}
    assert len(commits) > 2 and commits[-1]["offset"] == 100
    began = rows(run, "assignments", consumer="after/1")[0]
    assert (began["position"], began["source"]) == (None, None)
    assert all(ends[c["offset"]] <= c["completed_us"] for c in commits)


JAVA_POOL = pytest.mark.nightly(
    twin="chaos/clients/test_consumers.py::test_a_pool_finishes_records_out_of_order_and_its_window_stays_behind[confluent]"
)
JAVA_THREADS = pytest.mark.nightly(
    twin="chaos/clients/test_consumers.py::test_threads_of_one_process_are_members_and_crash_together[confluent]"
)


@pytest.mark.parametrize("client", ["confluent", *(pytest.param(c, marks=JAVA_POOL) for c in ("java", "java:2.8.2"))])
def test_a_pool_finishes_records_out_of_order_and_its_window_stays_behind(
    fleet: MakeFleet, run: Run, bootstrap: str, client: str
) -> None:
    t = topic_name()
    pooled = f"topics: [{t}], client: '{client}', config: {{{CALM}}}"
    workers = "count: 4, straggle_every: 10, straggle: 30s"
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 20}}]
consumers:
  - {{mode: subscribe, name: window, group: window{t}, {pooled}, workers: {{{workers}}}}}
  - {{mode: subscribe, name: naive, group: naive{t}, {pooled}, workers: {{{workers}, tracking: naive}}}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    produced(f)
    for name in ("window", "naive"):  # 9 and 19 straggle
        until(lambda name=name: f.delivered(name) == 18, "the other records were not finished")
    until(
        lambda: committed(bootstrap, f"window{t}", t) == {0: 9},
        "not the window's commit",
    )
    until(
        lambda: committed(bootstrap, f"naive{t}", t) == {0: 19},
        "not the naive commit",
    )
    for name in ("window", "naive"):
        until(lambda name=name: f.positions(name) == {f"{t}/0": 9}, "the position is past an unfinished record")
    assert f.stop_all(WAIT_S) == []
    done = rows(run, "deliveries", consumer="window/1")
    assert sorted(d["ordinal"] for d in done) == sorted(d["offset"] for d in done)
    assert {d["offset"] for d in done} == set(range(20)) - {9, 19}
    assert all(d["polled_us"] <= d["processed_us"] for d in done)


@pytest.mark.parametrize(
    ("client", "workers"),
    [
        pytest.param("confluent", "", id="confluent"),
        pytest.param("java", "", id="java", marks=JAVA_THREADS),
        pytest.param("java:2.8.2", ", workers: {count: 3}", id="java:2.8.2", marks=JAVA_THREADS),
    ],
)
def test_threads_of_one_process_are_members_and_crash_together(
    fleet: MakeFleet, run: Run, client: str, workers: str
) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 3, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 300, keys: 100}}]
consumers:
  - {{mode: subscribe, name: billing, group: g{t}, members: 3, threads: 2, topics: [{t}], config: {{{CALM}}},
      client: '{client}'{workers}}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    assert {len(f.state(c).assigned()) for c in f.clients("billing")} == {1}
    pids = [f.state(c).process.pid for c in f.clients("billing")]
    assert pids[0] == pids[1] != pids[2]
    produced(f)
    until(lambda: f.delivered("billing") == 300, "not everything is delivered")
    f.crash("billing/2")
    assert not f.state("billing/1").alive and f.state("billing/3").alive
    f.restart("billing/1")
    until(lambda: f.state("billing/2").alive and f.state("billing/2").started.is_set(), "the mate did not restart")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []
    events = Counter((e["client"], e["event"]) for e in rows(run, "lifecycle", role="consumer"))
    assert {c: events[c, "crashed"] for c in f.clients("billing")} == {"billing/1": 1, "billing/2": 1, "billing/3": 0}
    assert {c: events[c, "stopped"] for c in f.clients("billing")} == dict.fromkeys(f.clients("billing"), 1)
    assert {d["consumer"] for d in rows(run, "deliveries")} == set(f.clients("billing"))


@pytest.mark.parametrize(
    "settings",
    [
        f"{CALM}, partition.assignment.strategy: cooperative-sticky",
        "auto.offset.reset: earliest, group.protocol: consumer",
    ],
    ids=["cooperative", "kip-848"],
)
def test_partitions_move_one_by_one_and_the_broker_reports_the_group(
    fleet: MakeFleet, run: Run, bootstrap: str, settings: str
) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 4, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 400, keys: 100}}]
consumers: [{{mode: subscribe, name: billing, group: g{t}, members: 2, topics: [{t}], config: {{{settings}}}}}]
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    kafka = Kafka(bootstrap)

    def reported() -> dict[str, tuple[str, ...]]:
        group = kafka.group(f"g{t}")
        return (
            {m.client_id: tuple(map(str, m.partitions)) for m in group.members}
            if group and group.state == "Stable"
            else {}
        )

    until(
        lambda: reported() == {c: tuple(f.state(c).assigned()) for c in f.clients("billing")},
        "other assignments",
    )
    produced(f)
    until(lambda: f.delivered("billing") == 400, "not everything is delivered")
    kept = f.state("billing/1").assigned()
    f.order("billing/2", {"do": "stop"})
    f.state("billing/2").asked_to_end = True
    until(lambda: len(f.state("billing/1").assigned()) == 4, "the other partitions were not reassigned")
    assert f.stop_all(WAIT_S) == []
    mine = rows(run, "assignments", consumer="billing/1")
    kept_rows = [a for a in mine if f"{t}/{a['partition']}" in kept]
    assert [a["event"] for a in kept_rows] == ["assigned"] * len(kept) + ["revoked"] * len(kept)  # at the end only
    taken = [a for a in mine if f"{t}/{a['partition']}" not in kept and a["source"] == "committed"]
    assert {a["generation"] > kept_rows[0]["generation"] for a in taken} == {True}
    assert len(rows(run, "deliveries")) == 400


def test_a_pattern_includes_a_topic_that_is_created_later(fleet: MakeFleet, run: Run, bootstrap: str) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}-a, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}-a, records: 10}}]
consumers:
  - {{mode: subscribe, name: billing, group: g{t}, pattern: "{t}-[a-z]", config: {{{CALM},
      topic.metadata.refresh.interval.ms: 200}}}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    with admin(bootstrap) as a:
        for future in a.create_topics([NewTopic(f"{t}-b", 1, 1), NewTopic(f"{t}-bb", 1, 1)]).values():
            future.result(30)
    until(lambda: f.state("billing/1").assigned() == [f"{t}-a/0", f"{t}-b/0"], "the new topic was not assigned")
    assert f.stop_all(WAIT_S) == []


def test_discovered_partitions_are_read_from_their_start(fleet: MakeFleet, run: Run, bootstrap: str) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 400, rate: 400/s, config: {{topic.metadata.refresh.interval.ms: 100}}}}]
consumers:
  - {{mode: assign, name: with, topics: [{t}], discover: 100ms}}
  - {{mode: assign, name: without, topics: [{t}]}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    with admin(bootstrap) as a:
        for future in a.create_partitions([NewPartitions(t, 2)]).values():
            future.result(30)
    produced(f)
    ends = Kafka(bootstrap).end_offsets([TopicPartition(t, 0), TopicPartition(t, 1)])
    assert ends[TopicPartition(t, 1)] > 0
    until(lambda: f.positions("with/1") == {str(p): end for p, end in ends.items()}, "the new partition was not read")
    until(lambda: f.positions("without/1") == {f"{t}/0": ends[TopicPartition(t, 0)]}, "the old partition was not read")
    assert f.stop_all(WAIT_S) == []
    starts = rows(run, "assignments", consumer="with/1", event="assigned")
    assert [(a["partition"], a["position"], a["source"], a["assignment"]) for a in starts] == [
        (0, 0, "start", 1),
        (1, 0, "start", 2),
    ]
    got = Counter(d["partition"] for d in rows(run, "deliveries", consumer="with/1"))
    assert got == {p.number: end for p, end in ends.items()}


def test_the_reaction_to_a_missing_group_id_is_recorded_and_the_consumer_reads(fleet: MakeFleet, run: Run) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 10}}]
consumers:
  - {{mode: assign, name: absent, topics: [{t}], no_group_id: absent}}
  - {{mode: assign, name: empty, topics: [{t}], no_group_id: empty}}
""")
    f.start_consumers()
    produced(f)
    until(lambda: f.delivered("absent") == f.delivered("empty") == 10, "not everything is delivered")
    assert f.stop_all(WAIT_S) == []
    errors = {e["client"]: json.loads(e["detail"])["error"] for e in rows(run, "lifecycle", event="error")}
    assert "refused" in errors["absent/1"] and "group.id must be set" in errors["absent/1"]
    assert "aborted with signal 6" in errors["empty/1"]


def test_a_tombstone_is_acknowledged_and_delivered_with_its_identity(fleet: MakeFleet, run: Run) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1, config: {{cleanup.policy: compact}}}}]
producers: [{{name: shop, topic: {t}, keys: 9, tombstone_every: 3, records: 600}}]
consumers: [{{mode: assign, name: replay, topics: [{t}]}}]
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    produced(f)
    until(lambda: f.delivered("replay") == 600, "not everything is delivered")
    assert f.stop_all(WAIT_S) == []
    sent = {(r["seq"], r["offset"]) for r in rows(run, "sends", producer="shop/1", outcome="ok")}
    given = {(r["seq"], r["offset"]) for r in rows(run, "deliveries", consumer="replay/1", producer="shop/1")}
    assert {seq for seq, _ in sent} == set(range(600))
    assert given == sent
