"""Publishing: what a target has is what the history has, also of runs that end together, and of failures."""

import multiprocessing
import os
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chaos.errors import MetricsError
from chaos.history.metrics import publish
from chaos.history.metrics.families import textfile_text
from chaos.history.metrics.publish import SILENCE_S, Textfile, count_states, parse_target
from chaos.history.recording import check_metrics, record
from chaos.history.store import Store, default_url
from chaos.run.directory import Run
from chaos.run.events import EventLog
from tests.chaos.history.metrics.entries import ENTRY, later
from tests.support.fake_runs import FakeRun

pytestmark = pytest.mark.slow

RUNS, PROCESSES = 12, 4
VERDICTS = ("pass", "fail", "inconclusive")


def verdicts(path):
    return {
        sample.labels["verdict"]: sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
        if sample.name == "aftershock_recorded_runs"
    }


def one_run(folder, number, barrier):
    store = Store(default_url(folder))
    barrier.wait()
    for n in range(number, RUNS, PROCESSES):
        store.add(later(ENTRY, n, verdict=VERDICTS[n % 3]))
        publish.publish_history(store, folder, [parse_target(str(folder / "aftershock.prom"))])


def test_of_runs_that_end_together_no_one_is_missing_in_the_file(tmp_path):
    Store(default_url(tmp_path)).add(later(ENTRY, 10_000))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES)
    processes = [context.Process(target=one_run, args=(tmp_path, n, barrier)) for n in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert verdicts(tmp_path / "aftershock.prom") == {"pass": 5, "fail": 4, "inconclusive": 4}
    assert sorted(path.name for path in tmp_path.iterdir() if "prom" in path.name) == ["aftershock.prom"]


def test_an_older_state_that_is_written_last_is_written_again(tmp_path):
    """Another run is recorded and published while this process has read the history, but not yet written."""
    store, file = Store(default_url(tmp_path)), tmp_path / "aftershock.prom"
    store.add(ENTRY)

    class Late(Textfile):
        written = 0

        def write(self, families, tests, *, whole):
            if not Late.written:
                store.add(later(ENTRY, 60, verdict="fail"))
                publish.publish_history(store, tmp_path, [Textfile(file)])
            Late.written += 1
            super().write(families, tests, whole=whole)

    publish.publish_history(store, tmp_path, [Late(file)])
    assert verdicts(file) == {"pass": 1, "fail": 1, "inconclusive": 0} and Late.written == 2


def test_a_reader_never_sees_a_part_of_a_file(tmp_path, monkeypatch):
    file = tmp_path / "aftershock.prom"
    parse_target(str(file)).write([*publish.run_families([ENTRY])], None, whole=True)
    before, seen = file.read_text(), []
    replace = Path.replace

    def replacing(self, target):
        seen.append(file.read_text())
        assert self.suffix != ".prom"  # node_exporter reads every *.prom in the folder
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replacing)
    parse_target(str(file)).write(publish.run_families([later(ENTRY, 60, verdict="fail")]), None, whole=True)
    assert seen == [before] and file.read_text() != before


@pytest.fixture
def run(tmp_path):
    fake = FakeRun(tmp_path)
    fake.stages = [("deploy", "failed")]
    return fake.write().run


def test_recording_publishes_to_the_targets_of_the_environment(run, tmp_path, monkeypatch):
    monkeypatch.delenv("AFTERSHOCK_HISTORY", raising=False)
    monkeypatch.setenv("AFTERSHOCK_METRICS", f"{tmp_path}/one.prom {tmp_path}/two.prom")
    said = []
    record([run], tmp_path, said.append)
    assert said == [] and (tmp_path / "one.prom").read_text() == (tmp_path / "two.prom").read_text()
    assert verdicts(tmp_path / "one.prom") == {"pass": 0, "fail": 0, "inconclusive": 1}
    assert 'aftershock_run_directories{state="broken_off"} 1.0' in (tmp_path / "one.prom").read_text()


def test_without_its_history_a_file_keeps_what_it_has_and_says_so(run, tmp_path, monkeypatch):
    file, said = tmp_path / "aftershock.prom", []
    store = Store(default_url(tmp_path))
    store.add(later(ENTRY, 0, verdict="fail"))
    publish.publish_history(store, tmp_path, [Textfile(file)])
    monkeypatch.setenv("AFTERSHOCK_HISTORY", "sqlite:////nowhere/history.sqlite")
    record([run], tmp_path, said.append, [str(file)])
    assert len(said) == 1 and "not in the history" in said[0]
    assert "\naftershock_history_up 0.0\n" in file.read_text() and verdicts(file)["fail"] == 1
    file.unlink()
    record([run], tmp_path, said.append, [str(file)])
    assert "aftershock_history_up 0.0" in file.read_text() and "verdict" not in file.read_text()
    monkeypatch.delenv("AFTERSHOCK_HISTORY")
    record([run], tmp_path, said.append, [str(file)])
    assert (
        "aftershock_history_up 1.0" in file.read_text() and verdicts(file)["inconclusive"] == 0 < verdicts(file)["fail"]
    )


def test_a_run_whose_history_is_off_does_not_replace_the_file_of_a_history(run, tmp_path, monkeypatch):
    file, said = tmp_path / "aftershock.prom", []
    file.write_text("kept")
    monkeypatch.setenv("AFTERSHOCK_HISTORY", "off")
    record([run], tmp_path, said.append, [str(file)])
    assert file.read_text() == "kept" and "of single runs; record the runs in a history" in said[0]


def test_a_target_that_fails_does_not_keep_the_others_from_theirs(run, tmp_path, monkeypatch):
    monkeypatch.delenv("AFTERSHOCK_HISTORY", raising=False)
    said = []
    record(
        [run], tmp_path, said.append, ["http://me:secret@127.0.0.1:9", f"{tmp_path}/no/a.prom", f"{tmp_path}/b.prom"]
    )
    assert (tmp_path / "b.prom").exists() and len(said) == 1
    assert "cannot be pushed to http://127.0.0.1:9" in said[0] and "secret" not in said[0]
    assert "create the folder" in said[0]


@pytest.mark.parametrize("text", ["metrics.txt", "ftp://u:secret@host/x", "http://", "http://[", "aftershock"])
def test_a_target_that_is_none_is_refused_before_the_run(text):
    with pytest.raises(
        MetricsError, match=r"give a file that ends with .prom|write it as http://pushgateway:9091"
    ) as e:
        check_metrics([text])
    assert "secret" not in str(e.value)


def test_states_come_from_the_files_of_the_runs(tmp_path):
    def made(name, folder=tmp_path):
        new = Run.create(folder, name)
        new.resolved.write_text("{}")
        return new

    made("judged").result.write_text("{}")
    EventLog(made("driving", tmp_path / "catalogue" / "deep")).emit("stage", stage="deploy", state="begin")
    EventLog(made("failed")).emit("stage", stage="deploy", state="failed")
    made("new")
    silent = made("silent")
    os.utime(silent.resolved, (1, 1))
    old = made("old")
    EventLog(old).emit("stage", stage="drive", state="begin", at_us=int(SILENCE_S))
    (tmp_path / "half-written").mkdir()
    assert count_states(tmp_path) == {"in_progress": 2, "judged": 1, "broken_off": 3}
    assert count_states(tmp_path / "missing") == {"in_progress": 0, "judged": 0, "broken_off": 0}


def test_the_text_for_node_exporter_is_not_openmetrics():
    assert "# EOF" not in textfile_text(publish.run_families([ENTRY]))
