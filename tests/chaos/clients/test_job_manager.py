"""The answers of a job manager, as Flink 1.20.5 and 2.3.0 give them, from a server in the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from chaos.fleet.session import JobManager, Subtask

ANSWERS = {
    "/taskmanagers": {"taskmanagers": [{"id": "job-1.1", "slotsNumber": 2}, {"id": "job-2.1", "slotsNumber": 2}]},
    "/jobs/overview": {
        "jobs": [
            {"jid": "a", "name": "job/1", "state": "RESTARTING"},
            {"jid": "b", "name": "job/1", "state": "CANCELED"},
        ]
    },
    "/jobs/a": {"vertices": [{"id": "v", "name": "Source: kafka -> ledger", "parallelism": 2}]},
    "/jobs/a/vertices/v": {
        "subtasks": [
            {"subtask": 0, "status": "RUNNING", "attempt": 0, "taskmanager-id": "job-1.1"},
            {"subtask": 1, "status": "SCHEDULED", "attempt": 3, "taskmanager-id": "(unassigned)"},
        ]
    },
}


@pytest.fixture
def answers() -> Iterator[tuple[dict[str, object], JobManager]]:
    given: dict[str, object] = dict(ANSWERS)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in given
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps(given.get(self.path, {"errors": []})).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield given, JobManager(f"127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()


def test_it_lists_task_managers_and_the_subtasks_of_jobs_that_have_not_ended(
    answers: tuple[dict[str, object], JobManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    _, manager = answers
    assert manager.task_managers() == ["job-1.1", "job-2.1"]
    assert manager.subtasks() == [
        Subtask("job/1", "v", 0, 0, "RUNNING", "job-1.1"),
        Subtask("job/1", "v", 1, 3, "SCHEDULED", "(unassigned)"),
    ]


@pytest.mark.parametrize("path", ["/jobs/overview", "/jobs/a", "/jobs/a/vertices/v"])
def test_part_of_an_answer_is_none(answers: tuple[dict[str, object], JobManager], path: str) -> None:
    """A job may end between two requests; half of the subtasks would prove nothing."""
    given, manager = answers
    del given[path]
    assert manager.subtasks() is None


def test_a_job_manager_that_is_gone_gives_no_answer() -> None:
    manager = JobManager("127.0.0.1:1")
    assert manager.task_managers() is None
    assert manager.subtasks() is None
