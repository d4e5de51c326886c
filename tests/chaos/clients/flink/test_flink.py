"""Flink jobs with a real broker: rows, restore after a crash, commits on checkpoints, idle subtasks, discovery."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import NewPartitions

from chaos.conformance.bench import Bench
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.ledger.seal import seal
from chaos.run.directory import Run
from tests.chaos.clients.conftest import WAIT_S, MakeFleet, admin, until
from tests.support.ledgers import rows, topic_name

pytestmark = [pytest.mark.landing, pytest.mark.kafka]


@pytest.mark.nightly(
    twin="chaos/clients/flink/test_flink.py::test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree"
)
@pytest.mark.parametrize("client", ["flink", "flink:1.20.5", "flink-legacy"])
def test_a_flink_job_restores_its_checkpoint_and_commits_it_and_its_rows_agree(
    fleet: MakeFleet, run: Run, bootstrap: str, client: str
) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 800, rate: 400/s}}]
consumers:
  - {{mode: assign, name: job, group: g{t}, topics: [{t}], client: "{client}", config: {{parallelism.default: 3}},
      per_record: 2ms, checkpoint_every: 300ms, commit: {{when: on_checkpoint, kind: async}}, discover: 300ms}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    f.start_producers()

    def stored() -> list[dict[str, object]]:
        return [r for r in rows(run, "assignments", consumer="job/1", event="checkpoint") if r["position"]]

    until(lambda: f.delivered("job") >= 100 and stored(), "no record is delivered, or no checkpoint is complete")
    f.crash("job/1")
    last = {r["partition"]: r["position"] for r in stored()}
    done = {d["partition"]: d["offset"] + 1 for d in rows(run, "deliveries", consumer="job/1")}
    f.restart("job/1")
    until(lambda: len(_delivered(run)) == 800, "the job did not receive all records")
    with admin(bootstrap) as a:
        a.create_partitions([NewPartitions(t, 3)])[t].result(30)
        until(lambda: len(a.list_topics(t).topics[t].partitions) == 3, "no partition was added")
    ends = {p: max(o for q, o in _delivered(run) if p == q) + 1 for p in (0, 1)}
    until(lambda: {r["partition"]: r["position"] for r in stored()} == ends, "no checkpoint has the last offsets")
    group = {TopicPartition(t, p): end for p, end in ends.items()}
    until(lambda: Kafka(bootstrap).committed(f"g{t}", group) == group, "the last checkpoint is not committed")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    sends = {(s["partition"], s["offset"]): s["seq"] for s in rows(run, "sends")}
    again = rows(run, "deliveries", consumer="job/1")
    assert {(d["partition"], d["offset"]): d["seq"] for d in again} == sends
    begun = rows(run, "assignments", consumer="job/1", incarnation=2, event="assigned")
    # the job may find the added partition before it stops
    restored = {0: "checkpoint", 1: "checkpoint"}
    assert {a["partition"]: a["source"] for a in begun} in (restored, restored | {2: "start"})
    assert all(last.get(a["partition"], 0) <= a["position"] <= done.get(a["partition"], 0) for a in begun)
    commits = rows(run, "commits", consumer="job/1")
    assert {(c["kind"], c["mode"]) for c in commits} == {("async", "assign")}
    assert {c["outcome"] for c in commits} <= {"ok", "unknown"}
    complete = rows(run, "assignments", consumer="job/1", event="checkpoint")
    assert {(c["partition"], c["offset"]) for c in commits} <= {(r["partition"], r["position"]) for r in complete}
    detail = json.loads(rows(run, "lifecycle", event="started", client="job/1")[0]["detail"])
    assert detail["flink"] == (client.partition(":")[2] or {"flink": "2.3.0", "flink-legacy": "1.20.5"}[client])
    assert not any(table.torn for table in seal(run.ledger).tables.values())


@pytest.mark.parametrize(
    ("client", "transactions"),
    [
        pytest.param("flink", True, id="exactly-once"),
        pytest.param(
            "flink:1.20.5",
            False,
            id="at-least-once",
            marks=pytest.mark.nightly(
                twin="chaos/clients/flink/test_flink.py::test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree"
            ),
        ),
    ],
)
def test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree(
    fleet: MakeFleet, run: Run, bootstrap: str, client: str, transactions: bool
) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}]
producers:
  - {{name: shop, topic: {t}, records: 2000, rate: 400/s, keys: 7, client: "{client}", checkpoint_every: 500ms,
      config: {{acks: all}}{", transactions: {}" if transactions else ""}}}
""")
    f.start_producers()
    until(lambda: f.total_acked() >= 200, "no checkpoint is complete")
    f.crash("shop/1")
    f.restart("shop/1")
    until(f.producers_done, "the restored job does not finish")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    sends = rows(run, "sends")
    assert {(s["outcome"], s["offset"]) for s in sends} == {("ok", None)}
    assert {s["incarnation"] for s in sends} == {1, 2}
    seqs = [s["seq"] for s in sends]
    assert len(seqs) == len(set(seqs)), "the restored job does not begin after its last complete checkpoint"
    isolation = "read_committed" if transactions else "read_uncommitted"
    logged = [r.identity.seq for r in Bench(run, bootstrap, lambda program: []).log(t, isolation) if r.identity]
    assert set(logged) == set(range(2000)) and set(logged) >= set(seqs)
    assert (len(logged) == 2000) == transactions, "records after the checkpoint are written again, or aborted"
    ended = {(r["incarnation"], r["txn"]): r["outcome"] for r in rows(run, "transactions")}
    assert set(ended.values()) == ({"committed"} if transactions else set())
    assert {(s["incarnation"], s["txn"]) for s in sends} == (set(ended) if transactions else {(1, None), (2, None)})


def _delivered(run: Run) -> set[tuple[int, int]]:
    return {(d["partition"], d["offset"]) for d in rows(run, "deliveries", consumer="job/1")}
