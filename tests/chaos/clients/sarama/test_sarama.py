"""The sarama clients with a real broker: counts, rows, crashes, transactions and balance strategies."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from confluent_kafka.admin import NewPartitions

from chaos.clients.sarama.traits import NEWEST, OLDEST
from chaos.errors import ClientError
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.ledger.seal import seal
from chaos.run.directory import Run
from tests.chaos.clients.conftest import WAIT_S, MakeFleet, admin, crash_while_reading, offsets, take_half_over, until
from tests.support.ledgers import rows, topic_name

pytestmark = [pytest.mark.landing, pytest.mark.kafka]

EARLIEST = "Consumer.Offsets.Initial: OffsetOldest, Consumer.Group.Heartbeat.Interval: 300ms"


@pytest.mark.parametrize(
    "release",
    [
        NEWEST,
        pytest.param(
            OLDEST,
            marks=pytest.mark.nightly(
                twin="chaos/clients/sarama/test_sarama.py::test_sarama_clients_write_read_and_restart_and_their_rows_agree"
            ),
        ),
    ],
)
def test_sarama_clients_write_read_and_restart_and_their_rows_agree(
    fleet: MakeFleet, run: Run, bootstrap: str, release: str
) -> None:
    t = topic_name()
    sarama = f"client: 'sarama:{release}'"
    f = fleet(f"""
topics: [{{name: {t}, partitions: 3, replication_factor: 1}}]
producers:
  - {{name: shop, topic: {t}, records: 600, rate: 2000/s, keys: 9, {sarama}}}
  - {{name: desk, topic: {t}, records: 100, mode: synchronous, {sarama},
      config: {{enable.idempotence: true, acks: all}}}}
  - {{name: till, topic: {t}, records: 200, transactions: {{records: 25, abort_every: 4}}, {sarama}}}
consumers:
  - {{mode: subscribe, name: group, group: g{t}, topics: [{t}], {sarama},
      config: {{{EARLIEST}, Consumer.IsolationLevel: ReadCommitted}}}}
  - {{mode: assign, name: flink, topics: [{t}], {sarama}, per_record: 2ms, max_poll_records: 40}}
""")
    crash_while_reading(f, "flink")
    until(lambda: f.delivered("group") == 850, "the group did not receive all committed records")
    until(lambda: len(set(offsets(run, "flink/1"))) == 900, "the assign consumer did not receive all records")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    sends = rows(run, "sends", topic=t)
    counts = {"shop/1": 600, "desk/1": 100, "till/1": 200}
    assert {(s["producer"], s["seq"]) for s in sends} == {
        (who, n) for who, count in counts.items() for n in range(count)
    }
    assert {s["outcome"] for s in sends} == {"ok"}
    assert {s["key"] for s in rows(run, "sends", producer="shop/1")} == {f"k{n}" for n in range(9)}
    sent = {(s["partition"], s["offset"]): (s["producer"], s["seq"]) for s in sends}
    got = rows(run, "deliveries", consumer="group/1")
    assert {(d["partition"], d["offset"]): (d["producer"], d["seq"]) for d in got}.items() <= sent.items()
    assert [d["ordinal"] for d in got] == list(range(850))
    assert max(Counter(offsets(run, "flink/1")).values()) == 1, "its checkpoint is exact"
    assert {a["source"] for a in rows(run, "assignments", consumer="flink/1", incarnation=2)} == {"checkpoint"}
    ended = Counter(x["outcome"] for x in rows(run, "transactions", producer="till/1"))
    assert ended == {"committed": 6, "aborted": 2}
    commits = rows(run, "commits", consumer="group/1")
    assert {(c["kind"], c["outcome"]) for c in commits} == {("sync", "ok")}
    ends = {TopicPartition(t, c["partition"]): c["offset"] for c in commits}
    assert Kafka(bootstrap).committed(f"g{t}", ends) == ends
    started = [json.loads(e["detail"]) for e in rows(run, "lifecycle", event="started")]
    assert {d["sarama"] for d in started} == {release}
    assert not any(table.torn for table in seal(run.ledger).tables.values())


@pytest.mark.nightly(
    twin="chaos/clients/test_fleet.py::test_partitions_move_one_by_one_and_no_record_is_delivered_twice"
)
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_sarama_members_share_partitions_with_every_strategy(fleet: MakeFleet, run: Run, strategy: str) -> None:
    t = topic_name()
    settings = f"{EARLIEST}, Consumer.Group.Rebalance.GroupStrategies: {strategy}"
    f = fleet(f"""
topics: [{{name: {t}, partitions: 4, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 800, rate: 200/s, client: sarama}}]
consumers:
  - {{mode: subscribe, name: a, group: g{t}, topics: [{t}], client: sarama, config: {{{settings}}},
      commit: {{when: periodic, every: 100ms, kind: sync, on_revoke: true}}}}
  - {{mode: subscribe, name: b, group: g{t}, topics: [{t}], client: sarama, config: {{{settings}}}}}
""")
    take_half_over(f)
    until(lambda: len(set(offsets(run, "a/1") + offsets(run, "b/1"))) == 800, "not everything is delivered")
    kept = f.state("a/1").assigned()
    assert f.stop_all(WAIT_S) == []
    assert max(Counter(offsets(run, "a/1") + offsets(run, "b/1")).values()) == 1, "all was committed on revocation"
    moved = rows(run, "assignments", consumer="b/1", event="assigned")
    assert moved and {a["source"] for a in moved} <= {"committed", "reset"}
    assert all(a["position"] is not None and a["generation"] and a["member_id"] for a in moved)
    starts = Counter(
        f"{a['topic']}/{a['partition']}" for a in rows(run, "assignments", consumer="a/1", event="assigned")
    )
    assert {starts[p] for p in kept} == ({1} if strategy.startswith("cooperative") else {2})


@pytest.mark.nightly(
    twin="chaos/clients/java/test_java.py::test_java_members_are_static_commit_by_themselves_and_find_topics[4.3.1]"
)
@pytest.mark.parametrize("release", [NEWEST, OLDEST])
def test_sarama_members_are_static_commit_by_themselves_and_find_partitions(
    fleet: MakeFleet, run: Run, bootstrap: str, release: str
) -> None:
    t = topic_name()
    sarama = f"client: 'sarama:{release}'"
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 300, rate: 300/s, {sarama}}}]
consumers:
  - {{mode: subscribe, name: pod, group: s{t}, topics: [{t}], members: 2, static: true, {sarama},
      config: {{Consumer.Offsets.Initial: OffsetOldest, Consumer.Group.Session.Timeout: 30s}}}}
  - {{mode: subscribe, name: auto, group: a{t}, topics: [{t}], {sarama}, max_poll_records: 50,
      config: {{{EARLIEST}, Consumer.Offsets.AutoCommit.Interval: 100ms, Metadata.RefreshFrequency: 200ms}},
      commit: {{when: after_record, kind: auto}}}}
  - {{mode: assign, name: flink, topics: [{t}], {sarama}, discover: 100ms, start: latest}}
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
        a.create_partitions([NewPartitions(t, 3)])[t].result(30)
    until(f.producers_done, "producers did not finish")
    found = [f"{t}/0", f"{t}/1", f"{t}/2"]
    until(lambda: f.state("auto/1").assigned() == found, "the new partition was not assigned to the group")
    until(lambda: f.state("flink/1").assigned() == found, "the new partition was not assigned")
    until(lambda: len({d["seq"] for d in rows(run, "deliveries", group=f"s{t}")}) == 300, "not all records arrived")
    until(lambda: len(set(offsets(run, "auto/1"))) == 300, "the member with automatic commits misses records")
    until(lambda: f.delivered("flink") == 300, "the assign consumer did not receive all records")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    static = rows(run, "assignments", group=f"s{t}")
    assert {a["instance_id"] for a in static if a["consumer"] == "pod/1"} == {"pod-1"}
    again = next(a for a in rows(run, "assignments", consumer="pod/1", incarnation=2) if a["event"] == "assigned")
    assert again["generation"] == before["generation"], "a static member that restarts causes no rebalance"
    commits = rows(run, "commits", consumer="auto/1")
    assert {c["kind"] for c in commits} == {"auto"}
    ends = {TopicPartition(t, c["partition"]): c["offset"] for c in commits if c["outcome"] == "ok"}
    assert Kafka(bootstrap).committed(f"a{t}", ends) == ends
    assert sum(ends.values()) == 300
    starts = rows(run, "assignments", consumer="flink/1", event="assigned")
    assert {(a["position"], a["source"]) for a in starts} == {(0, "start")}


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("Producer.Idempotent: true", r"Idempotent producer requires Producer\.RequiredAcks to be WaitForAll"),
    ],
)
def test_a_sarama_client_that_cannot_start_reports_the_reason(
    fleet: MakeFleet, run: Run, setting: str, reason: str
) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, client: sarama, config: {{{setting}}}}}]
""")
    with pytest.raises(ClientError, match=reason):
        f.start_producers()
