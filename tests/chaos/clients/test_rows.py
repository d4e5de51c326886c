"""The producer of rows: SQLite and files; `tests/system/test_rows.py` has PostgreSQL."""

import json
import sqlite3
import subprocess
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from chaos.clients.protocol import ProducerSpec, RowsSpec
from chaos.clients.python.start import ENTRY
from chaos.clients.rows.library import FIXED, RowError, Table, Unusable
from chaos.fleet.specs import write_spec
from chaos.ledger.files import ledger_files, read_file
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd
from chaos.processes.process import python_path
from chaos.values.model import Value

INSERT = "insert into orders (id, lines) values (:id, :lines)"


@pytest.fixture
def table(tmp_path):
    def make(columns="id text primary key, lines text", insert=INSERT, incarnation=1):
        with sqlite3.connect(tmp_path / "shop.db") as database:
            database.execute(f"create table if not exists orders ({columns})")
        rows = RowsSpec(url=f"sqlite:///{tmp_path}/shop.db", setting="producers.shop.rows.sql", insert=insert)
        return Table(spec_of(tmp_path, rows, incarnation=incarnation))

    return make


def spec_of(folder, rows, **more):
    value = Value(template='{"id": "{id}", "lines": [1, 2]}', id_type="text")
    plain = {"run_id": "r", "run_token": "7f3a91c0", "ledger": folder, "client": "shop/1", "bootstrap": ""}
    return ProducerSpec(**plain, topic="shop", value_size=128, value=value, records=3, rows=rows, **more)


def found(folder):
    with sqlite3.connect(folder / "shop.db") as database:
        return database.execute("select * from orders order by id").fetchall()


def row(**fields):
    return json.dumps(fields).encode()


def test_a_row_has_fields_of_the_value_and_is_there_once(table, tmp_path):
    orders = table()
    assert orders.write(row(id="a", lines=[{"sku": 1}], more=7), lambda: True)
    assert orders.write(row(id="b", lines=None), lambda: True)
    assert found(tmp_path) == [("a", '[{"sku": 1}]'), ("b", None)]


def test_a_table_that_takes_a_row_twice_is_refused_before_the_first_one(table, tmp_path):
    with pytest.raises(Unusable, match="takes a row twice") as refused:
        table("id text, lines text").write(row(id="a", lines=""), lambda: True)
    assert FIXED in str(refused.value) and found(tmp_path) == []


def test_a_row_that_is_there_already_is_refused_unless_an_earlier_incarnation_may_have_written_it(table):
    assert table().write(row(id="a", lines=""), lambda: True)
    orders = table()
    with pytest.raises(RowError, match="UNIQUE"):
        orders.write(row(id="a", lines=""), lambda: True)
    assert orders.write(row(id="b", lines=""), lambda: True)
    assert table(incarnation=2).write(row(id="a", lines=""), lambda: True)


@pytest.mark.parametrize("committed", [True, False])
def test_a_row_is_there_once_if_its_connection_is_lost_at_the_commit(table, tmp_path, monkeypatch, committed):
    orders = table()
    assert orders.write(row(id="a", lines=""), lambda: True)
    connection, lost = orders._connection, []

    @contextmanager
    def begin():
        with Connection.begin(connection) as transaction:
            yield
            if not committed:
                transaction.rollback()
        lost.append(1)
        raise OperationalError("insert", {}, Exception("connection lost"), connection_invalidated=True)

    monkeypatch.setattr(connection, "begin", begin)
    assert orders.write(row(id="b", lines=""), lambda: True)
    assert lost == [1] and [id_ for id_, _ in found(tmp_path)] == ["a", "b"]


def test_a_statement_that_does_nothing_is_no_row(table):
    orders = table(insert=f"{INSERT} on conflict do nothing")
    assert orders.write(row(id="a", lines=""), lambda: True)
    with pytest.raises(RowError, match="inserted no row"):
        orders.write(row(id="a", lines=""), lambda: True)


@pytest.mark.parametrize(
    ("insert", "value", "message"),
    [
        ("insert into missing (id) values (:id)", {"id": "a"}, "no such table"),
        ("insert into orders (id) values (:other)", {"id": "a"}, "the value has no field 'other'"),
    ],
)
def test_a_statement_that_cannot_work_ends_the_producer(table, insert, value, message):
    with pytest.raises(Unusable, match=message):
        table(insert=insert).write(row(**value), lambda: True)


def test_a_database_that_is_locked_is_waited_for_and_given_up_with_the_run(table, tmp_path):
    orders = table()
    assert orders.write(row(id="a", lines=""), lambda: True)
    orders._connection.exec_driver_sql("pragma busy_timeout = 1")
    orders._connection.rollback()
    attempts = []

    def unlock_at_second():
        attempts.append(1)
        if len(attempts) == 2:
            other.rollback()
        return True

    with sqlite3.connect(tmp_path / "shop.db", isolation_level=None) as other:
        other.execute("begin exclusive")
        assert orders.write(row(id="b", lines=""), unlock_at_second)
        other.execute("begin exclusive")
        left = iter([True, False])
        orders._connection.exec_driver_sql("pragma busy_timeout = 1")
        orders._connection.rollback()
        assert not orders.write(row(id="c", lines=""), lambda: next(left))
        other.rollback()
    assert [id_ for id_, _ in found(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize("kind", ["table", "file"])
def test_the_program_writes_all_rows_and_a_row_of_the_ledger_for_each(table, tmp_path, kind):
    table()
    to_table = RowsSpec(url=f"sqlite:///{tmp_path}/shop.db", setting="x", insert=INSERT)
    spec = spec_of(tmp_path, to_table if kind == "table" else RowsSpec(file=tmp_path / "rows" / "shop.jsonl"))
    command = [*ENTRY, "rows", str(write_spec(tmp_path / "clients", spec))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": python_path()}
    ) as program:
        assert program.stdin is not None and program.stdout is not None
        for line in program.stdout:
            if json.loads(line).get("done"):
                program.stdin.write('{"do": "stop"}\n')
                program.stdin.flush()
    assert program.returncode == 0
    rows = [r for path in ledger_files(tmp_path / "inserts") for b in read_file(path, TABLES["inserts"], StreamEnd())
            for r in b.to_pylist()]  # fmt: skip
    shown = [(r["seq"], r["topic"], r["outcome"], r["offset"]) for r in rows]
    assert shown == [(n, "shop", "ok", None) for n in range(3)]
    ids = [f"7f3a91c0-shop-1-{n}" for n in range(3)]
    if kind == "table":
        assert [id_ for id_, _ in found(tmp_path)] == ids
    else:
        lines = (tmp_path / "rows" / "shop.jsonl").read_text().splitlines()
        assert [json.loads(line)["id"] for line in lines] == ids
