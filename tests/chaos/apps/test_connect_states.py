"""What a topic of states of Kafka Connect says of connectors and tasks that failed."""

import json

import pytest

from chaos.apps.connect_states import failed_for_good, sentences, states_of
from chaos.setup.connect import Connect

CAUSE = "java.io.IOException: disk full."
TRACE = f"org.apache.kafka.connect.errors.ConnectException: no\n\tat x\nCaused by: {CAUSE}\n\tat y\n"
BEGAN_US = 1_000_000_000


def said(part, state, at_s, trace=None):
    value = {"state": state, "trace": trace, "worker_id": "127.0.0.1:1", "generation": 2}
    return f"status-{part}".encode(), json.dumps(value).encode(), 1_000_000 + round(at_s * 1000)


def sentences_of(*records):
    return sentences("sink", states_of(records), BEGAN_US)


def test_what_runs_pauses_and_is_moved_has_no_sentence():
    states = ("RUNNING", "PAUSED", "UNASSIGNED", "RESTARTING", "RUNNING")
    assert sentences_of(*(said("task-orders-0", state, at) for at, state in enumerate(states))) == []


@pytest.mark.parametrize(("last", "shown"), [((), "and stayed so"), ((("RUNNING", 9),), "and is RUNNING at the end")])
def test_a_task_that_failed_is_named_with_its_first_cause_and_its_end(last, shown):
    records = [said("task-a-b-1", "FAILED", 5.25, TRACE), said("task-a-b-1", "RUNNING", 1)]
    records.append(said("task-a-b-0", "RUNNING", 1))
    records += [said("task-a-b-1", state, at) for state, at in last]
    begin = "Task 1 of connector a-b of sink failed 5.2 s after the start of the load"
    assert sentences_of(*records) == [f"{begin}, {shown}: {CAUSE}"]


@pytest.mark.parametrize(("last", "failed"), [("FAILED", True), ("RUNNING", False), ("UNASSIGNED", False)])
def test_a_task_that_is_failed_at_the_end_is_failed_for_good(last, failed):
    records = [said("task-a-0", last, 3), said("task-a-0", "FAILED", 2), said("task-a-1", "RUNNING", 1)]
    assert failed_for_good(states_of(records)) == failed


def test_a_connector_that_failed_before_the_load_and_without_a_trace_is_named():
    assert sentences_of(said("connector-orders", "FAILED", -3)) == [
        "Connector orders of sink failed 0.0 s after the start of the load, and stayed so."
    ]


def test_other_records_of_the_topic_have_no_state():
    removed, topics = (b"status-task-orders-0", None, 1), (b"status-topic-orders:connector-x", b"{}", 1)
    assert list(states_of([removed, topics, (None, b"{}", 1), (b"status-task-orders-0", b"no json", 1)])) == []


def test_the_topic_of_states_is_that_of_the_workers_group():
    def topic(**more):
        return Connect.model_validate({"connectors": {"c": {"connector.class": "A"}}, **more}).topic_of_states("sink")

    assert topic() == "sink-status"
    assert topic(config={"status.storage.topic": "mine"}) == "mine"
    assert topic(mode="standalone") == ""
