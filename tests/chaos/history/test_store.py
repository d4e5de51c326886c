"""Database of the history: new, repeated and replaced runs; foreign tables; connection errors."""

import json
import socket
import threading
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, text

from chaos.errors import HistoryError, RunDirError
from chaos.history.entries import Entry, Time
from chaos.history.recording import add_runs, record
from chaos.history.runs import find_runs, judged_entry
from chaos.history.store import RUN, Store, default_url
from chaos.history.trends import BEFORE
from chaos.run.directory import Run
from chaos.scenario.load import parse
from chaos.scenario.resolve import resolve, save
from tests.support.fake_runs import FakeRun
from tests.support.postgres import postgres_server

SCENARIO = """
title: nothing breaks
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
"""
ENTRY = Entry(
    key="k", digest="d", run_id="r-1", scenario="clean-run", variant="", setup="s", title="T", verdict="pass",
    sentence="S", seen="none", seed=2**40, kafka="4.3.1", client="2.16.1", began_us=1_795_292_672_681_705,
    ended_us=1_795_292_718_864_840, run_dir="/runs/r-1", command="c",
    times=(Time(metric="ack_latency", scope="orders", fault="", stat="p99", value_us=12_345),),
)  # fmt: skip


@pytest.fixture(scope="module")
def postgres():
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Create an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.sqlite'}"
    server = request.getfixturevalue("postgres")
    name = f"h{abs(hash(request.node.name))}"
    with create_engine(server.url("postgres"), isolation_level="AUTOCOMMIT").connect() as db:
        db.execute(text(f"CREATE DATABASE {name}"))
    return server.url(name)


def test_a_run_is_stored_unchanged_and_recording_it_again_changes_nothing(url):
    store = Store(url)
    assert [store.add(ENTRY), store.add(ENTRY), Store(url).add(ENTRY)] == ["added", "unchanged", "unchanged"]
    assert Store(url).entries() == [ENTRY] and store.entries("clean-run") == [ENTRY] and store.entries("other") == []


def test_the_last_run_has_all_times_those_to_compare_have_times_with_a_trend_and_older_ones_none(url):
    trend, no_trend = ENTRY.times[0], ENTRY.times[0]._replace(stat="p95")
    runs = [
        replace(ENTRY, key=f"{setup}{n:03}", setup=setup, began_us=n, times=(trend, no_trend))
        for setup in "st"
        for n in range(BEFORE + 3)
    ]
    store = Store(url)
    store.add(ENTRY)  # makes the table
    with create_engine(url).begin() as db:
        db.execute(RUN.delete())
        times = json.dumps([trend._asdict(), no_trend._asdict()])
        db.execute(RUN.insert(), [vars(run) | {"times": times} for run in runs])
    found = store.entries(shown=2)
    assert [e.key for e in found] == [f"{setup}{n:03}" for n in range(BEFORE + 3) for setup in "st"]
    assert [e.times for e in found] == [()] * 2 + [(trend,)] * 2 * (BEFORE + 1) + [(trend, no_trend)] * 2


def test_a_run_that_was_judged_anew_takes_the_place_of_its_old_verdict(url):
    store, judged_again = Store(url), replace(ENTRY, digest="e", verdict="fail", times=())
    assert [store.add(ENTRY), store.add(judged_again)] == ["added", "judged again"]
    assert store.entries() == [judged_again]


def test_several_processes_may_make_the_tables_and_record_at_once(url):
    trouble = []

    def one(n):
        try:
            for again in range(3):
                Store(url).add(replace(ENTRY, key=f"{again}"))
                Store(url).add(replace(ENTRY, key=f"{n}-{again}"))
        except Exception as e:  # noqa: BLE001
            trouble.append(e)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == [] and len(Store(url).entries()) == 3 + 12


@pytest.mark.parametrize(
    "made",
    ["CREATE TABLE aftershock_run (mine INTEGER)", "ALTER TABLE aftershock_run DROP COLUMN times"],
)
def test_a_table_with_other_columns_is_left_alone(url, made):
    if made.startswith("ALTER"):
        Store(url).add(ENTRY)
    with create_engine(url).begin() as db:
        db.execute(text(made))
    with pytest.raises(HistoryError, match=r"aftershock_run with other columns; .*history import RUNS_DIR") as e:
        Store(url).add(ENTRY)
    assert "\n" not in str(e.value)


def test_the_table_is_made_again_from_run_directories(url, tmp_path):
    runs = [judged(tmp_path, "r-1"), judged(tmp_path, "r-2", verdict="fail")]
    add_runs(runs, url)
    before = Store(url).entries()
    with create_engine(url).begin() as db:
        db.execute(text("DROP TABLE aftershock_run"))
    assert add_runs(find_runs(tmp_path), url) == {"added": 2}
    assert Store(url).entries() == before and {e.verdict for e in before} == {"pass", "fail"}


def test_tables_of_another_program_may_share_the_database(url):
    with create_engine(url).begin() as db:
        db.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        db.execute(text("INSERT INTO alembic_version VALUES ('of airflow')"))
    assert Store(url).add(ENTRY) == "added"


def closed_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (lambda tmp: f"sqlite:///{tmp}/none/history.sqlite", "cannot be used: unable to open database file"),
        (lambda tmp: f"sqlite:///{tmp}", "cannot be used: unable to open database file"),
        (lambda tmp: f"sqlite:///{tmp}/text", "cannot be used: file is not a database"),
        (lambda tmp: "history.sqlite", "the history's URL is not understood; write sqlite:////"),
        (lambda tmp: "off", "the history's URL is not understood"),
        (lambda tmp: "cobol://tester:secret@h/db", "is of an unknown kind of database"),
        (lambda tmp: "oracle://tester:secret@h/db", "needs the Python package"),
    ],
)
def test_an_unusable_database_is_an_error_of_one_line(url, message, tmp_path):
    (tmp_path / "text").write_text("this is text and no database" * 40)
    with pytest.raises(HistoryError) as e:
        Store(url(tmp_path)).add(ENTRY)
    assert message in str(e.value) and "\n" not in str(e.value) and "secret" not in str(e.value)


def test_an_unreachable_server_is_an_error_of_one_line_without_its_password():
    pytest.importorskip("psycopg2")
    with pytest.raises(HistoryError, match=r"tester:\*\*\*@127.0.0.1.*[Cc]onnection refused") as e:
        Store(f"postgresql://tester:secret@127.0.0.1:{closed_port()}/db").add(ENTRY)
    assert "\n" not in str(e.value)


def judged(folder, run_id="r-1", verdict="pass", scenario=SCENARIO, name="clean-run", **fields):
    """Create a run directory with a result, the input of the history."""
    run = Run.create(folder, run_id)
    loaded = parse(scenario, "test")
    resolved = resolve(loaded, run_id=run_id, name=name, created_us=1, seed=7, overrides=[])
    save(run, resolved)
    result = {
        "run_id": run_id, "run_dir": "elsewhere", "scenario": name, "title": loaded.title, "verdict": verdict,
        "sentence": "S", "seed": 7, "command": "c", "versions": {"kafka": "4.3.1", "confluent-kafka": "2.16.1"},
        "began_us": 10, "ended_us": 20,
        "totals": [{"check": "lost_write", "split": "", "scope": s, "count": 400, "examined": 9} for s in "ab"],
        "metrics": [{"metric": "ack_latency", "scope": "orders", "fault": "", "stat": s, "value_us": 5}
                    for s in ("count", "p99")],
        **fields,
    }  # fmt: skip
    run.result.write_text(json.dumps(result))
    return run


def test_an_entry_has_the_values_of_result_json(tmp_path):
    entry = judged_entry(judged(tmp_path))
    assert (entry.scenario, entry.verdict, entry.seen, entry.kafka) == ("clean-run", "pass", "lost_write 800", "4.3.1")
    assert entry.times == (Time(metric="ack_latency", scope="orders", fault="", stat="p99", value_us=5),)
    assert entry.run_dir == str(tmp_path / "r-1")


def test_the_setup_ignores_seed_contract_texts_and_release_but_not_settings(tmp_path):
    def setup(n, text):
        return judged_entry(judged(tmp_path, f"r-{n}", scenario=text)).setup

    same = (
        SCENARIO.replace("nothing breaks", "another title")
        + "seed: 3\nschedule: '@daily'\nexpect: {lost_write: {min: 1}}\n"
    )
    same += "cluster: {kafka: 3.9.2}\nlimits: {drain: 9s}\n"
    assert setup(1, SCENARIO) == setup(2, same)
    assert setup(3, SCENARIO.replace("topic: orders}", "topic: orders, config: {acks: 1}}")) != setup(1.5, SCENARIO)


def test_the_setup_ignores_the_prefix_of_a_run_on_an_attached_cluster(tmp_path):
    attached = SCENARIO + "cluster: {driver: attached, bootstrap: 'h:1'}\n"
    one, two = (judged_entry(judged(tmp_path, run_id, scenario=attached)) for run_id in ("a-1", "b-2"))
    assert one.setup == two.setup


def test_a_run_without_a_verdict_is_inconclusive_and_replaced_when_it_is_judged(url, tmp_path):
    run = judged(tmp_path)
    result = run.result.read_text()
    run.result.unlink()
    begin = {"at_us": 10, "kind": "stage", "stage": "deploy", "state": "begin"}
    inner = {**begin, "at_us": 19, "stage": "broker", "state": "failed", "detail": "broker 2 did not start"}
    lines = [begin, inner, {**inner, "at_us": 20, "stage": "deploy"}]
    run.events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert add_runs([run], url) == {"added": 1}
    (kept,) = Store(url).entries()
    assert (kept.verdict, kept.seen, kept.times) == ("inconclusive", "not known", ())
    assert kept.sentence == "It broke off in broker: broker 2 did not start"
    assert add_runs([run], url) == {"unchanged": 1}
    run.result.write_text(result)
    assert add_runs([run], url) == {"judged again": 1}
    assert [e.verdict for e in Store(url).entries()] == ["pass"]


def test_a_run_that_never_began_is_not_recorded(url, tmp_path):
    run = judged(tmp_path)
    run.result.unlink()
    assert add_runs([run, Run(tmp_path / "none")], url) == {}


def test_characters_that_databases_reject_are_replaced(url, tmp_path):
    run = judged(tmp_path, sentence="a\0b \ud800 <b>", name="dir/mine.yaml")
    Store(url).add(judged_entry(run))
    (kept,) = Store(url).entries("mine")
    assert kept.sentence == "a␀b ? <b>"


def test_runs_are_found_below_a_catalogue_and_an_ab_run_without_the_ab_run(tmp_path):
    judged(tmp_path, "one")
    whole = tmp_path / "ab"
    judged(whole, "ab-x")
    judged(tmp_path / "catalogue-1", "two-1")
    (whole / "result.json").write_text("{}")
    (tmp_path / "unjudged").mkdir()
    assert [run.run_id for run in find_runs(tmp_path)] == ["one", "ab-x", "two-1"]


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"run_id": "x", "verdict": 3}', "\x00"])
def test_an_invalid_result_is_an_error_of_one_line(content, tmp_path):
    run = judged(tmp_path)
    run.result.write_text(content)
    with pytest.raises(RunDirError, match=r"result\.json is not") as e:
        judged_entry(run)
    assert "\n" not in str(e.value)


def test_an_unavailable_history_is_one_line_and_changes_no_result(tmp_path, monkeypatch):
    run = judged(tmp_path)
    before, said = run.result.read_bytes(), []
    monkeypatch.setenv("AFTERSHOCK_HISTORY", f"sqlite:///{tmp_path}/none/h.sqlite")
    record([run], tmp_path, said.append)
    assert len(said) == 1 and "unable to open" in said[0] and f"history import {tmp_path}" in said[0]
    assert run.result.read_bytes() == before
    monkeypatch.delenv("AFTERSHOCK_HISTORY")
    record([run, Run(tmp_path / "never-judged")], tmp_path, said.append)
    assert len(said) == 1 and len(Store(f"sqlite:///{tmp_path}/history.sqlite").entries()) == 1
    assert add_runs([run], f"sqlite:///{tmp_path}/history.sqlite") == {"unchanged": 1}


def test_recording_can_be_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv("AFTERSHOCK_HISTORY", "off")
    record([judged(tmp_path)], tmp_path, pytest.fail)
    assert not (tmp_path / "history.sqlite").exists()


def test_a_part_of_a_gate_has_the_name_of_its_scenario_and_a_failure_is_one_line(tmp_path, monkeypatch):
    run = FakeRun(tmp_path).write().run
    said: list[str] = []
    record([run], tmp_path, said.append, named=("leader-kill", "acks-all"))
    (entry,) = Store(default_url(tmp_path)).entries()
    assert (entry.scenario, entry.variant, entry.verdict, said) == ("leader-kill", "acks-all", "inconclusive", [])
    monkeypatch.setenv("AFTERSHOCK_HISTORY", "nonsense")
    record([run], tmp_path, said.append, named=("leader-kill", ""))
    monkeypatch.setenv("AFTERSHOCK_HISTORY", "off")
    record([run], tmp_path, said.append, named=("leader-kill", ""))
    assert len(said) == 1 and "its results are safe" in said[0]
