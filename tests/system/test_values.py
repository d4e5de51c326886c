"""Payloads of the user's form through the command: sent, read by consumers of ours, read back, and audited."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from chaos.run.directory import Run
from tests.support.platform import chaos

SCENARIO = """
title: Orders of the user
cluster: {brokers: 1}
topics:
  - {name: orders, partitions: 2, replication_factor: 1}
  - {name: bare, replication_factor: 1}
producers:
  - {name: shop, topic: orders, records: 600, value: {samples: orders.jsonl, id: $.order_id, key: $.customer}}
  - {name: plain, topic: orders, records: 300}
  - name: till
    topic: bare
    records: 400
    client: kafka-python
    value: {samples: orders.jsonl, id: $.number, mark: none, sizes: {field: $.note, uniform: [200, 2kB]}}
consumers:
  - {mode: subscribe, name: billing, group: billing, topics: [orders, bare]}
  - {mode: assign, name: archive, topics: [bare], client: aiokafka}
"""
SAMPLES = [{"order_id": f"A-{i}", "number": i, "customer": f"c{i % 5}", "note": "é"} for i in range(50)]


def change_log(run: Run) -> None:
    """Take a record of each kind out of the log, and let the CRC of another one be wrong."""
    for path in sorted((run.ledger / "log").glob("*.parquet")):
        log = pq.read_table(path, partitioning=None)
        of = {name: pc.equal(log["producer"], f"{name}/1") for name in ("shop", "till")}
        lost = pc.or_(pc.and_(of["shop"], pc.equal(log["seq"], 7)), pc.and_(of["till"], pc.equal(log["seq"], 11)))
        bad = pc.and_(of["shop"], pc.equal(log["seq"], 9))
        at = log.schema.get_field_index("crc_ok")
        crc_ok = pc.if_else(bad, pa.scalar(False), log["crc_ok"])
        pq.write_table(log.set_column(at, log.schema.field(at), crc_ok).filter(pc.invert(lost)), path)


@pytest.mark.landing
@pytest.mark.kafka
def test_a_record_of_the_user_is_audited_as_one_of_ours(tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in SAMPLES))
    (tmp_path / "mine.yaml").write_text(SCENARIO)
    ended = chaos("run", tmp_path / "mine.yaml", "--runs-dir", tmp_path / "runs", "--json")
    assert (ended.code, ended.result["verdict"]) == (0, "pass"), ended.err[-3000:]
    folder = tmp_path / "runs" / ended.result["run_id"]
    run = Run.open(folder)
    log = pa.concat_tables([pq.read_table(p, partitioning=None) for p in (run.ledger / "log").glob("*.parquet")])
    sealed = {(row["producer"], row["crc_ok"]) for row in log.select(["producer", "crc_ok"]).to_pylist()}
    assert sealed == {("shop/1", True), ("plain/1", True), ("till/1", None)}

    change_log(run)
    ended = chaos("audit", folder, "--json")
    # a hole in the log leaves the verdict open, and what is known is counted
    assert (ended.code, ended.result["verdict"]) == (3, "inconclusive"), ended.err[-3000:]
    totals = {(t["check"], t["scope"]): t["count"] for t in json.loads(run.result.read_text())["totals"] if t["count"]}
    wanted = {("lost_write", "orders"): 1, ("lost_write", "bare"): 1, ("corrupt_record", "orders"): 1}
    assert {of: count for of, count in totals.items() if of[0] != "dirty_read"} == wanted
