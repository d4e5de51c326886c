"""The watch over effects during the drive: what it saw when, calls of a receiver, and when effects are complete."""

import contextlib
import http.client
import json
import socket
import sqlite3
import urllib.error
import urllib.parse
import urllib.request

import pytest

from chaos.effects import watch as watching
from chaos.effects.sources import SourceError, kept_file, kept_rows
from chaos.effects.watch import LOOKING, SIGHTS, Watch
from chaos.run.events import EventLog, read_events
from chaos.wait import wait_until
from checks.effects.read import CallPart
from tests.support.fake_runs import FakeRun

pytestmark = pytest.mark.slow

SCENARIO = """
title: Billing
topics: [{name: orders}, {name: invoices}]
producers: [{name: shop, topic: orders, value: {template: 'order {id}'}}]
effects:
"""


@pytest.fixture
def watch(tmp_path):
    def make(effects, **urls):
        run = FakeRun(tmp_path, SCENARIO + effects)
        return Watch(run.run, run.resolved, EventLog(run.run)), run.run

    return make


def settle(made, *what, count=lambda effect: 0):
    made.settle(*what, count)


def sights(run, name):
    return [json.loads(line) for line in (run.ledger / SIGHTS / f"{name}.jsonl").read_text().splitlines()]


def post(url, body, method="POST"):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, body, method=method)).status
    except urllib.error.HTTPError as e:
        return e.code


def test_a_row_is_seen_after_the_look_that_did_not_have_it(watch, tmp_path):
    with sqlite3.connect(tmp_path / "b.db") as db:
        db.execute("create table invoice (id)")
        db.execute("insert into invoice values ('old')")
    made, run = watch(f"  - {{name: db, sql: 'sqlite:///{tmp_path}/b.db', query: select id from invoice, every: 50ms}}")
    with made:
        with sqlite3.connect(tmp_path / "b.db") as db:
            db.execute("insert into invoice values ('a'), ('a'), (null)")
        wait_until(lambda: len(sights(run, "db")) == 3, 20, "it is not seen")
    old, first, second = sights(run, "db")
    assert (old["mark"], old["after_us"]) == ("old", None)
    assert (first["mark"], second["mark"]) == ("a", "a #2")
    assert first["after_us"] < first["at_us"]


def test_rows_of_a_database_that_ends_with_the_run_are_stored_with_the_columns_that_the_effect_needs(tmp_path):
    effect = f"{{name: db, sql: 'sqlite:///{tmp_path}/b.db', query: select * from invoice, id: number, at: made}}"
    run = FakeRun(tmp_path, f"{SCENARIO}  - {effect}")
    watch = Watch(run.run, run.resolved, EventLog(run.run), ["db"])
    (of_run,) = run.resolved.scenario.effects
    file = kept_file(run.run.ledger, "db")
    watch.keep()  # the database is not there
    notes = [e["words"] for e in read_events(run.run) if e["kind"] == "note"]
    assert notes == [f"effect db cannot be read: there is no file {tmp_path}/b.db, and its database ends with the run"]
    with pytest.raises(SourceError, match="its database ended before the run had read it"):
        list(kept_rows(file, of_run))
    with sqlite3.connect(tmp_path / "b.db") as db:
        db.execute("create table invoice (text, number, secret, made)")
        db.execute("insert into invoice values ('x', 'a', 'card', '2026-11-29 17:00:00'), ('y', 7, 'card', null)")
    watch.keep()
    rows = [item.record.data for item in kept_rows(file, of_run)]
    assert rows == [
        {"text": "x", "number": "a", "made": "2026-11-29 17:00:00"},
        {"text": "y", "number": 7, "made": None},
    ]


def test_a_database_that_is_away_for_some_looks_is_looked_at_again(watch, tmp_path):
    made, run = watch(f"  - {{name: db, sql: 'sqlite:///{tmp_path}/b.db', query: select id from invoice, every: 50ms}}")
    with made:
        with sqlite3.connect(tmp_path / "b.db") as db:
            db.execute("create table invoice (id)")
            db.execute("insert into invoice values ('a')")
        wait_until(lambda: sights(run, "db"), 20, "it is not seen")
    assert sights(run, "db")[0]["after_us"], "there was no table before, so nothing was in it"


def test_an_effect_that_can_be_read_again_is_noted_beside_what_goes_on(watch, tmp_path):
    (tmp_path / "b.db").write_text("no database at all" * 99)
    made, run = watch(f"  - {{name: db, sql: 'sqlite:///{tmp_path}/b.db', query: select id from invoice, every: 50ms}}")
    with made:
        (tmp_path / "b.db").unlink()
        with sqlite3.connect(tmp_path / "b.db") as db:
            db.execute("create table invoice (id)")
            db.execute("insert into invoice values ('a')")
        wait_until(lambda: sights(run, "db"), 20, "it is not seen")
    assert {e["words"] for e in read_events(run) if e["kind"] == "stage"} == {LOOKING}, "before the first input"
    notes = [(event["words"], event.get("aside")) for event in read_events(run) if event["kind"] == "note"]
    assert notes[-2:] == [
        ("effect db cannot be read: file is not a database; the run looks again", True),
        ("effect db can be read again", True),
    ]


def test_lines_of_files_are_seen_once_each(watch, tmp_path):
    made, run = watch(f"  - {{name: out, files: '{tmp_path}/*.jsonl', id: $.id, every: 50ms}}")
    with made:
        for name, number in (("a", 1), ("b", 2), ("a", 3)):
            with (tmp_path / f"{name}.jsonl").open("a") as file:
                file.write(f'{{"id": {number}}}\n')
            wait_until(lambda n=number: len(sights(run, "out")) == n, 20, "it is not seen")
    assert [row["id"] for row in sights(run, "out")] == ["1", "2", "3"]


def test_a_row_of_a_csv_file_that_is_only_begun_is_seen_when_it_is_whole(watch, tmp_path):
    (tmp_path / "a.csv").write_text("amount,id\n5,1\n7")
    made, run = watch(f"  - {{name: out, files: '{tmp_path}/*.csv', id: id, every: 50ms}}")
    with made:
        wait_until(lambda: len(sights(run, "out")) == 1, 20, "the first row is not seen")
        with (tmp_path / "a.csv").open("a") as file:
            file.write(",2\n")
        wait_until(lambda: len(sights(run, "out")) == 2, 20, "the second row is not seen")
    assert [row["id"] for row in sights(run, "out")] == ["1", "2"]


def test_what_a_look_found_before_it_failed_is_kept(watch, tmp_path):
    made, run = watch(f"  - {{name: out, files: '{tmp_path}/out/*', id: $.id, every: 50ms}}")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "out" / "b.parquet").write_bytes(b"PAR1")
    with made:
        wait_until(lambda: sights(run, "out"), 20, "it is not seen")
    notes = [e["words"] for e in read_events(run) if "cannot be read" in e.get("words", "")]
    assert [row["id"] for row in sights(run, "out")] == ["1"]
    assert len(notes) == 1 and notes[0].startswith("effect out cannot be read: b.parquet: ")


def test_a_database_that_spark_reads_is_not_looked_at(watch, monkeypatch):
    monkeypatch.setenv("BILLING_DB", "jdbc:postgresql://127.0.0.1:1/x?user=u&password=hunter22")
    made, run = watch("  - {name: db, sql: 'env:BILLING_DB', query: select id from invoice, settle: 0s}")
    with made:
        settle(made, lambda topics: (0, False), lambda topic: 3, 0.0, lambda waits: None, lambda: [])
    assert sights(run, "db") == [] and [e["kind"] for e in read_events(run)] == []


def test_calls_of_a_receiver_are_effects_unless_they_are_refused(watch):
    made, run = watch("  - {name: hook, http: {path: /invoices}, id: $.id}")
    with made:
        url = made.urls["hook"]
        assert [post(url, b'{"id": 7}'), post(url, b'{"id": 7}', "PUT"), post(url, b"no json")] == [200] * 3
        assert post(url, None, "GET") == 200 and post(f"{url}s", b'{"id": 8}') == 404
    rows = sights(run, "hook")
    assert [(row.get("id"), row.get("problem")) for row in rows] == [
        ("7", None),
        ("7", None),
        (None, "it is no JSON ('no json')"),
    ]
    assert f"effect hook is received at {url}" in [e.get("words") for e in read_events(run)]


def test_a_call_with_several_inputs_is_an_effect_for_each(watch):
    made, run = watch("  - {name: hook, http: {path: /bulk}, id: '$[*].id'}")
    with made:
        url = made.urls["hook"]
        assert [post(url, b'[{"id": 7}, {"of": 1}, {"id": 8}]'), post(url, b"[]"), post(url, b'{"id": 9}')] == [200] * 3
    rows = sights(run, "hook")
    assert [(row["mark"], row.get("id"), row.get("problem")) for row in rows] == [
        ("call 1 [0]", "7", None),
        ("call 1 [1]", None, "nothing is at $[*].id"),
        ("call 1 [2]", "8", None),
        ("call 3", None, "nothing is at $[*].id (there are id)"),
    ]
    left = {"mark": "call 1", "left_after_us": 500_000}
    (run.ledger / SIGHTS / "hook.jsonl").open("a").write(f"{json.dumps(left)}\n")
    places = [row["where"] for row in CallPart(made._effects[0], run.ledger / SIGHTS / "hook.jsonl").rows()]
    assert [place.endswith("without an answer)") for place in places] == [True, True, True, False]


def notes_of_unreadable(run):
    return [words for e in read_events(run) if "is unreadable" in (words := e.get("words", ""))]


def test_a_wrong_place_of_the_id_is_noted_once_while_the_run_goes_on(watch, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "db")) as db:
        db.execute("create table bill (id text)")
        db.execute("insert into bill values (null)")
        db.commit()
    (tmp_path / "out.jsonl").write_text('{"order": 7}\n{"order": 8}\n')
    made, run = watch(
        f"  - {{name: db, sql: 'sqlite:///{tmp_path}/db', query: select id from bill, every: 10ms}}\n"
        f"  - {{name: bills, files: {tmp_path}/out.jsonl, id: $.id, every: 10ms}}\n"
        "  - {name: hook, http: {path: /i}, id: $.id}"
    )
    with made:
        assert [post(made.urls["hook"], b'{"order": 7}') for _ in range(2)] == [200, 200]
        wait_until(lambda: len(notes_of_unreadable(run)) > 2, 20, "it is not noted")
    said = {words.split()[1]: words for words in notes_of_unreadable(run)}
    assert said["db"] == "effect db is unreadable in row 1 of the query: the first column is empty"
    assert said["bills"].endswith("out.jsonl at byte 0: nothing is at $.id (there are order)")
    assert said["hook"] == "effect hook is unreadable in call 1: nothing is at $.id (there are order)"


def test_a_last_row_that_may_only_be_begun_is_not_noted(watch, tmp_path):
    (tmp_path / "out.csv").write_text('id,sum\n7,3\n""')
    made, run = watch(f"  - {{name: bills, files: {tmp_path}/out.csv, id: id, every: 10ms}}")
    with made:
        wait_until(lambda: sights(run, "bills"), 20, "it is not seen")
    assert notes_of_unreadable(run) == []


def test_lines_with_several_inputs_are_seen_by_item(watch, tmp_path):
    (tmp_path / "out.jsonl").write_text('{"all": ["a", "b"]}\n')
    made, run = watch(f"  - {{name: bills, files: {tmp_path}/out.jsonl, id: '$.all[*]', every: 10ms}}")
    with made:
        wait_until(lambda: len(sights(run, "bills")) == 2, 10, "both")
    assert [row["id"] for row in sights(run, "bills")] == ["a", "b"]
    assert len({row["mark"] for row in sights(run, "bills")}) == 2


def test_a_receiver_refuses_a_share_of_the_calls(watch):
    made, run = watch("  - {name: hook, http: {path: /invoices, fail: 50 %, status: 429}, id: $.id}")
    with made:
        answers = [post(made.urls["hook"], b'{"id": %d}' % i) for i in range(40)]
    assert set(answers) == {200, 429} and len(sights(run, "hook")) == answers.count(200)


@pytest.mark.parametrize(
    ("ends", "inputs", "settled"), [((3, False), 3, True), ((2, False), 3, False), ((3, True), 3, False)]
)
def test_fewer_effects_than_inputs_or_an_open_transaction_are_awaited_for_longer(
    watch, monkeypatch, ends, inputs, settled
):
    monkeypatch.setattr(watching, "SETTLED_S", 0.0)
    made, run = watch("  - {name: invoices, topic: invoices, id: $.id}")
    with made:
        settle(made, lambda topics: ends, lambda topic: inputs, 0.0, lambda waits: None, lambda: [])
    events = [e for e in read_events(run) if e["kind"] == "unsettled"]
    unsettled = [(e["effects"], e["open"]) for e in events]
    assert unsettled == ([] if settled else [(["invoices"], ["invoices"] if ends[1] else [])])
    needed = [e["unchanged"]["invoices"][1] for e in events]
    assert needed == ([] if settled else [watching.PATIENCE_S if ends[0] < inputs else watching.SETTLED_S])


@pytest.mark.parametrize(("counted", "settled"), [(3, True), (2, False)])
def test_effects_in_lists_are_counted_once_for_each_end_of_their_topic(watch, monkeypatch, counted, settled):
    """Fewer records than inputs: only their items show whether some are missing, and are waited for for longer."""
    monkeypatch.setattr(watching, "SETTLED_S", 0.0)
    made, run = watch("  - {name: invoices, topic: invoices, id: '$.all[*].id'}")
    ends, asked = iter([(1, False), (1, False), (2, False)]), []

    def count(effect):
        asked.append(effect.name)
        return counted if len(asked) > 1 else 0

    def end(effect):
        return next(ends, (2, False))

    with made:
        settle(made, end, lambda topic: 3, 1.0, lambda waits: None, lambda: [], count=count)
    assert asked == ["invoices"] * 2
    assert ("unsettled" not in {e["kind"] for e in read_events(run)}) == settled


def test_a_transaction_that_is_open_for_a_while_is_awaited(watch, monkeypatch):
    monkeypatch.setattr(watching, "SETTLED_S", 0.0)
    made, run = watch("  - {name: invoices, topic: invoices, id: $.id, settle: 0s}")
    looks, said = iter([(4, True), (4, True), (5, False)]), []
    with made:
        settle(made, lambda topics: next(looks), lambda topic: 3, 60.0, said.append, lambda: [])
    assert list(looks) == [] and "unsettled" not in {e["kind"] for e in read_events(run)}


def test_what_the_wait_is_for_is_said(watch, monkeypatch):
    monkeypatch.setattr(watching, "SETTLED_S", 0.0)
    made, _ = watch("  - {name: invoices, topic: invoices, id: $.id}\n  - {name: other, topic: invoices, id: $.id}")
    looks, said = iter([(2, False)] * 4 + [(1_000, True)] * 2 + [(1_000, False)] * 2), []
    with made:
        settle(made, lambda topics: next(looks), lambda topic: 1_000, 60.0, said.append, lambda: [])
    assert said == [
        "",
        "effect invoices has about 2 of 1,000 and 1 more",
        "effect invoices has an open transaction and 1 more",
    ]


def test_the_time_to_settle_begins_when_each_application_is_back(watch):
    made, run = watch("  - {name: invoices, topic: invoices, id: $.id, settle: 0s}")
    looks = iter([["billing/1"], ["billing/1"], []])
    with made:
        settle(made, lambda topics: (3, False), lambda topic: 3, 60.0, lambda waits: None, lambda: next(looks))
    assert list(looks) == [] and "unsettled" not in {e["kind"] for e in read_events(run)}
    with made:
        settle(made, lambda topics: (3, False), lambda topic: 3, 0.0, lambda waits: None, lambda: ["billing/1"])
    (event,) = [e for e in read_events(run) if e["kind"] == "unsettled"]
    assert event["effects"] == ["invoices"]


def test_a_caller_that_leaves_before_a_slow_answer_is_noted_with_its_call(watch):
    made, run = watch("  - {name: hook, http: {path: /i, slow: 1s}, id: $.id}")
    with made:
        url = urllib.parse.urlsplit(made.urls["hook"])

        def caller(limit_s):
            return http.client.HTTPConnection(url.hostname, url.port, timeout=limit_s)

        impatient, patient = caller(0.2), caller(20)
        with contextlib.closing(impatient), pytest.raises(TimeoutError):
            impatient.request("POST", "/i", b'{"id": 7}')
            impatient.getresponse()
        patient.request("POST", "/i", b'{"id": 7}')
        assert patient.getresponse().status == 200
        with contextlib.closing(socket.create_connection((url.hostname, url.port))) as half:
            half.sendall(b'POST /i HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"id": 8}')
            half.shutdown(socket.SHUT_WR)  # it waits for the answer
            assert half.makefile("rb").read().startswith(b"HTTP/1.1 200")
    rows = sights(run, "hook")
    assert [row["mark"] for row in rows if "id" in row] == ["call 1", "call 2", "call 3"]
    assert [row["mark"] for row in rows if "left_after_us" in row] == ["call 1"]
    assert "of 1 of 3 calls, the caller left before the answer" in [e.get("words", "") for e in read_events(run)][-1]
    places = [row["where"] for row in CallPart(made._effects[0], run.ledger / SIGHTS / "hook.jsonl").rows()]
    assert places[0].startswith("call 1 (its caller left after 0.") and places[1:] == ["call 2", "call 3"]
