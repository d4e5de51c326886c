"""An application that connects past its front: the brokers have commits or batches of it that no front has seen."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.scenario.load import parse
from checks.wire.ledger import bypasses
from checks.wire.tables import FOLDER, SEAL, table_path
from tests.support.fake_runs import FakeRun

SCENARIO = """
title: Billing
topics: [{name: orders}, {name: invoices}]
producers: [{name: shop, topic: orders, records: 10, value: {template: 'order {id}'}}]
apps: [{name: billing, command: [python, '{bootstrap}'], group: billing, reads: [orders]}]
effects: [{name: invoices, topic: invoices, id: $.order_id}]
"""
RESETS = """
consumers: [{mode: subscribe, name: audit, group: audit, topics: [orders]}]
faults: [{name: back, kind: group.reset_offsets, target: {group: audit}, to: earliest, when: {acked: 5}}]
"""
PLACE = [("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
SCHEMAS = {
    "commits": PLACE,
    "produced": [("producer_id", pa.int64())],
    "transactions": [("given_producer_id", pa.int64())],
    "log": [("topic", pa.string()), ("producer_id", pa.int64()), ("control", pa.string())],
    "unread": [("api", pa.int32())],
}


def committed(offset, group="billing", partition=0):
    return {"group": group, "topic": "orders", "partition": partition, "offset": offset}


def batch(producer_id, topic="invoices", control=None):
    return {"topic": topic, "producer_id": producer_id, "control": control}


def write(path, rows, schema):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(schema)), path)


@pytest.fixture
def found(tmp_path):
    run = FakeRun(tmp_path, SCENARIO).run

    def bypassed(read_back=(), scenario=SCENARIO, failure="", **wire):
        """Return the sentences. read_back: the rows of the log of commits; wire: the rows of tables of the wire."""
        for name, schema in SCHEMAS.items():
            if (rows := wire.get(name, [])) is not None:
                write(table_path(run, name) / "part.parquet", rows, schema)
        if read_back is not None:
            write(run.ledger / "commit_log.parquet", read_back, [*PLACE, ("transaction", pa.string())])
        (run.path / FOLDER / SEAL).write_text(json.dumps({"failure": failure}))
        return bypasses(run, parse(scenario, "test"))

    return bypassed


OF_COMMIT = "group billing committed orders/0 offset 70, and no front has seen that: a client of an application"
OF_BATCH = "invoices has records of producer id 9, which no front has seen: a client of an application"


@pytest.mark.parametrize(
    ("words", "read_back", "wire"),
    [
        ([], [], {}),
        ([], [committed(70)], {"commits": [committed(70)]}),
        ([OF_COMMIT], [committed(70)], {}),
        ([OF_COMMIT], [committed(60), committed(70), committed(80)], {"commits": [committed(60)]}),
        (
            [OF_COMMIT],
            [committed(70)],
            {"commits": [committed(71), committed(70, partition=1), committed(70, "other")]},
        ),
        ([], [committed(70, "other"), committed(None)], {}),  # a stranger's group, and the end of a commit
        ([], [], {"log": [batch(7)], "produced": [{"producer_id": 7}]}),
        ([OF_BATCH], [], {"log": [batch(9), batch(9), batch(7)], "produced": [{"producer_id": 7}]}),
        ([], [], {"log": [batch(9)], "transactions": [{"given_producer_id": 9}]}),
        ([], [], {"log": [batch(9)], "produced": [{"producer_id": 9}, {"producer_id": -1}]}),
        ([], [], {"log": [batch(0)], "produced": [{"producer_id": 0}]}),
        ([OF_BATCH.replace("id 9", "id 0")], [], {"log": [batch(0)]}),
        ([], [], {"log": [batch(-1)]}),  # without an id, nothing shows who wrote it
        ([], [], {"log": [batch(9, control="commit")]}),  # a coordinator writes markers
        ([], [], {"log": [batch(9, topic="orders")]}),  # of the producers of the run, which have no front
        ([OF_COMMIT, OF_BATCH], [committed(70)], {"log": [batch(9)]}),
        ([], [committed(70)], {"log": [batch(9)], "unread": [{"api": 8}]}),  # it may be in what could not be read
    ],
)
def test_what_no_front_has_seen_is_named(found, words, read_back, wire):
    sentences = found(read_back, **wire)
    assert len(sentences) == len(words)
    assert all(sentence.startswith(word) for sentence, word in zip(sentences, words, strict=True))


def test_an_incomplete_capture_shows_no_bypass(found):
    assert found([committed(70)], failure="the disk is full", log=[batch(9)]) == []


def test_a_fault_that_moves_offsets_commits_past_every_front(found):
    assert found([committed(70)], scenario=SCENARIO + RESETS) == []
    assert len(found([committed(70)], scenario=SCENARIO + RESETS, log=[batch(9)])) == 1


def test_only_a_cluster_of_the_run_has_no_batches_of_others(found):
    named = SCENARIO.replace("'{bootstrap}'", "'{bootstrap}', '{group}', '{topic.orders}'")
    attached = named + "cluster: {driver: attached, bootstrap: 'localhost:9092'}\n"
    assert found(scenario=attached, log=[batch(9)]) == []
    assert len(found([committed(70)], scenario=attached, log=[batch(9)])) == 1, "the group is the application's own"


def test_without_the_batches_of_the_log_nothing_shows_who_wrote_it(found):
    assert found(log=None) == []
    assert len(found(None, log=[batch(9)])) == 1, "nor what was committed without the log of commits"
