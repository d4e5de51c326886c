"""Databases of effects before a run: what no application can mend ends the run, and what one can create is said."""

import socket
import sqlite3
import threading

import pytest

from chaos.drive import stages
from chaos.effects import sources
from chaos.effects.before import READY, warnings
from chaos.errors import UsageError
from chaos.setup.effects import Effect
from tests.support.postgres import postgres_server


def of(url, query="select id from invoice", **more):
    return [Effect(name="rows", sql=url, query=query, **more)]


@pytest.fixture
def db(tmp_path):
    with sqlite3.connect(tmp_path / "b.db") as made:
        made.execute("create table invoice (id, at)")
    return f"sqlite:///{tmp_path}/b.db"


def test_what_the_application_may_create_is_a_warning(tmp_path, db):
    created = "the application has to create it"
    assert warnings(of(db), hidden=False) == []
    assert warnings(of(db, "select id from other"), hidden=False) == [
        f"effect rows: table other does not exist yet; {created}"
    ]
    (line,) = warnings(of(f"sqlite:///{tmp_path}/none.db"), hidden=False, since=READY)
    assert line == f"effect rows: file {tmp_path}/none.db does not exist although the application is ready; {created}"


@pytest.mark.parametrize(
    ("query", "more", "said"),
    [
        ("select no from invoice", {}, "query: the database {} refuses it: no such column: no; correct the query"),
        ("selekt id", {}, 'query: the database {} refuses it: near "selekt": syntax error; correct the query'),
        ("select id from invoice", {"id": "number"}, "id: the query has no column 'number'; it has id"),
        ("select id from invoice", {"at": "booked"}, "at: the query has no column 'booked'; it has id"),
    ],
)
def test_a_query_that_no_application_can_mend_ends_the_run_before_it_begins(db, query, more, said):
    with pytest.raises(UsageError) as e:
        warnings(of(db, query, **more), hidden=False)
    assert str(e.value) == f"effects: rows: {said.format(db)}"


def test_what_is_no_database_ends_the_run_before_it_begins(tmp_path):
    (tmp_path / "text.db").write_text("no database " * 100)
    for name, said in ("text.db", "file is not a database; correct the URL"), ("", "is no file; start it, or correct"):
        with pytest.raises(UsageError, match=said):
            warnings(of(f"sqlite:///{tmp_path}/{name}"), hidden=False)


def test_a_database_that_is_slow_for_now_does_not_end_the_run(db, monkeypatch):
    held = threading.Event()
    monkeypatch.setattr(
        sources.Query, "columns", lambda query: list(sources.patient(iter(held.wait, 0), 0.05, *of(db)))
    )
    assert warnings(of(db), hidden=False) == [
        "effect rows cannot be read: the database did not answer within 0.05 s; the run looks again"
    ]
    held.set()


def test_a_real_postgres_tells_a_missing_table_from_a_missing_database(monkeypatch):
    with postgres_server() as server:
        monkeypatch.setenv("DB", server.url("postgres"))
        (line,) = warnings(of("env:DB"), hidden=False)
        assert line == "effect rows: table invoice does not exist yet; the application has to create it"
        monkeypatch.setenv("DB", server.url("nowhere"))
        with pytest.raises(
            UsageError, match=r'env:DB cannot be read: .*database "nowhere" does not exist; start it, or'
        ):
            warnings(of("env:DB"), hidden=False)
        server.stop()
        with pytest.raises(
            UsageError, match=r"^effects: rows: sql: the database env:DB cannot be read: .*; start it, or"
        ):
            warnings(of("env:DB"), hidden=False)


@pytest.mark.parametrize(
    "hosts", ["127.0.0.1:{up}", "127.0.0.1:1,127.0.0.1:{up}", "[::ffff:127.0.0.1]:{up}", "u:p@127.0.0.1:{up}"]
)
def test_a_server_that_spark_reads_is_there_if_one_of_its_addresses_answers(monkeypatch, hosts):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("DB", f"jdbc:postgresql://{hosts.format(up=server.getsockname()[1])}/x?user=u&password=p/w")
        assert warnings(of("env:DB"), hidden=False) == []


@pytest.mark.parametrize("url", ["jdbc:postgresql://127.0.0.1:1/x", "jdbc:sqlserver://127.0.0.1:1;databaseName=x"])
def test_a_server_that_spark_reads_and_that_does_not_answer_is_said_before_the_run(url):
    said = "sql: the database jdbc:.* cannot be read: 127.0.0.1:1: Connection refused; start it, or correct its URL"
    with pytest.raises(UsageError, match=said):
        warnings(of(url), hidden=False)
    (line,) = warnings(of(url), hidden=False, started=True)
    assert line.endswith("Connection refused; an application of the run has to start it")


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:derby:/tmp/x",
        "jdbc:h2://127.0.0.1:1/x",
        "jdbc:sqlserver://h\\\\i:1",
        "jdbc:mysql://address=(host=127.0.0.1)(port=1)/x",
        "jdbc:postgresql://127.0.0.1:1/x?socketFactory=org.example.Tunnel",
        "jdbc:postgresql:///x",
    ],
)
def test_a_form_of_address_that_is_not_known_is_left_to_spark(url):
    assert warnings(of(url), hidden=False) == []


def test_a_login_that_is_refused_names_the_characters_to_encode(db, monkeypatch):
    def refuse(query):
        raise sources.SourceError("effect rows cannot be read: password authentication failed for user me")

    monkeypatch.setattr(sources.Query, "columns", refuse)
    with pytest.raises(UsageError, match=r"failed for user me; start it, or correct its URL; .* write % as %25, "):
        warnings(of(db), hidden=False)


def test_a_database_that_one_of_several_applications_starts_may_be_away_before_the_run():
    away = of("postgresql+psycopg2://127.0.0.1:1/x")
    with pytest.raises(UsageError, match="Connection refused; start it, or correct its URL"):
        warnings(away, hidden=False)
    (line,) = warnings(away, hidden=False, started=True)
    assert line.endswith("Connection refused; an application of the run has to start it")


def test_a_run_with_a_database_that_does_not_answer_makes_no_directory(tmp_path, monkeypatch):
    scenario = tmp_path / "billing.yaml"
    scenario.write_text(
        "title: Billing\ntopics: [{name: orders}]\n"
        "producers: [{name: shop, topic: orders, value: {template: 'order {id}'}}]\n"
        "effects: [{name: db, sql: 'postgresql+psycopg2://127.0.0.1:1/x', query: select id from invoice}]\n"
    )
    with pytest.raises(UsageError, match=r"effects: db: sql: .*Connection refused; start it, or correct its URL"):
        stages.prepare(stages.ScenarioRequest(str(scenario)), runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
