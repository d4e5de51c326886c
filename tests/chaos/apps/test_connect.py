"""What is said of connectors: workers that answer, or not, and states and refusals as Kafka Connect words them."""

from contextlib import closing
from pathlib import Path

import pytest

from chaos.apps.connect import lacks
from chaos.apps.instance import Instance
from chaos.errors import ClientError
from chaos.setup.apps import App
from tests.support.connect import Worker

pytestmark = pytest.mark.slow

CONNECTORS = {"printed": {"connector.class": "org.example.Sink", "topics": "orders", "file": "{data}/out"}}
TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: no\n\tat x\nCaused by: java.io.IOException: disk full\n\tat y\n"
)


@pytest.fixture
def worker():
    one = Worker()
    yield one
    one.close()


def instance(port, tmp_path: Path, mode="distributed"):
    app = App.model_validate({"name": "sink", "connect": {"connectors": CONNECTORS, "mode": mode}})
    return Instance(app, 1, {"port": str(port), "data": "/d"}, tmp_path, tmp_path / "log")


def looked(port, tmp_path: Path, mode="distributed"):
    one = instance(port, tmp_path, mode)
    assert one.app.connect is not None
    return lacks(one.app.connect, [one])


def test_a_connector_that_workers_do_not_have_is_put_with_its_placeholders_filled(worker, tmp_path):
    (lack,) = looked(worker.port, tmp_path)
    assert "printed is not there yet" in lack
    settings = {"name": "printed", "connector.class": "org.example.Sink", "topics": "orders", "file": "/d/out"}
    assert worker.put == [("/connectors/printed/config", settings)]


def test_a_standalone_worker_has_its_connectors_from_files_so_none_is_put(worker, tmp_path):
    assert looked(worker.port, tmp_path, "standalone")
    assert worker.put == []


def test_nothing_lacks_when_the_connector_and_each_task_run(worker, tmp_path):
    worker.runs("RUNNING", "RUNNING", "RUNNING")
    assert looked(worker.port, tmp_path) == []


@pytest.mark.parametrize(
    ("states", "lack"),
    [
        (("RUNNING",), "connector printed has no task yet"),
        (("UNASSIGNED", "RUNNING"), "connector printed is UNASSIGNED"),
        (("RUNNING", "RUNNING", "FAILED"), "task 1 of connector printed is FAILED: java.io.IOException: disk full"),
    ],
)
def test_a_state_that_is_not_running_is_said_with_its_innermost_cause(worker, tmp_path, states, lack):
    worker.runs(*states, trace=TRACE)
    assert lack in looked(worker.port, tmp_path)


def test_what_failed_on_a_worker_that_has_been_ready_is_not_awaited_and_what_is_left_from_before_an_end_is(
    worker, tmp_path
):
    with closing(Worker()) as other:
        one, back = instance(worker.port, tmp_path), instance(other.port, tmp_path)
        one.came_up()
        assert one.app.connect is not None

        def lacking(*states):
            worker.runs(*states, workers=[worker.port, other.port])
            return lacks(one.app.connect, [one, back])

        assert lacking("FAILED", "FAILED", "RUNNING") == []
        assert lacking("RUNNING", "FAILED", "UNASSIGNED") == ["task 1 of connector printed is UNASSIGNED"]
        assert lacking("RUNNING", "RUNNING", "FAILED") == ["task 1 of connector printed is FAILED"]


def test_a_connector_without_a_task_is_ready_after_some_time_and_remembered_as_idle(worker, tmp_path, monkeypatch):
    monkeypatch.setattr("chaos.apps.connect.IDLE_S", 0.0)
    worker.runs("RUNNING")
    assert looked(worker.port, tmp_path) == []
    worker.runs("FAILED")
    assert looked(worker.port, tmp_path) == ["connector printed is FAILED"]


def test_a_refusal_is_one_line_with_the_classes_that_the_worker_has(worker, tmp_path):
    known = "PluginDesc{klass=class a.B, name='a.B', version='1'}, PluginDesc{klass=class c.D, name='c.D', version='1'}"
    message = f"Failed to find any class that implements Connector,\n available connectors are: {known}"
    worker.answers["PUT /connectors/printed/config"] = (500, {"message": message})
    with pytest.raises(ClientError) as refused:
        looked(worker.port, tmp_path)
    assert str(refused.value) == (
        "sink/1 refuses connector printed: Failed to find any class that implements Connector, available connectors "
        "are: a.B, c.D"
    )


def test_a_group_that_rebalances_is_awaited(worker, tmp_path):
    worker.answers["PUT /connectors/printed/config"] = (409, {"message": "rebalance"})
    assert looked(worker.port, tmp_path)


def test_a_worker_that_does_not_answer_is_awaited(worker, tmp_path):
    worker.close()
    assert "does not answer yet" in looked(worker.port, tmp_path)[0]
