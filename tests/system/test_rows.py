"""PostgreSQL of a run, rows in it, and Debezium: real servers that are killed and recover."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from chaos.apps import postgres
from chaos.clients.protocol import ProducerSpec, RowsSpec
from chaos.clients.rows.library import RowError, Table
from chaos.errors import FaultError
from chaos.faults import FAULTS
from chaos.faults.base import World
from chaos.install.programs import build_postgres
from chaos.processes.ports import free_ports
from chaos.processes.process import ProcessId, is_paused
from chaos.setup.postgres import READY, USER, Postgres
from chaos.values.model import Value
from tests.support.apps import Started, eventually
from tests.support.platform import chaos, left_running

pytestmark = [pytest.mark.landing, pytest.mark.timeout(600)]

SETUP = ["create table orders (id text primary key, amount int)"]


class Server:
    """A server in a folder, started as an instance of an application is."""

    def __init__(self, folder, setup=SETUP, follows="", **config):
        folder.mkdir(exist_ok=True)
        self.port, self.log = free_ports(1)[0], folder / "log"
        data = {"bin": str(build_postgres(Postgres().release)), "data": str(folder), "port": self.port}
        data |= {"user": USER, "name": folder.name, "database": "shop", "setup": setup, "config": config}
        self.settings = json.dumps(data | {"follows": follows})

    def start(self):
        with self.log.open("wb") as log:
            argv = [sys.executable, postgres.__file__, self.settings]
            self.process = subprocess.Popen(argv, stderr=log, stdout=log, start_new_session=True)
        eventually(lambda: re.search(READY, self.log.read_text()) or self.process.poll() is not None)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def url(self):
        return Postgres(database="shop").url(self.port)

    def count(self):
        return self.execute("select count(*), count(distinct id) from orders")

    def execute(self, statement):
        import psycopg2

        with contextlib.closing(psycopg2.connect(f"host=127.0.0.1 port={self.port} user={USER} dbname=shop")) as c:
            c.autocommit = True
            cursor = c.cursor()
            cursor.execute(statement)
            return cursor.fetchone() if cursor.description else None


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    made.start()
    yield made
    if made.process.poll() is None:
        made.process.terminate()
        assert made.process.wait(30) == 0


def table(server, folder):
    rows = RowsSpec(url=server.url, setting="x", insert="insert into orders values (:id, :amount)")
    plain = {"run_id": "r", "run_token": "7f3a91c0", "ledger": folder, "client": "shop/1", "bootstrap": ""}
    value = Value(template='{"id": "{id}"}', id_type="text")
    return Table(ProducerSpec(**plain, topic="shop", value_size=128, value=value, records=3, rows=rows))


def test_each_row_is_there_once_after_two_crashes_of_the_database(server, tmp_path):
    orders, ended, written = table(server, tmp_path), threading.Event(), []

    def write():
        for number in range(600):
            assert orders.write(json.dumps({"id": f"o-{number}", "amount": number}).encode(), lambda: True)
            written.append(number)
        ended.set()

    threading.Thread(target=write, daemon=True).start()
    for crash_at in (100, 300):
        eventually(lambda at=crash_at: len(written) > at)
        server.kill()
        server.start()
    eventually(ended.is_set)
    assert server.count() == (600, 600)
    with pytest.raises(RowError, match="invalid input syntax"):
        orders.write(b'{"id": "x", "amount": "many"}', lambda: True)
    assert server.count() == (600, 600)


ROW = "insert into orders select 'o-' || count(*), 1 from orders"


@pytest.mark.nightly(twin="system/test_rows.py::test_each_row_is_there_once_after_two_crashes_of_the_database")
def test_a_standby_has_each_row_of_its_primary_and_takes_its_place(tmp_path):
    primary = Server(tmp_path / "db", synchronous_standby_names="*")
    standby = Server(tmp_path / "copy", [], follows=primary.port)
    made = threading.Thread(target=standby.start, daemon=True)
    made.start()
    primary.start()
    made.join()
    eventually(lambda: primary.execute("select count(*) from pg_stat_replication") == (1,))
    primary.execute(ROW)  # returns when the standby has it
    eventually(lambda: standby.count() == (1, 1))
    assert standby.execute("select pg_is_in_recovery()") == (True,)
    primary.execute("alter role standby nologin")
    primary.execute("select pg_terminate_backend(pid) from pg_stat_replication")
    eventually(lambda: primary.execute("select count(*) from pg_stat_replication") == (0,))
    primary.execute(f"set synchronous_commit = local; {ROW}")
    assert (primary.count(), standby.count()) == ((2, 2), (1, 1)), "the standby cannot follow any more"
    primary.kill()
    standby.execute("select pg_promote()")
    standby.execute(ROW)
    standby.kill()
    standby.start()
    assert standby.count() == (2, 2), "its data stays, and it is no standby any more"
    standby.kill()


def test_a_pause_stops_all_processes_of_a_server_and_its_end_leaves_none(tmp_path):
    server = {"command": None, "postgres": {"database": "shop", "setup": SETUP}, "ready": None}
    with Started(tmp_path / "x", **server) as started:
        started.apps.start()
        instance = started.apps.instance("billing/1")
        processes = [ProcessId.of(p.pid) for p in psutil.Process(instance.pid).children(recursive=True)]
        assert len(processes) > 5  # each in a session alone, and with a title in place of its environment
        assert instance.pause() and instance.suspended()
        assert all(map(is_paused, processes))
        instance.resume()
        eventually(lambda: not any(map(is_paused, processes)))
        assert not instance.suspended()
        instance.kill()
        eventually(lambda: not any(process.alive() for process in processes))


def test_a_statement_of_an_administrator_is_shown_by_a_query_and_undone(tmp_path):
    drop = {"statement": "drop table orders", "shown_by": "select to_regclass('orders') is null", "undo": SETUP[0]}
    spec = {"name": "drop", "kind": "database.execute", "target": {"app": "billing"}, "when": {"at": 0}, **drop}
    server = {"command": None, "postgres": {"database": "shop", "setup": SETUP[:1]}, "ready": None}
    with Started(tmp_path / "x", faults=[spec], **server) as started:
        started.apps.start()
        (loaded,) = started.scenario.faults
        world = World(started.scenario, None, None, None, None, random.Random(1), apps=started.apps)
        fault = FAULTS[loaded.kind](loaded)
        assert fault.proof(world) is None
        assert fault.inject(world) == "executed in billing: drop table orders"
        assert fault.proof(world) == "select to_regclass('orders') is null is True in billing, and was False"
        with pytest.raises(FaultError, match="what shows the effect is true before the fault"):
            FAULTS[loaded.kind](loaded).inject(world)
        assert fault.heal(world) == f"executed in billing: {SETUP[0]}"
        assert fault.proof(world) is None
        wrong = FAULTS[loaded.kind](loaded.model_copy(update={"statement": "drop table nowhere"}))
        with pytest.raises(FaultError, match="refuses drop table nowhere: table"):
            wrong.inject(world)


def test_a_statement_that_fails_leaves_no_data_and_says_which(tmp_path):
    broken = Server(tmp_path, [*SETUP, "create table orders (id int)"])
    broken.start()
    assert broken.process.wait(30) == 1
    assert 'setup: create table orders (id int): relation "orders" already exists' in broken.log.read_text()
    assert not (tmp_path / "postgres").exists()


NIGHTLY = pytest.mark.nightly(twin="chaos/clients/test_rows.py")


@pytest.mark.kafka
@NIGHTLY
@pytest.mark.parametrize("variant", ["when-needed", "initial"])
def test_rows_without_a_replication_slot_come_again_or_are_named(tmp_path, variant):
    ended = chaos("run", "app-debezium-slot", "--variant", variant, "--json", "--seed", 7, "--runs-dir", tmp_path)
    (changes,) = ended.result["effects"]
    assert (ended.code, bool(changes["counts"]["missing"])) == (0, variant == "initial"), ended.result["sentence"]
    assert left_running(tmp_path) == []


@pytest.mark.kafka
@NIGHTLY
@pytest.mark.parametrize(("variant", "twice"), [("insert", True), ("upsert", False)])
def test_a_sink_that_is_killed_before_its_commit_inserts_again_what_it_does_not_upsert(tmp_path, variant, twice):
    ended = chaos("run", "app-jdbc-sink-commit", "--variant", variant, "--json", "--seed", 7, "--runs-dir", tmp_path)
    (invoices,) = ended.result["effects"]
    assert (ended.code, invoices["counts"]["missing"]) == (0, 0), ended.result["sentence"]
    assert bool(invoices["counts"]["duplicate"]) is twice
    assert left_running(tmp_path) == []


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("scenario", "fault"),
    [
        ("app-debezium", "database"),
        ("app-jdbc-sink", "database"),
        pytest.param("app-file-source", "first", marks=NIGHTLY),
    ],
)
def test_each_row_of_a_source_and_each_record_of_a_sink_is_there_after_crashes(tmp_path, scenario, fault):
    records = ["--set", "producers.shop.records=1200", "--set", f"faults.{fault}.when={{acked: 500}}"]
    ended = chaos("run", scenario, *records, "--json", "--seed", 7, "--runs-dir", tmp_path)
    (found,) = ended.result["effects"]
    counts = found["counts"]
    assert (ended.code, counts["missing"], counts["unexpected"]) == (0, 0, 0), ended.result["sentence"]
    assert found["effects"] == found["inputs"] + counts["duplicate"] >= 1200
    written = ended.result["counts"]["acked" if scenario == "app-jdbc-sink" else "inserted"]
    assert written == found["inputs"]
    assert left_running(tmp_path) == []
