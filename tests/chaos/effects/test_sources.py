"""Databases, files and logs: what is read, and one line without a secret for what cannot be."""

import gzip
import socket
import sqlite3
import threading
import zipfile
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.databases import scrubber
from chaos.effects.sources import Query, SourceError, files_of, patient, read_file, read_whole
from chaos.errors import UsageError
from chaos.setup.effects import Effect
from tests.support.postgres import postgres_server


def of_files(tmp_path, pattern, **more):
    made = Effect(name="out", files=str(tmp_path / pattern), id="$.id", **more)
    return [item for part in files_of(made, tmp_path) for item in read_whole(part)]


def ids(items):
    return [str(item.record.data["id"]) if item.record else str(item.problem) for item in items]


def test_files_of_each_kind(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n\n{"id": 2}\nno json\n')
    (tmp_path / "b.csv").write_text("id,amount\n1,2\n2\n")
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "c.parquet")
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(b'{"id": 9}\n'))
    assert ids(of_files(tmp_path, "a.jsonl")) == ["1", "2", "the line is no JSON ('no json')"]
    assert ids(of_files(tmp_path, "b.csv")) == ["1", "the line has another number of columns than the first one"]
    assert ids(of_files(tmp_path, "c.parquet")) == ["1", "2"]
    assert ids(of_files(tmp_path, "d.jsonl.gz")) == ["9"]
    assert ids(of_files(tmp_path, "*.jsonl*")) == ["1", "2", "the line is no JSON ('no json')", "9"]
    assert [item.where for item in of_files(tmp_path, "c.parquet")] == ["c.parquet row 1", "c.parquet row 2"]


@pytest.mark.parametrize("cache", ["simplecache", "filecache", "zip://*.jsonl::simplecache"])
def test_a_file_that_grows_is_read_as_it_is_whatever_cache_its_address_names(tmp_path, cache):
    made = Effect(name="out", files=f"{cache}::file://{tmp_path}/a.{'zip' if 'zip' in cache else 'jsonl'}", id="$.id")
    for number in (1, 2):
        (tmp_path / "a.jsonl").write_text('{"id": 1}\n' * number)
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.write(tmp_path / "a.jsonl", "a.jsonl")
        assert ids([item for part in files_of(made, tmp_path) for item in read_whole(part)]) == ["1"] * number


def test_a_missing_file_is_one_line_and_an_empty_one_has_no_effect(tmp_path):
    with pytest.raises(SourceError, match=r"^effect out cannot be read: there is no file .*/none\.jsonl$") as e:
        of_files(tmp_path, "none.jsonl")
    assert e.value.absent
    with pytest.raises(SourceError, match="no file is at"):
        of_files(tmp_path, "none-*.jsonl")
    (tmp_path / "empty.jsonl").touch()
    assert of_files(tmp_path, "empty.jsonl") == []
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(SourceError, match=r"effect out cannot be read: broken\.parquet: "):
        of_files(tmp_path, "broken.parquet")


def test_an_error_of_a_file_system_is_one_line(monkeypatch, tmp_path):
    class Refused(Exception):
        pass

    def refuse(url):
        raise Refused("530 Authentication failed\nmore")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(SourceError, match=r"^effect out cannot be read: .*\*: 530 Authentication failed$"):
        of_files(tmp_path, "*")


def test_a_look_at_a_file_that_grows_leaves_a_line_without_its_end(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2')
    (part,) = files_of(Effect(name="out", files=str(tmp_path / "a.jsonl"), id="$.id"), tmp_path)
    seen = list(read_file(part, 0))
    assert ids(item for item, _ in seen) == ["1"]
    assert ids(item for item, _ in read_file(part, seen[-1][1])) == []
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    assert ids(item for item, _ in read_file(part, seen[-1][1])) == ["2"]


def test_a_look_takes_a_last_line_that_is_a_whole_object(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}')
    (part,) = files_of(Effect(name="out", files=str(tmp_path / "a.jsonl"), id="$.id"), tmp_path)
    seen = list(read_file(part, 0))
    assert ids(item for item, _ in seen) == ["1", "2"]
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n{"id": 3}\n')
    assert ids(item for item, _ in read_file(part, seen[-1][1])) == ["3"]
    (tmp_path / "b.jsonl").write_text("12")
    (part,) = files_of(Effect(name="out", files=str(tmp_path / "b.jsonl"), id="$.id"), tmp_path)
    assert list(read_file(part, 0)) == [], "it may go on, as 123"


def test_files_in_an_archive_are_read_by_their_own_file_system(tmp_path):
    with zipfile.ZipFile(tmp_path / "out.zip", "w") as archive:
        archive.writestr("a.jsonl", '{"id": 1}\n')
        archive.writestr("b.csv", "id\n2\n")
    made = Effect(name="out", files=f"zip://*::file://{tmp_path}/out.zip", id="$.id")
    parts = files_of(made, tmp_path)
    assert [part.name for part in parts] == ["a.jsonl", "b.csv"]
    assert ids(item for part in parts for item in read_whole(part)) == ["1", "2"]
    assert ids(item for item, _ in read_file(parts[0], 0)) == ["1"]


def test_the_lines_of_the_logs_of_one_application(tmp_path):
    (tmp_path / "billing-1.log").write_text("start\nbooked a7\n")
    (tmp_path / "billing-2.1.log").write_text("booked a8\n")
    (tmp_path / "billing-eu-1.log").write_text("booked other\n")
    made = Effect(name="out", log={"app": "billing", "pattern": r"booked (?P<id>\S+)"})
    assert ids(item for part in files_of(made, tmp_path) for item in read_whole(part)) == ["a7", "a8"]


def sql(url, query="select id from invoice"):
    return Effect(name="db", sql=url, query=query)


def test_a_query_of_sqlite(tmp_path, monkeypatch):
    with pytest.raises(SourceError, match="effect db cannot be read: there is no file") as e:
        list(Query(sql(f"sqlite:///{tmp_path}/b.db"), hidden=False).items())
    assert e.value.absent and not (tmp_path / "b.db").exists()
    with sqlite3.connect(tmp_path / "b.db") as db:
        db.execute("create table other (id)")
    with pytest.raises(SourceError, match="effect db cannot be read: no such table: invoice") as e:
        list(Query(sql(f"sqlite:///{tmp_path}/b.db"), hidden=False).items())
    assert e.value.absent
    with sqlite3.connect(tmp_path / "b.db") as db:
        db.execute("create table invoice (id)")
        db.execute("insert into invoice values ('a7'), (8), (null)")
    monkeypatch.setenv("BILLING_DB", f"sqlite:///{tmp_path}/b.db")
    made = sql("env:BILLING_DB", "select id from invoice where id like '%7%' or id <> ':x'")
    assert ids(Query(made, hidden=False).items()) == ["a7", "8"]


def test_a_real_postgres_that_goes_away(monkeypatch):
    from sqlalchemy import create_engine, text

    with postgres_server() as server:
        monkeypatch.setenv("DB", server.url("postgres"))
        with create_engine(server.url("postgres")).begin() as db:
            db.execute(text("create table invoice (id char(8), amount numeric(10, 2), at timestamptz)"))
            db.execute(text("insert into invoice values ('a7', 12.50, now()), ('a8', 7, now())"))
        query = Query(sql("env:DB", "select id, amount::text, at from invoice where id like 'a%' order by id"), False)
        assert [item.record.data["id"].strip() for item in query.items()] == ["a7", "a8"]
        server.stop()
        with pytest.raises(SourceError, match=r"^effect db cannot be read: ") as e:
            list(query.items())
        assert not e.value.absent and "\n" not in str(e.value)


def test_a_database_that_accepts_a_connection_and_never_answers_is_one_line(monkeypatch):
    monkeypatch.setattr("chaos.effects.sources.CONNECT_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("DB", f"postgresql+psycopg2://me:hunter22@127.0.0.1:{silent.getsockname()[1]}/x")
        with pytest.raises(SourceError, match=r"^effect db cannot be read: connection to .* failed: timeout expired$"):
            list(Query(sql("env:DB"), hidden=False).items())


def test_no_message_has_a_password(monkeypatch):
    monkeypatch.setenv("DB", "postgresql+psycopg2://me:hunter22@127.0.0.1:1/x?password=other99")
    with pytest.raises(SourceError) as e:
        list(Query(sql("env:DB"), hidden=False).items())
    assert "hunter22" not in str(e.value) and "other99" not in str(e.value)
    monkeypatch.setenv("DB", "nothing://me:hunter22@h/x")
    with pytest.raises(SourceError, match=r"Can't load plugin: .*nothing") as e:
        list(Query(sql("env:DB"), hidden=False).items())
    assert "hunter22" not in str(e.value)


@pytest.mark.parametrize(
    "url",
    [
        "no url hunter22",
        "postgresql://me:p@hunter22@h/x",
        "postgresql://me:p@s/hunter22@h/x",
        "mysql://h:hunter22",
        "postgresql://m/e:hunter22@h/x",
        "postgresql://me:hunter22%x@h/x",
        "postgresql://me:hunter22\n@h/x",
        "postgresql://me:hunter22@h/x\n\n",
    ],
)
def test_a_login_that_is_not_encoded_is_refused_without_a_part_of_it(monkeypatch, url):
    monkeypatch.setenv("DB", url)
    with pytest.raises(UsageError, match=r"^effects: db: sql: .*env:DB .*; in a name or password, write % as ") as e:
        Query(sql("env:DB"), hidden=False)
    assert "hunter22" not in str(e.value) and "\n" not in str(e.value)
    for char in "%/:@#? \n":
        assert quote(char, safe="") in str(e.value)


def test_the_decoded_form_of_a_password_is_replaced_too():
    for url in ("jdbc:postgresql://h/d?user=u&password=p%40s%2Bx+1", "postgresql://u:p%40s%2Bx+1@h/d"):
        assert scrubber(url).text("p@s+x 1, p@s+x+1, p%40s%2Bx+1") == "[secret], [secret], [secret]"


@pytest.mark.parametrize("char", "/:#? &;\n%")
def test_a_password_is_replaced_whole_whatever_characters_it_has(char):
    for url in (
        f"postgresql://u:first1{char}second2@h/d",
        f"postgresql://h/d?password={quote(f'first1{char}second2')}",
    ):
        assert scrubber(url).text(f"no login with 'first1{char}second2'") == "no login with '[secret]'"


def test_a_database_that_does_not_answer_is_given_up():
    answer = threading.Event()

    def rows():
        yield "a7"
        answer.wait()

    with pytest.raises(SourceError, match=r"^effect db cannot be read: the database did not answer within 0.05 s$"):
        list(patient(rows(), 0.05, sql("sqlite:///b.db")))
    answer.set()
    assert list(patient(iter(["a7", "a8"]), 60, sql("sqlite:///b.db"))) == ["a7", "a8"]
    with pytest.raises(ZeroDivisionError):
        list(patient((1 // n for n in (1, 0)), 60, sql("sqlite:///b.db")))
