"""The clients in Go with a real broker: counts, rows, crashes, transactions, balance strategies and commits."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import NewPartitions

from chaos.clients.choice import RUNTIMES
from chaos.errors import ClientError
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.ledger.seal import seal
from chaos.run.directory import Run
from tests.chaos.clients.conftest import WAIT_S, MakeFleet, admin, crash_while_reading, offsets, take_half_over, until
from tests.support.ledgers import rows, topic_name

pytestmark = pytest.mark.kafka


@dataclass(frozen=True)
class Library:
    """The settings of a library, as the cases need them. kip848: empty without KIP-848."""

    name: str
    fast: str
    committed: str
    weak: str
    strategy: str
    kip848: str
    session: str
    quick_commits: str


SARAMA = Library(
    "sarama",
    fast="Consumer.Offsets.Initial: OffsetOldest, Consumer.Group.Heartbeat.Interval: 300ms",
    committed="Consumer.IsolationLevel: ReadCommitted",
    weak="enable.idempotence: true, acks: all",
    strategy="Consumer.Group.Rebalance.GroupStrategies",
    kip848="",
    session="Consumer.Group.Session.Timeout: 30s",
    quick_commits="Consumer.Offsets.AutoCommit.Interval: 100ms, Metadata.RefreshFrequency: 200ms",
)
FRANZ_GO = Library(
    "franz-go",
    fast="ConsumeResetOffset: AtStart, HeartbeatInterval: 300ms",
    committed="isolation.level: read_committed",
    weak="RequiredAcks: LeaderAck, DisableIdempotentWrite: true",
    strategy="Balancers",
    kip848="auto.offset.reset: earliest, group.protocol: consumer",
    session="SessionTimeout: 30s",
    quick_commits="AutoCommitInterval: 100ms, MetadataMaxAge: 500ms, MetadataMinAge: 100ms",
)
FILE = "chaos/clients/golang/test_clients.py"
SHARED = "chaos/clients/test_fleet.py::test_partitions_move_one_by_one_and_no_record_is_delivered_twice"
STATIC = "test_java_members_are_static_commit_by_themselves_and_find_topics[4.3.1]"


def oldest_and_newest(library: Library) -> list[tuple[Library, str]]:
    oldest, newest = RUNTIMES[library.name].releases or ("", "")
    return [(library, newest), (library, oldest)]


def cases(*found: tuple[Library, str], twin: str, landing: tuple[Library, str] | None = None) -> list[object]:
    """Return the cases of a test, with the twin of those in the nightly lane."""
    return [
        pytest.param(
            library,
            value,
            marks=pytest.mark.landing if (library, value) == landing else pytest.mark.nightly(twin=twin),
            id=f"{library.name}-{value}",
        )
        for library, value in found
    ]


RELEASES = [*oldest_and_newest(SARAMA), *oldest_and_newest(FRANZ_GO)]
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")


@pytest.mark.parametrize(
    ("library", "release"),
    cases(
        *RELEASES,
        twin=f"{FILE}::test_clients_write_read_and_restart_and_their_rows_agree",
        landing=RELEASES[0],
    ),
)
def test_clients_write_read_and_restart_and_their_rows_agree(
    fleet: MakeFleet, run: Run, bootstrap: str, library: Library, release: str
) -> None:
    t = topic_name()
    client = f"client: '{library.name}:{release}'"
    f = fleet(f"""
topics: [{{name: {t}, partitions: 3, replication_factor: 1}}]
producers:
  - {{name: shop, topic: {t}, records: 600, rate: 2000/s, keys: 9, {client}, config: {{}}}}
  - {{name: desk, topic: {t}, records: 100, mode: synchronous, {client}, config: {{{library.weak}}}}}
  - {{name: till, topic: {t}, records: 200, transactions: {{records: 25, abort_every: 4}}, {client}, config: {{}}}}
  - {{name: noack, topic: {t}, records: 50, {client}, config: {{acks: 0, enable.idempotence: false}}}}
consumers:
  - {{mode: subscribe, name: group, group: g{t}, topics: [{t}], {client},
      config: {{{library.fast}, {library.committed}}}}}
  - {{mode: assign, name: own, topics: [{t}], {client}, per_record: 2ms, max_poll_records: 40}}
  - {{mode: assign, name: stored, topics: [{t}], group: s{t}, {client}, commit: {{when: after_batch, kind: sync}}}}
""")
    crash_while_reading(f, "own")
    until(lambda: f.delivered("group") == 900, "the group did not receive all committed records")
    until(lambda: len(set(offsets(run, "own/1"))) == 950, "the assign consumer did not receive all records")
    until(lambda: f.delivered("stored") == 950, "the consumer that commits did not receive all records")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    sends = rows(run, "sends", topic=t)
    counts = {"shop/1": 600, "desk/1": 100, "till/1": 200, "noack/1": 50}
    assert {(s["producer"], s["seq"]) for s in sends} == {
        (who, n) for who, count in counts.items() for n in range(count)
    }
    assert {s["outcome"] for s in sends} == {"ok"}
    assert {s["offset"] for s in sends if s["producer"] == "noack/1"} == {None}
    assert {s["key"] for s in rows(run, "sends", producer="shop/1")} == {f"k{n}" for n in range(9)}
    sent = {(s["partition"], s["offset"]): (s["producer"], s["seq"]) for s in sends if s["offset"] is not None}
    got = rows(run, "deliveries", consumer="group/1")
    named = {(d["partition"], d["offset"]): (d["producer"], d["seq"]) for d in got if d["producer"] != "noack/1"}
    assert named.items() <= sent.items()
    assert [d["ordinal"] for d in got] == list(range(900))
    assert max(Counter(offsets(run, "own/1")).values()) == 1, "its checkpoint is exact"
    assert {a["source"] for a in rows(run, "assignments", consumer="own/1", incarnation=2)} == {"checkpoint"}
    ended = Counter(x["outcome"] for x in rows(run, "transactions", producer="till/1"))
    assert ended == {"committed": 6, "aborted": 2}
    for entry, group in (("group/1", f"g{t}"), ("stored/1", f"s{t}")):
        commits = rows(run, "commits", consumer=entry)
        assert {(c["kind"], c["outcome"]) for c in commits} == {("sync", "ok")}
        ends = {TopicPartition(t, c["partition"]): c["offset"] for c in commits}
        assert Kafka(bootstrap).committed(group, ends) == ends
    started = [json.loads(e["detail"]) for e in rows(run, "lifecycle", event="started")]
    (key,) = RUNTIMES[library.name].reported
    assert {d[key] for d in started} == {release}
    assert not any(table.torn for table in seal(run.ledger).tables.values())


@pytest.mark.parametrize(
    ("library", "strategy"),
    cases(
        *[(library, strategy) for library in (SARAMA, FRANZ_GO) for strategy in STRATEGIES],
        (FRANZ_GO, "KIP-848"),
        twin=SHARED,
    ),
)
def test_members_share_partitions_with_every_strategy(
    fleet: MakeFleet, run: Run, library: Library, strategy: str
) -> None:
    t = topic_name()
    settings = library.kip848 if strategy == "KIP-848" else f"{library.fast}, {library.strategy}: {strategy}"
    client = f"client: {library.name}"
    kind = "sync" if library is SARAMA else "async"
    f = fleet(f"""
topics: [{{name: {t}, partitions: 4, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 800, rate: 200/s, {client}, config: {{}}}}]
consumers:
  - {{mode: subscribe, name: a, group: g{t}, topics: [{t}], {client}, config: {{{settings}}},
      commit: {{when: periodic, every: 100ms, kind: {kind}, on_revoke: true}}}}
  - {{mode: subscribe, name: b, group: g{t}, topics: [{t}], {client}, config: {{{settings}}}}}
""")
    take_half_over(f)
    until(lambda: len(set(offsets(run, "a/1") + offsets(run, "b/1"))) == 800, "not everything is delivered")
    kept = f.state("a/1").assigned()
    assert f.stop_all(WAIT_S) == []
    moved = rows(run, "assignments", consumer="b/1", event="assigned")
    assert moved and {a["source"] for a in moved} <= {"committed", "reset"}
    assert all(a["position"] is not None and a["generation"] and a["member_id"] for a in moved)
    if strategy != "KIP-848":
        assert max(Counter(offsets(run, "a/1") + offsets(run, "b/1")).values()) == 1, "all was committed on revocation"
    starts = Counter(
        f"{a['topic']}/{a['partition']}" for a in rows(run, "assignments", consumer="a/1", event="assigned")
    )
    assert {starts[p] for p in kept} == ({1} if strategy in ("cooperative-sticky", "KIP-848") else {2})
    assert kind in {c["kind"] for c in rows(run, "commits", consumer="a/1")} <= {kind, "sync"}


@pytest.mark.parametrize(("library", "release"), cases(*RELEASES, twin=f"chaos/clients/java/test_java.py::{STATIC}"))
def test_members_are_static_commit_by_themselves_and_find_partitions(
    fleet: MakeFleet, run: Run, bootstrap: str, library: Library, release: str
) -> None:
    t = topic_name()
    client = f"client: '{library.name}:{release}'"
    auto = f"{library.fast}, {library.quick_commits}"
    subscribed = f'pattern: "{t[:-1]}."' if library is FRANZ_GO else f"topics: [{t}]"
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 300, rate: 300/s, {client}, config: {{}}}}]
consumers:
  - {{mode: subscribe, name: pod, group: s{t}, topics: [{t}], members: 2, static: true, {client},
      config: {{{library.fast}, {library.session}}}}}
  - {{mode: subscribe, name: auto, group: a{t}, {subscribed}, {client}, max_poll_records: 50, config: {{{auto}}},
      commit: {{when: after_record, kind: auto}}}}
  - {{mode: subscribe, name: greedy, group: b{t}, topics: [{t}], {client}, config: {{{auto}}},
      commit: {{when: before_processing, kind: auto}}}}
  - {{mode: assign, name: own, topics: [{t}], {client}, discover: 100ms, start: latest}}
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
    until(lambda: f.state("own/1").assigned() == found, "the new partition was not assigned")
    until(lambda: len({d["seq"] for d in rows(run, "deliveries", group=f"s{t}")}) == 300, "not all records arrived")
    for member in ("auto/1", "greedy/1"):
        until(lambda m=member: len(set(offsets(run, m))) == 300, f"{member} misses records")
    until(lambda: f.delivered("own") == 300, "the assign consumer did not receive all records")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    static = rows(run, "assignments", group=f"s{t}")
    assert {a["instance_id"] for a in static if a["consumer"] == "pod/1"} == {"pod-1"}
    again = next(a for a in rows(run, "assignments", consumer="pod/1", incarnation=2) if a["event"] == "assigned")
    assert again["generation"] == before["generation"], "a static member that restarts causes no rebalance"
    for member, group in (("auto/1", f"a{t}"), ("greedy/1", f"b{t}")):
        commits = rows(run, "commits", consumer=member)
        assert {c["kind"] for c in commits} == {"auto"}
        ends = {TopicPartition(t, c["partition"]): c["offset"] for c in commits if c["outcome"] == "ok"}
        assert Kafka(bootstrap).committed(group, ends) == ends
        assert sum(ends.values()) == 300
    starts = rows(run, "assignments", consumer="own/1", event="assigned")
    assert {(a["position"], a["source"]) for a in starts} == {(0, "start")}


REASONS = (
    (SARAMA, "Producer.Idempotent: true", r"Idempotent producer requires Producer\.RequiredAcks to be WaitForAll"),
    (FRANZ_GO, "acks: 1", "idempotency requires acks=all"),
)


@pytest.mark.parametrize(
    ("library", "setting"),
    cases(
        *[(library, setting) for library, setting, _ in REASONS],
        twin=f"{FILE}::test_a_client_that_cannot_start_reports_the_reason",
        landing=REASONS[0][:2],
    ),
)
def test_a_client_that_cannot_start_reports_the_reason(fleet: MakeFleet, library: Library, setting: str) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, client: {library.name}, config: {{{setting}}}}}]
""")
    with pytest.raises(ClientError, match=next(reason for _, found, reason in REASONS if found == setting)):
        f.start_producers()
