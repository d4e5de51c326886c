"""Spark queries with a real broker: checkpoints, batches that run again, and no trace among the groups."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from confluent_kafka.admin import NewPartitions

from chaos.run.directory import Run
from tests.chaos.clients.conftest import WAIT_S, MakeFleet, admin, until
from tests.support.ledgers import rows, topic_name

pytestmark = [pytest.mark.landing, pytest.mark.kafka]
RECORDS = 600


@pytest.mark.nightly(
    twin="chaos/clients/flink/test_flink.py::test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree"
)
def test_a_killed_query_runs_its_batch_again_and_a_sink_that_deduplicates_has_each_result_once(
    fleet: MakeFleet, run: Run, bootstrap: str
) -> None:
    t = topic_name()
    query = (
        f"mode: assign, topics: [{t}], client: spark, checkpoint_every: 500ms, per_record: 4ms, commit: {{when: never}}"
    )
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: {RECORDS}, rate: 2000/s}}]
consumers:
  - {{name: plain, {query}}}
  - {{name: once, {query}, idempotent_results: true}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    f.start_producers()
    for client in ("plain", "once"):
        until(lambda client=client: f.delivered(client) >= 150, "nothing is delivered")
        f.crash(f"{client}/1")
        f.restart(f"{client}/1")
    for client in ("plain", "once"):
        until(lambda client=client: len(_offsets(run, client)) == RECORDS, "it did not receive all records")
    until(lambda: sum(f.positions("once").values()) == RECORDS, "it did not pass the records that have a result")
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    assert max(_offsets(run, "once").values()) == 1
    again = {place for place, count in _offsets(run, "plain").items() if count > 1}
    assert again
    for client in ("plain", "once"):
        events = rows(run, "assignments", consumer=f"{client}/1")
        stored = {e["partition"]: e["position"] for e in events if e["event"] == "checkpoint" and e["incarnation"] == 1}
        begun = {e["partition"]: e for e in events if e["event"] == "assigned" and e["incarnation"] == 2}
        assert {e["source"] for e in begun.values()} == {"checkpoint"}
        assert all(e["position"] >= stored.get(p, 0) for p, e in begun.items())
        if client == "plain":
            assert all(offset >= begun[partition]["position"] for partition, offset in again)
    assert not rows(run, "commits")
    with admin(bootstrap) as a:
        groups = {group.group_id for group in a.list_consumer_groups().result(WAIT_S).valid}
    assert not [group for group in groups if group.startswith("spark")]
    started = [json.loads(e["detail"]) for e in rows(run, "lifecycle", event="started") if e["role"] == "consumer"]
    assert {d["spark"] for d in started} == {"4.2.0"}


@pytest.mark.nightly(
    twin="chaos/clients/flink/test_flink.py::test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree"
)
def test_a_partition_that_was_added_begins_at_its_first_record(fleet: MakeFleet, run: Run, bootstrap: str) -> None:
    t = topic_name()
    query = f"mode: assign, topics: [{t}], client: spark, start: latest, commit: {{when: never}}"
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 100, keys: 20, rate: 200/s}}]
consumers: [{{name: late, {query}, discover: 1s}}]
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    with admin(bootstrap) as a:
        a.create_partitions([NewPartitions(t, 2)])[t].result(WAIT_S)
    f.start_producers()
    until(lambda: len(_offsets(run, "late")) == 100, "it did not receive all records")
    assert f.stop_all(WAIT_S) == []
    begun = {e["partition"]: (e["position"], e["source"]) for e in rows(run, "assignments", event="assigned")}
    assert begun == {0: (0, "start"), 1: (0, "start")}


def _offsets(run: Run, client: str) -> Counter[tuple[int, int]]:
    """Return how often each record was delivered to the incarnations of a client."""
    return Counter((d["partition"], d["offset"]) for d in rows(run, "deliveries", consumer=f"{client}/1"))
