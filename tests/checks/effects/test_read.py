"""What is read of effects of each source where no payloads are kept."""

import json
import urllib.request

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.effects.watch import Watch
from chaos.ledger.schemas import LOG_RANGE
from chaos.run.events import EventLog, read_events
from checks.effects.read import read_effects
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
    fake = FakeRun(tmp_path, SCENARIO % ((sources,) * 3))
    pq.write_table(LOG_RANGE.empty_table(), fake.run.ledger / "log_range.parquet")
    pq.write_table(pa.table({"id": [1]}), sources / "c.parquet")
    read_effects(None, fake.run, fake.resolved, "")
    rows = pq.read_table(fake.run.ledger / "effect_reads.parquet").to_pylist()
    assert [(row["effect"], row["rows"], row["unreadable"]) for row in rows if row["effect"] in ("lines", "named")] == [
        ("lines", 3, 1),
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
