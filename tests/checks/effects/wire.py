"""Hand-written wire ledgers of an application, and the run that they are of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.run.directory import Run
from checks.wire.tables import table_path

WIRE = {
    "fetched": "instance string, broker int, connection int, number int, topic string, partition int, asked_us bigint, "
    "answered_us bigint, asked_offset bigint, base_offset bigint, last_offset bigint, control string, "
    "complete boolean, made boolean, isolation int",
    "acquired": "instance string, broker int, topic string, partition int, answered_us bigint, first_offset bigint, "
    "last_offset bigint, delivery_count int",
    "acknowledged": "instance string, broker int, connection int, number int, group string, topic string, "
    "partition int, asked_us bigint, answered_us bigint, first_offset bigint, last_offset bigint, types array<int>, "
    "error int",
    "commits": "instance string, broker int, connection int, number int, group string, topic string, partition int, "
    "asked_us bigint, sent_us bigint, answered_us bigint, offset bigint, error int, transactional_id string",
    "transactions": "instance string, call string, transactional_id string, asked_us bigint, committed boolean, "
    "error int",
    "produced": "instance string, broker int, topic string, partition int, producer_id bigint, producer_epoch int, "
    "base_sequence int, records int, asked_us bigint, answered_us bigint, base_offset bigint, outcome string, "
    "error int",
    "log": "topic string, partition int, producer_id bigint, producer_epoch int, base_sequence int, "
    "base_offset bigint, control string",
    "connections": "instance string, library string, library_version string, client_id string",
    "membership": "instance string, broker int, call string, group string, asked_us bigint, answered_us bigint, "
    "owned array<struct<topic: string, partitions: array<int>>>, assigned array<struct<topic: string, partitions: "
    "array<int>>>, error int, generation int, given_generation int",
    "unread": "side string, api int, version int, why string, frames bigint",
}

SCENARIO = """
title: Billing
topics: [{name: orders, partitions: 4}, {name: invoices}]
producers: [{name: shop, topic: orders, records: 10, value: {template: 'order {id}'}}]
apps: [{name: billing, command: [python, '{bootstrap}'], group: billing, reads: [orders]}]
effects: [{name: invoices, topic: invoices, id: $.order_id}]
expect: {effects: {invoices: {late: {p99: 1s}}}}
"""


def whole(**tables: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table, with what is the same in all of them."""
    own = {"instance": "billing/2", "broker": 1, "connection": 1, "topic": "orders", "partition": 3, "error": 0}
    own |= {"group": "billing", "complete": True}
    return {name: [own | row for row in tables.get(name, ())] for name in WIRE}


def write_wire(spark: Any, run: Run, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Write the tables of the wire ledger."""
    for name, columns in WIRE.items():
        values = [tuple(map(row.get, spark.createDataFrame([], columns).columns)) for row in rows[name]]
        folder = table_path(run, name)
        folder.mkdir(parents=True)
        table = spark.createDataFrame(values, columns).toArrow()
        pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), folder / "part-0.parquet")
