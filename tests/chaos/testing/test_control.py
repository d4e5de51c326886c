"""The control socket: one JSON object in a line, for tests in any language."""

import json
import socket
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos.errors import ScenarioError
from chaos.testing.control import Control, Steps

pytestmark = pytest.mark.slow


class Client:
    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(10)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rb")

    def send(self, text):
        self._socket.sendall(text.encode() + b"\n")

    def line(self):
        return json.loads(self._lines.readline())

    def close(self):
        self._lines.close()
        self._socket.close()


@pytest.fixture
def served(tmp_path):
    """A server over a session that takes a step, and gives each scenario what it says."""
    steps, ran = Steps(), []

    def run(scenario, seed, folder):
        ran.append((scenario["title"], seed, folder))
        steps.run_event("x", {"kind": "fault", "phase": "proven", "fault": "leader", "words": "broker 2 is gone"})
        steps.run_event("x", {"kind": "progress"})
        if scenario["title"] == "bad":
            raise ScenarioError("bad is no scenario")
        if scenario["title"] == "waits":
            assert go.wait(10)
        result = SimpleNamespace(model_dump=lambda mode: {"verdict": "pass"})
        return SimpleNamespace(
            verdict="pass", sentence="S.", describe=lambda: "PASS: S.", report="r", scenario="s", result=result
        )

    go = threading.Event()
    path = tmp_path / "a.sock"
    server = Control(path, SimpleNamespace(run=run), steps)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield SimpleNamespace(path=path, ran=ran, go=go)
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_request_is_answered_by_its_steps_and_its_verdict_and_another_one_may_follow(served):
    client = Client(served.path)
    for title, seed in (("é", 7), ("again", None)):
        client.send(json.dumps({"run": {"title": title}} | ({"seed": seed} if seed else {})))
        assert client.line() == {"step": "proven leader: broker 2 is gone"}
        answer = client.line()
        assert (answer["verdict"], answer["description"], answer["result"]) == ("pass", "PASS: S.", {"verdict": "pass"})
    client.close()
    assert served.ran == [("é", 7, Path()), ("again", None, Path())]


def test_relative_paths_begin_at_the_folder_of_a_request_which_has_to_exist(served, tmp_path):
    client = Client(served.path)
    for folder in ("here", str(tmp_path / "none"), ""):
        client.send(json.dumps({"run": {"title": "x"}, "folder": folder}))
        answer = client.line()
        assert (answer["error"], answer["exit_code"]) == (f"folder: {folder!r} is no absolute path of a folder", 2)
    client.send(json.dumps({"run": {"title": "x"}, "folder": str(tmp_path)}))
    assert client.line()["step"] and client.line()["verdict"] == "pass"
    client.close()
    assert served.ran == [("x", None, tmp_path)]


def test_only_the_owner_may_use_the_socket(served):
    assert stat.S_IMODE(served.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"run": "a"}', '{"run": {"title": "x"}, "seed": "7"}', "", '{"seed": 1}', "null"]
)
def test_what_is_no_request_is_one_line_and_the_connection_goes_on(served, text):
    client = Client(served.path)
    client.send(text)
    answer = client.line()
    assert answer["exit_code"] == 2 and answer["error"].startswith("a request is")
    client.send('{"run": {"title": "x"}}')
    assert "step" in client.line()
    client.close()


def test_an_invalid_scenario_is_an_error_with_its_exit_code(served):
    client = Client(served.path)
    client.send('{"run": {"title": "bad"}}')
    client.line()
    assert client.line() == {"error": "bad is no scenario", "exit_code": 2}
    client.close()


def test_a_client_that_goes_away_ends_neither_its_run_nor_the_server(served):
    gone, other = Client(served.path), Client(served.path)
    gone.send('{"run": {"title": "waits"}}')
    gone.line()
    gone.close()
    other.send('{"run": {"title": "next"}}')
    served.go.set()
    assert other.line() == {"step": "proven leader: broker 2 is gone"}
    assert other.line()["verdict"] == "pass"
    other.close()
    assert [title for title, _, _ in served.ran] == ["waits", "next"]
