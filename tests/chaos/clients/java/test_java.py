"""The Java clients with a real broker: counts, rows, crashes, transactions and assignors."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from chaos.clients.java.traits import NEWEST, OLDEST
from chaos.errors import ClientError
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.ledger.seal import seal
from chaos.run.directory import Run
from tests.chaos.clients.conftest import WAIT_S, MakeFleet, admin, crash_while_reading, offsets, take_half_over, until
from tests.support.ledgers import rows, topic_name

pytestmark = pytest.mark.kafka

EARLIEST = "auto.offset.reset: earliest, heartbeat.interval.ms: 300, session.timeout.ms: 10000"


@pytest.mark.parametrize(
    "release",
    [
        NEWEST,
        pytest.param(
            OLDEST,
            marks=pytest.mark.nightly(
                twin="chaos/clients/java/test_java.py::test_java_clients_write_read_restart_and_transform_and_their_rows_agree"
            ),
        ),
    ],
)
def test_java_clients_write_read_restart_and_transform_and_their_rows_agree(
    fleet: MakeFleet, run: Run, bootstrap: str, release: str
) -> None:
    t, u = topic_name(), topic_name()
    java = f"client: 'java:{release}'"
    f = fleet(f"""
topics: [{{name: {t}, partitions: 3, replication_factor: 1}}, {{name: {u}, partitions: 2, replication_factor: 1}}]
producers:
  - {{name: shop, topic: {t}, records: 600, rate: 2000/s, keys: 9, {java}}}
  - {{name: till, topic: {t}, records: 200, transactions: {{records: 25, abort_every: 4}}, {java}}}
processors:
  - {{name: bill, group: p{t}, topics: [{t}], to: {u}, {java}, transactions: {{records: 40}},
      consumer_config: {{{EARLIEST}, isolation.level: read_committed}}}}
consumers:
  - {{mode: subscribe, name: group, group: g{t}, topics: [{t}], {java}, config: {{{EARLIEST}}}}}
  - {{mode: assign, name: flink, topics: [{t}], {java}, per_record: 2ms, max_poll_records: 40}}
""")
    crash_while_reading(f, "flink")
    until(lambda: f.delivered("group") == 800, "the group did not receive all records")
    until(lambda: f.delivered("bill") == 750, "the processor did not receive all committed records")
    until(lambda: f.acked("bill") == 750, "the processor did not write its records")
    until(lambda: len(set(offsets(run, "flink/1"))) == 800, "the assign consumer did not receive all records")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    sends = rows(run, "sends", topic=t)
    assert {(s["producer"], s["seq"]) for s in sends} == {
        *(("shop/1", n) for n in range(600)),
        *(("till/1", n) for n in range(200)),
    }
    assert {s["outcome"] for s in sends} == {"ok"}
    assert all(s["invoked_us"] <= s["completed_us"] for s in sends)
    assert {s["key"] for s in rows(run, "sends", producer="shop/1")} == {f"k{n}" for n in range(9)}
    sent = {(s["partition"], s["offset"]): (s["producer"], s["seq"]) for s in sends}
    got = rows(run, "deliveries", consumer="group/1")
    assert {(d["partition"], d["offset"]): (d["producer"], d["seq"]) for d in got} == sent
    assert [d["ordinal"] for d in got] == list(range(800))
    assert all(d["leader_epoch"] is not None and d["assignment"] for d in got)
    assert max(Counter(offsets(run, "flink/1")).values()) == 1, "its checkpoint is exact"
    assert {a["source"] for a in rows(run, "assignments", consumer="flink/1", incarnation=2)} == {"checkpoint"}
    assert Counter(x["outcome"] for x in rows(run, "transactions", producer="till/1")) == {
        "committed": 6,
        "aborted": 2,
    }
    bills = [s for s in rows(run, "sends", topic=u) if s["outcome"] == "ok"]
    assert len(bills) == 750
    ends = {TopicPartition(t, c["partition"]): c["offset"] for c in rows(run, "commits", kind="sync")}
    assert Kafka(bootstrap).committed(f"g{t}", ends) == ends
    started = [json.loads(e["detail"]) for e in rows(run, "lifecycle", event="started")]
    assert {d["kafka_clients"] for d in started} == {release}
    assert not any(table.torn for table in seal(run.ledger).tables.values())


STICKY = "partition.assignment.strategy: org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


@pytest.mark.nightly(
    twin="chaos/clients/test_fleet.py::test_partitions_move_one_by_one_and_no_record_is_delivered_twice"
)
@pytest.mark.parametrize(
    "settings",
    [f"{STICKY}, {EARLIEST}", "group.protocol: consumer, auto.offset.reset: earliest"],
    ids=["sticky", "848"],
)
def test_java_members_move_partitions_one_by_one(fleet: MakeFleet, run: Run, settings: str) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 4, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 800, rate: 200/s}}]
consumers:
  - {{mode: subscribe, name: a, group: g{t}, topics: [{t}], client: java, config: {{{settings}}},
      commit: {{when: periodic, every: 100ms, kind: async, on_revoke: true}}}}
  - {{mode: subscribe, name: b, group: g{t}, pattern: "{t[:-1]}.", client: java, config: {{{settings}}}}}
""")
    take_half_over(f)
    until(lambda: len(set(offsets(run, "a/1") + offsets(run, "b/1"))) == 800, "not everything is delivered")
    assert f.stop_all(WAIT_S) == []
    refused = [c for c in rows(run, "commits", consumer="a/1") if c["outcome"] == "fail"]
    assert {c["error"] for c in refused} <= {"REBALANCE_IN_PROGRESS"}  # asked for between leaving and joining
    moved = rows(run, "assignments", consumer="b/1", event="assigned")
    assert moved and {a["source"] for a in moved} == {"committed"}
    assert all(a["position"] is not None and a["generation"] and a["member_id"] for a in moved)


OLDER = pytest.mark.nightly(
    twin="chaos/clients/java/test_java.py::test_java_members_are_static_commit_by_themselves_and_find_topics[4.3.1]"
)


@pytest.mark.parametrize("release", [NEWEST, *(pytest.param(release, marks=OLDER) for release in ("3.9.2", OLDEST))])
def test_java_members_are_static_commit_by_themselves_and_find_topics(
    fleet: MakeFleet, run: Run, bootstrap: str, release: str
) -> None:
    t = topic_name()
    java = f"client: 'java:{release}'"
    f = fleet(f"""
topics: [{{name: {t}-a, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}-a, records: 300, rate: 300/s, {java}}}]
consumers:
  - {{mode: subscribe, name: pod, group: s{t}, topics: [{t}-a], members: 2, static: true, {java},
      config: {{auto.offset.reset: earliest, session.timeout.ms: 30000}}}}
  - {{mode: subscribe, name: auto, group: a{t}, pattern: "{t}-[a-z]", {java}, max_poll_records: 50,
      config: {{{EARLIEST}, auto.commit.interval.ms: 100, metadata.max.age.ms: 200}},
      commit: {{when: after_batch, kind: auto}}}}
  - {{mode: assign, name: flink, topics: [{t}-a], {java}, discover: 100ms, start: latest}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    f.start_producers()
    until(lambda: f.delivered("pod") > 0, "nothing is delivered")
    until(lambda: all(len(f.state(f"pod/{n}").assigned()) == 1 for n in (1, 2)), "not one partition each")
    before = f.state("pod/2").progress()
    f.crash("pod/1")
    f.restart("pod/1")
    with admin(bootstrap) as a:
        a.create_topics([NewTopic(f"{t}-b", 1, 1)])[f"{t}-b"].result(30)
        a.create_partitions([NewPartitions(f"{t}-a", 3)])[f"{t}-a"].result(30)
    until(f.producers_done, "producers did not finish")
    found = [f"{t}-a/0", f"{t}-a/1", f"{t}-a/2", f"{t}-b/0"]
    until(lambda: f.state("auto/1").assigned() == found, "the new topic was not assigned")
    until(lambda: f.state("flink/1").assigned() == found[:3], "the new partition was not assigned")
    until(lambda: len({d["seq"] for d in rows(run, "deliveries", group=f"s{t}")}) == 300, "not all records arrived")
    until(lambda: f.delivered("auto") == 300, "the member with automatic commits did not receive all records")
    until(lambda: f.delivered("flink") == 300, "the assign consumer did not receive all records")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    static = rows(run, "assignments", group=f"s{t}")
    assert {a["instance_id"] for a in static if a["consumer"] == "pod/1"} == {"pod-1"}
    again = next(a for a in rows(run, "assignments", consumer="pod/1", incarnation=2) if a["event"] == "assigned")
    assert again["generation"] == before["generation"], "a static member that restarts causes no rebalance"
    commits = rows(run, "commits", consumer="auto/1")
    assert {(c["kind"], c["outcome"]) for c in commits} == {("auto", "ok")}
    ends = {TopicPartition(c["topic"], c["partition"]): c["offset"] for c in commits if c["offset"]}
    assert Kafka(bootstrap).committed(f"a{t}", ends) == ends
    assert sum(ends.values()) == 300
    starts = rows(run, "assignments", consumer="flink/1", event="assigned")
    assert {(a["position"], a["source"]) for a in starts} == {(0, "start")}


@pytest.mark.parametrize(
    "release",
    [
        NEWEST,
        pytest.param(
            OLDEST,
            marks=pytest.mark.nightly(
                twin="chaos/clients/java/test_java.py::test_a_java_member_that_leaves_within_a_batch_commits_what_it_processed"
            ),
        ),
    ],
)
def test_a_java_member_that_leaves_within_a_batch_commits_what_it_processed(
    fleet: MakeFleet, run: Run, bootstrap: str, release: str
) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 200}}]
consumers:
  - {{mode: subscribe, name: slow, group: g{t}, topics: [{t}], client: 'java:{release}', per_record: 20ms,
      max_poll_records: 200, config: {{{EARLIEST}}}, commit: {{when: after_batch, kind: auto}}}}
""")
    f.start_producers()
    until(f.producers_done, "producers did not finish")
    f.start_consumers()
    until(lambda: f.delivered("slow") > 10, "nothing is delivered")
    f.leave("slow/1", WAIT_S)
    delivered = len(rows(run, "deliveries", consumer="slow/1"))
    assert 10 < delivered < 200
    partition = TopicPartition(t, 0)
    assert Kafka(bootstrap).committed(f"g{t}", [partition]) == {partition: delivered}


def test_a_java_client_that_cannot_start_reports_the_reason(fleet: MakeFleet, run: Run) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, client: java, config: {{metric.reporters: org.example.Missing}}}}]
""")
    with pytest.raises(ClientError, match=r"org\.example\.Missing"):
        f.start_producers()


def test_an_error_is_a_failure_after_several_attempts_only_if_the_application_takes_it_for_one(
    fleet: MakeFleet, run: Run, bootstrap: str
) -> None:
    t = topic_name()
    refused = "config: {acks: all, enable.idempotence: false, retries: 1, linger.ms: 0}"
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers:
  - {{name: plain, topic: {t}, records: 2, client: java, {refused}}}
  - {{name: sure, topic: {t}, records: 2, client: java, definite_errors: [MESSAGE_TOO_LARGE], {refused}}}
faults: [{{name: f, kind: topic.config, target: {{topic: {t}}}, settings: {{retention.ms: 9}}, when: {{at: 0s}}}}]
""")
    with admin(bootstrap) as a:
        resource = ConfigResource(ConfigResource.Type.TOPIC, t)
        setting = ConfigEntry("max.message.bytes", "100", incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(setting)
        a.incremental_alter_configs([resource])[resource].result(30)
    f.start_consumers()
    f.start_producers()
    until(f.producers_done, "producers did not finish")
    assert f.stop_all(WAIT_S) == []
    outcomes = {(s["producer"], s["outcome"], s["error"]) for s in rows(run, "sends")}
    assert outcomes == {("plain/1", "unknown", "MESSAGE_TOO_LARGE"), ("sure/1", "fail", "MESSAGE_TOO_LARGE")}
