"""What is read of effects of each source where no payloads are kept."""

import json
import urllib.request
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.effects.watch import Watch
from chaos.errors import ClusterError
from chaos.kafka.security import Endpoint
from chaos.ledger.schemas import LOG_RANGE
from chaos.run.events import EventLog, read_events
from chaos.setup.effects import Effect
from checks.effects import read as reading
from checks.effects.read import Plan, SourcePart, TopicPart, fingerprint, read_effects
from checks.readback.source import ROWS_PER_FILE, OffsetRange
from checks.readback.stage import SMALL
from tests.support.fake_runs import FakeRun

SCENARIO = """
title: Billing
capture: {payloads: none}
topics: [{name: orders}]
producers: [{name: shop, topic: orders, value: {template: 'order {id}'}}]
effects:
  - {name: lines, files: '%s/*.jsonl', id: $.id}
  - {name: named, files: '%s/*.csv', id: name}
  - {name: rows, files: '%s/*.parquet', id: id}
  - {name: calls, http: {path: /booked}, id: $.id}
"""
SECRET = "4929-1234-5678"


def texts(folder):
    """Yield what the files of a run say, tables as texts."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        table = path.suffix == ".parquet"
        text = json.dumps(pq.read_table(path, partitioning=None).to_pylist()) if table else path.read_text()
        yield path.relative_to(folder), text


def read(tmp_path, scenario):
    """Return the run folder after a drive and a reading of effects from sources with a secret in each record."""
    sources = tmp_path / "out"
    sources.mkdir()
    (sources / "a.jsonl").write_text(f'card {SECRET}\n{{"{SECRET}": 1}}\n"{SECRET}"\n{{"id": "a7"}}\n')
    (sources / "b.csv").write_text(f"{SECRET},amount\na7,1\na8\n")
    pq.write_table(pa.table({SECRET: [1]}), sources / "c.parquet")
    fake = FakeRun(tmp_path, scenario % ((sources,) * 3))
    pq.write_table(LOG_RANGE.empty_table(), fake.run.ledger / "log_range.parquet")
    with Watch(fake.run, fake.resolved, EventLog(fake.run)) as watch:
        for body in (f"card {SECRET}", f'["{SECRET}"]', f'{{"{SECRET}": 1}}', f'{{"id": ["{SECRET}"]}}'):
            urllib.request.urlopen(urllib.request.Request(watch.urls["calls"], body.encode(), method="POST"))
    read_effects(None, fake.run, fake.resolved, "")
    return fake.run


def test_without_payloads_no_file_of_the_run_has_a_part_of_one(tmp_path):
    run = read(tmp_path, SCENARIO)
    assert [path for path, text in texts(run.path) if SECRET in text] == []
    rows = pq.read_table(run.ledger / "effect_reads.parquet").to_pylist()
    found = {row["effect"]: (row["unreadable"], row["example"]) for row in rows}
    assert found == {
        "lines": (3, "a.jsonl line 1: the line is no JSON"),
        "named": (2, "b.csv line 2: there is no name"),
        "rows": (1, "c.parquet row 1: there is no id"),
        "calls": (4, "call 1: it is no JSON"),
    }


def test_a_last_line_that_is_only_begun_is_no_effect_and_is_noted(tmp_path):
    sources = tmp_path / "out"
    sources.mkdir()
    (sources / "a.jsonl").write_text('{"id": "a7"}\n{"id": "a')
    (sources / "b.csv").write_text("amount,name\n1,a7\n2")
    (sources / "c.jsonl").write_text('{"id": "a\n{"id": "a8"}')
    (sources / "d.jsonl").write_text("[]\n")
    fake = FakeRun(tmp_path, SCENARIO % ((sources,) * 3))
    pq.write_table(LOG_RANGE.empty_table(), fake.run.ledger / "log_range.parquet")
    pq.write_table(pa.table({"id": [1]}), sources / "c.parquet")
    read_effects(None, fake.run, fake.resolved, "")
    rows = pq.read_table(fake.run.ledger / "effect_reads.parquet").to_pylist()
    assert [(row["effect"], row["rows"], row["unreadable"]) for row in rows if row["effect"] in ("lines", "named")] == [
        ("lines", 4, 2),
        ("named", 1, 0),
    ]
    ids = pq.read_table(fake.run.ledger / "effects.parquet", partitioning=None).to_pylist()
    assert sorted(row["id"] for row in ids if row["id"] and row["effect"] == "lines") == ["a7", "a8"]
    assert [event["words"].rpartition(": ")[2] for event in read_events(fake.run)] == [
        "a.jsonl line 2",
        "b.csv line 3",
    ]


def test_with_payloads_the_reasons_show_what_is_wrong(tmp_path):
    run = read(tmp_path, SCENARIO.replace("payloads: none", "payloads: needed"))
    rows = pq.read_table(run.ledger / "effect_reads.parquet").to_pylist()
    assert all(SECRET in row["example"] for row in rows)


TOPIC_SCENARIO = """
title: Billing
capture: {payloads: none}
topics: [{name: orders}, {name: invoices}, {name: mails}]
producers: [{name: shop, topic: orders, value: {template: 'order {id}'}}]
effects:
  - {name: invoices, topic: invoices, id: $.id, equals: $.amount}
  - {name: mails, topic: mails, id: $.id}
"""


def test_a_topic_is_read_up_to_what_readers_of_committed_records_see(tmp_path, monkeypatch):
    """The inputs to compare with are read to their end, and a topic that does not exist keeps nothing else back."""
    fake = FakeRun(tmp_path, TOPIC_SCENARIO)
    log = {"topic": "orders", "partition": 0, "start": 4, "end": 9}
    pq.write_table(
        pa.Table.from_pylist([log, log | {"records": 5, "start": 0, "end": 99}], LOG_RANGE),
        fake.run.ledger / "log_range.parquet",
    )

    def found(bootstrap, topics, security):
        if topics != ["invoices"]:
            raise ClusterError("no such topic")
        return {("invoices", 0): (3, ROWS_PER_FILE + 5), ("invoices", 1): (0, 6)}

    monkeypatch.setattr(reading, "log_ranges", found)
    stable = {("invoices", 0): ROWS_PER_FILE + 7, ("invoices", 1): 2}
    monkeypatch.setattr(reading, "stable_offsets", lambda bootstrap, topics, security: stable)
    plan = reading._plan(None, fake.run, fake.resolved, Endpoint(""), {})
    parts = [(p.range.topic, p.range.partition, p.range.start, p.range.end, p.range.stable) for p in plan.parts]
    assert parts == [
        ("invoices", 0, 3, ROWS_PER_FILE + 3, ROWS_PER_FILE + 5),
        ("invoices", 0, ROWS_PER_FILE + 3, ROWS_PER_FILE + 5, ROWS_PER_FILE + 5),
        ("invoices", 1, 0, 2, 2),
        ("orders", 0, 4, 9, None),
    ]
    assert [(bool(part.inputs), part.hidden) for part in plan.parts] == [(False, True)] * 3 + [(True, False)]
    assert plan.weight == ROWS_PER_FILE + 2 + 2 + 5
    assert [(one.effect, one.error) for one in plan.errors] == [
        ("mails", "topic mails cannot be read: it does not exist at the end")
    ]


def test_an_effect_of_several_topics_is_read_from_all(tmp_path, monkeypatch):
    text = TOPIC_SCENARIO.replace("{name: mails, topic: mails,", "{name: either, topic: [mails, orders-dead],")
    fake = FakeRun(tmp_path, text.replace("{name: mails}]", "{name: mails}, {name: orders-dead}]"))
    pq.write_table(LOG_RANGE.empty_table(), fake.run.ledger / "log_range.parquet")
    monkeypatch.setattr(reading, "log_ranges", lambda at, topics, security: {(topics[0], 0): (0, len(topics[0]))})
    monkeypatch.setattr(reading, "stable_offsets", lambda bootstrap, topics, security: {})
    plan = reading._plan(None, fake.run, fake.resolved, Endpoint(""), {})
    parts = [(p.effect.name, p.range.topic, p.range.end, p.hidden) for p in plan.parts if p.inputs is None]
    assert parts == [
        ("invoices", "invoices", 8, True),
        ("either", "mails", 5, True),
        ("either", "orders-dead", 11, True),
    ]


def message(offset, value, at_ms=7):
    """Return a record of orders/0 as the reader of a part gives it."""
    answers = {"offset": offset, "value": value, "key": None, "headers": None, "partition": 0, "timestamp": (1, at_ms)}
    return SimpleNamespace(**{name: lambda found=found: found for name, found in answers.items()})


@pytest.mark.parametrize(
    ("inputs", "isolation", "columns", "rows"),
    [
        # the time of a record is in whole ms, so it was made within the ms from there on
        (None, "read_committed", ("id", "number", "after_us", "at_us"), [("a", 5, 7000, 7999), (None, 6, None, None)]),
        ("json", "read_uncommitted", ("offset", "value"), [(5, "3"), (6, None)]),
    ],
)
def test_a_part_of_a_topic_has_the_records_up_to_its_end(tmp_path, monkeypatch, inputs, isolation, columns, rows):
    """Inputs of aborted transactions are compared too, and an aborted output is no effect."""
    asked = []

    class Reader:
        def __init__(self, of, level):
            asked.append(level)
            self.reached = of.start

        def poll(self, most):
            self.reached = 9
            return [message(5, b'{"id": "a", "amount": 3}'), message(6, b"torn"), message(7, b'{"id": "b"}')]

        def close(self):
            asked.append("closed")

    monkeypatch.setattr(reading, "PartReader", Reader)
    effect = FakeRun(tmp_path, TOPIC_SCENARIO).resolved.scenario.effects[0]
    part = TopicPart(effect, OffsetRange("", "orders", 0, 5, 7, tmp_path, 0), inputs)
    assert [tuple(row.get(name) for name in columns) for row in part.rows()] == rows
    assert asked == [isolation, "closed"]


def test_a_record_with_several_inputs_is_an_effect_for_each():
    made = Effect.model_validate({"name": "e", "topic": "invoices", "id": "$.all[*].id", "equals": "$.sum"})
    record = message(5, b'{"all": [{"id": "a", "sum": 3}, {"sum": 4}, {"id": "b", "sum": 5.0}]}')
    rows = reading._topic_rows(made, False)(record, "invoices/0 offset 5")
    assert [(row["where"], row["number"], row.get("id"), row.get("value"), row.get("problem")) for row in rows] == [
        ("invoices/0 offset 5 [0]", 5, "a", "3", None),
        ("invoices/0 offset 5 [1]", 5, None, None, "nothing is at $.all[*].id"),
        ("invoices/0 offset 5 [2]", 5, "b", "5", None),
    ]


def test_the_time_that_a_record_says_is_its_own(tmp_path, monkeypatch):
    text = TOPIC_SCENARIO.replace("equals: $.amount", "equals: $.amount, at: $.at")
    effect = FakeRun(tmp_path, text).resolved.scenario.effects[0]
    (row,) = reading._topic_rows(effect, False)(message(5, b'{"id": "a", "at": 1700000000123}'), "")
    assert (row["after_us"], row["at_us"]) == (1_700_000_000_123_000, 1_700_000_000_123_000)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"id": "header:order"}, "a"),
        ({"id": "key"}, "b"),
        ({"id": "header:order", "at": "$.at"}, None),  # the value has to be read
        ({"id": "key", "format": {"text": "^x(?P<x>.)"}}, None),  # as the user says what it is
        ({"id": "$.id"}, None),
    ],
)
def test_a_value_without_anything_that_is_judged_may_be_anything(changes, expected):
    record = message(5, b"\x00\xff done")
    record.key, record.headers = (lambda: b"b"), (lambda: [("order", b"a")])
    effect = Effect.model_validate({"name": "e", "topic": "invoices", **changes})
    (row,) = reading._topic_rows(effect, False)(record, "")
    assert (row.get("id"), "problem" in row) == (expected, expected is None)


@pytest.mark.parametrize(
    ("cluster", "kind", "times"),
    [("primary", 1, (7000, 7999)), ("dr", 1, (None, None)), ("dr", 2, (7000, 7999))],
)
def test_a_mirror_keeps_timestamps_so_elsewhere_only_the_time_of_the_broker_counts(tmp_path, cluster, kind, times):
    made = FakeRun(tmp_path, TOPIC_SCENARIO).resolved.scenario.effects[0].model_copy(update={"cluster": cluster})
    record = message(5, b'{"id": "a"}')
    record.timestamp = lambda: (kind, 7)
    (row,) = reading._topic_rows(made, False)(record, "")
    assert (row["after_us"], row["at_us"]) == times


def test_a_copy_has_the_partition_the_key_the_value_and_the_headers_of_a_record():
    record, prints = message(5, b"a"), []
    prints.append(fingerprint(record))
    assert fingerprint(message(6, b"a", at_ms=8)) == prints[0], "another offset and time"
    for name, value in (("partition", 1), ("key", b""), ("value", b""), ("headers", [("a", None)])):
        other = message(5, b"a")
        setattr(other, name, lambda value=value: value)
        prints.append(fingerprint(other))
    other.headers = lambda: [("a", b"")]
    assert len({*prints, fingerprint(other)}) == 6
    assert prints[0].startswith("partition 0, key none, value ") and prints[0].endswith(", headers none")


def test_a_topic_of_another_cluster_is_read_there(tmp_path, monkeypatch):
    text = TOPIC_SCENARIO.replace("topic: mails, id", "topic: orders, cluster: dr, id")
    fake = FakeRun(tmp_path, f"{text}clusters: {{dr: {{brokers: 1}}}}\n")
    pq.write_table(LOG_RANGE.empty_table(), fake.run.ledger / "log_range.parquet")
    ends = {("here:1", "invoices"): 3, ("there:1", "orders"): 5}
    monkeypatch.setattr(reading, "log_ranges", lambda at, topics, security: {(topics[0], 0): (0, ends[at, topics[0]])})
    monkeypatch.setattr(reading, "stable_offsets", lambda bootstrap, topics, security: {})
    parts = reading._plan(None, fake.run, fake.resolved, Endpoint("here:1"), {"dr": Endpoint("there:1")}).parts
    found = {(p.effect.name, p.range.bootstrap, p.range.topic, p.range.end) for p in parts}
    assert found == {("invoices", "here:1", "invoices", 3), ("mails", "there:1", "orders", 5)}


def test_a_query_is_read_by_this_process_however_much_there_is(tmp_path, monkeypatch):
    """No secret passes through Spark."""
    passed = []

    def collect(rows, read):
        passed.extend(rows)
        return [read(row) for row in rows]

    def parallelize(rows, number):
        return SimpleNamespace(map=lambda read: SimpleNamespace(collect=lambda: collect(rows, read)))

    monkeypatch.setattr(reading, "_read", lambda folder, numbered: numbered[0])
    query = SourcePart(SimpleNamespace(sql="select"), list, False)
    file, topic = replace(query, effect=SimpleNamespace(sql=None)), TopicPart(query.effect, None)
    for master, weight, sent in (("local[2]", SMALL + 1, [2, 3]), ("local[2]", SMALL, []), ("yarn", SMALL + 1, [])):
        spark = SimpleNamespace(sparkContext=SimpleNamespace(master=master, parallelize=parallelize))
        assert sorted(reading._read_parts(spark, Plan([query, file, topic], weight), tmp_path)) == [1, 2, 3]
        assert [number for number, _ in passed] == sent
        passed.clear()
