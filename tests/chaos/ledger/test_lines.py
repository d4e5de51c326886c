"""Batch lines: what is read, what is torn, and what ends the readable part."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.clients.checkpoint import checkpoint_of, next_seq_of
from chaos.ledger.schemas import REQUIRED, SCHEMA_VERSION, TABLES, VALUES
from chaos.ledger.seal import read_seal, seal
from chaos.ledger.stream import TableWriter

HEADER = {"schema": SCHEMA_VERSION, "table": "sends"}
ROWS = {
    "producer": "shop/1",
    "incarnation": 1,
    "seq": [0, 1, 2],
    "topic": "orders",
    "partition": 0,
    "offset": [10, 11, None],
    "outcome": "ok",
    "invoked_us": [1, 2, 3],
    "completed_us": 5,
}


def encoded(*lines):
    return b"".join((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n" for line in lines)


def sealed(ledger, content, table="sends", name="shop-1.1.jsonl"):
    (ledger / table).mkdir(parents=True, exist_ok=True)
    (ledger / table / name).write_bytes(content)
    found = seal(ledger).tables[table]
    return found, pq.read_table(ledger / f"{table}.parquet").to_pylist()


def test_a_line_is_a_batch_of_columns_and_scalars(tmp_path):
    found, rows = sealed(tmp_path, encoded(HEADER, ROWS, {**ROWS, "seq": 3, "offset": 12, "invoked_us": 4}))
    assert (found.rows, found.torn) == (4, [])
    assert [row["seq"] for row in rows] == [0, 1, 2, 3]
    assert [row["offset"] for row in rows] == [10, 11, None, 12]
    assert {row["producer"] for row in rows} == {"shop/1"}
    assert {row["error"] for row in rows} == {None}


def test_numbers_may_be_a_first_one_and_steps(tmp_path):
    steps = {"first": 9, "steps": [-4, 0]}
    found, rows = sealed(
        tmp_path,
        encoded(HEADER, {**ROWS, "seq": {"first": 5, "step": 1, "rows": 3}, "offset": steps, "invoked_us": steps}),
    )
    assert (found.rows, found.torn) == (3, [])
    assert [(row["seq"], row["offset"], row["invoked_us"]) for row in rows] == [(5, 9, 9), (6, 5, 5), (7, 5, 5)]


def test_both_forms_are_sealed_together(tmp_path):
    with TableWriter(tmp_path, "sends", "shop/2.1") as writer:
        writer.append_rows([{"producer": "shop/2", "incarnation": 1, "seq": 7}])
    found, rows = sealed(tmp_path, encoded(HEADER, ROWS))
    assert (found.rows, found.files) == (4, 2)
    assert {row["producer"] for row in rows} == {"shop/1", "shop/2"}


@given(st.data())
def test_a_torn_tail_is_dropped_and_counted(tmp_path_factory, data):
    ledger = tmp_path_factory.mktemp("ledger")
    whole = encoded(HEADER, ROWS, ROWS)
    cut = data.draw(st.integers(0, len(whole)))
    found, _ = sealed(ledger, whole[:cut])
    complete = whole[:cut].count(b"\n")
    assert found.rows == 3 * max(0, complete - 1)
    assert sum(t.bytes for t in found.torn) == cut - len(b"".join(whole.splitlines(keepends=True)[:complete]))
    assert not any(t.refused for t in found.torn)


BAD = [
    ({**ROWS, "ofset": 3}, "unknown column 'ofset'"),
    ({**ROWS, "seq": [0, 1]}, "lists of 2 and 3 rows"),
    ({**ROWS, "seq": None}, "column 'seq' is null or left out"),
    ({k: v for k, v in ROWS.items() if k != "topic"}, "column 'topic' is null or left out"),
    ({**ROWS, "outcome": "OK"}, "outcome is 'OK', not one of ok, fail, unknown"),
    ({**ROWS, "outcome": ["ok", "okay", "fail"]}, "outcome is 'okay'"),
    ({**ROWS, "seq": [0, "1", 2]}, "column 'seq' is not int64"),
    ({**ROWS, "seq": [0, 1.5, 2]}, "column 'seq' has a boolean or a fraction, not int64"),
    ({**ROWS, "partition": 2**40}, "column 'partition' is not int32"),
    ({**ROWS, "partition": True}, "column 'partition' has a boolean"),
    ({**ROWS, "topic": 3}, "column 'topic' is not string"),
    ({**ROWS, "topic": {"a": 1}}, "column 'topic' is an object, but neither of first and steps"),
    ({**ROWS, "seq": {"first": 0, "steps": [1]}}, "lists of 2 and 3 rows"),
    ({**ROWS, "seq": {"first": 0, "step": 2, "rows": 3}}, "column 'seq' is an object, but neither of first and steps"),
    ({**ROWS, "seq": {"first": 0, "step": 1, "rows": 0}}, "column 'seq' has 0 rows, not 1 to"),
    ({**ROWS, "seq": {"first": 0, "step": 1, "rows": 2**40}}, "rows, not 1 to"),
    ({**ROWS, "seq": {"first": 0, "steps": 2}}, "no whole numbers"),
    ({**ROWS, "seq": {"first": None, "steps": [1, 1]}}, "no whole numbers"),
    ({**ROWS, "seq": {"first": 0, "steps": [1, True]}}, "no whole numbers"),
    ({**ROWS, "seq": {"first": 2**63 - 1, "steps": [1, 1]}}, "beyond 64 bits"),
    ({**ROWS, "seq": {"first": 2**80, "steps": [1, 1]}}, "line 3: "),
    ({**ROWS, "partition": {"first": 2**31 - 1, "steps": [1, 1]}}, "column 'partition' is not int32"),
    ({**ROWS, "outcome": {"first": 1, "steps": [0, 0]}}, "column 'outcome' has numbers, not string"),
    ([1, 2], "not a JSON object"),
    ("not json", "Expecting value"),
    ('{"seq": NaN}', "NaN is not a number of JSON"),
    ('{"seq": 1, "seq": 2}', "a key is there twice"),
    ("", "Expecting value"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_a_line_that_breaks_a_rule_ends_the_readable_part_and_is_named(tmp_path, line, reason):
    found, _ = sealed(tmp_path, encoded(HEADER, ROWS, line, ROWS))
    assert found.rows == 3
    (torn,) = found.torn
    assert torn.refused
    assert torn.reason.startswith("line 3: ")
    assert reason in torn.reason
    assert torn.bytes == len(encoded(line, ROWS))
    assert read_seal(tmp_path).tables["sends"].torn == [torn]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"schema": 99, "table": "sends"}, "line 1: written with schema version 99"),
        ({"schema": "3", "table": "sends"}, "line 1: written with schema version 3"),
        ({"table": "sends"}, "line 1: written with schema version None"),
        ({"schema": SCHEMA_VERSION, "table": "commits"}, "line 1: the table is 'commits' in a file of sends"),
        (ROWS, "line 1: written with schema version None"),
    ],
)
def test_a_file_without_its_header_is_not_read(tmp_path, header, reason):
    found, _ = sealed(tmp_path, encoded(header, ROWS))
    assert found.rows == 0
    assert found.torn[0].refused
    assert found.torn[0].reason.startswith(reason)


def test_thousands_of_lines_of_one_row_are_read(tmp_path):
    one = {**ROWS, "offset": 1, "invoked_us": 1}
    found, rows = sealed(tmp_path, encoded(HEADER, *({**one, "seq": n} for n in range(2500))))
    assert found.rows == 2500
    assert [row["seq"] for row in rows] == list(range(2500))


def test_a_line_without_rows_is_no_row(tmp_path):
    found, _ = sealed(tmp_path, encoded(HEADER, {**ROWS, "seq": [], "offset": [], "invoked_us": []}))
    assert (found.rows, found.torn) == (0, [])


def test_the_rules_name_columns_that_exist():
    for table, columns in REQUIRED.items():
        assert set(columns) <= set(TABLES[table].names)
        assert set(VALUES[table]) <= set(TABLES[table].names)


def test_checkpoints_are_read_from_batch_lines_too(tmp_path):
    life = {"client": "a/1", "role": "consumer", "incarnation": 1, "event": "started", "detail": "{}", "at_us": 1}
    sealed_not_yet = {
        "lifecycle": life,
        "sends": ROWS,
        "deliveries": {
            "consumer": "a/1",
            "incarnation": 1,
            "mode": "assign",
            "ordinal": [0, 1],
            "topic": "orders",
            "partition": 0,
            "offset": [4, 5],
            "polled_us": 1,
            "processed_us": 2,
        },
    }
    for table, row in sealed_not_yet.items():
        name = "shop-1.1.jsonl" if table == "sends" else "a-1.1.jsonl"
        (tmp_path / table).mkdir()
        (tmp_path / table / name).write_bytes(encoded({**HEADER, "table": table}, row))
    (tmp_path / "lifecycle" / "shop-1.1.jsonl").write_bytes(encoded({**HEADER, "table": "lifecycle"}, life))
    assert checkpoint_of(tmp_path, "a/1") == {"orders/0": 6}
    assert next_seq_of(tmp_path, "shop/1") == 3


@pytest.mark.parametrize(
    ("program", "constant"),
    [("java/src/aftershock/Table.java", "int SCHEMA = {};"), ("golang/src/table.go", "const schema = {}")],
)
def test_programs_in_other_languages_write_the_version_with_all_columns_that_they_know(program, constant):
    text = (Path(__file__).parents[3] / "chaos/clients" / program).read_text()
    assert constant.format(SCHEMA_VERSION) in text
