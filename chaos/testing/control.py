"""The control socket: runs for tests in any language, as JSON, one object in a line.

A client connects to the Unix socket and writes one request in a line:

    {"run": SCENARIO, "seed": 7, "folder": PATH}

SCENARIO is as in a file. Its relative paths begin at the absolute `folder`, or where the server was started. The seed
and the folder may be left out.

The answer is a line for each step, and then one line that is the last:

    {"step": "injected leader: killed broker 2"}
    {"verdict": "fail", "sentence": "…", "description": "…", "report": PATH, "scenario": PATH, "result": {…}}
    {"error": "…", "exit_code": 2}   in place of the verdict, if the scenario is invalid or the run ended without result

`description` is what a failed test shows: the sentence, what did not hold, the stories, and how to run it again.
`result` is `result.json`. More requests may follow on one connection. Requests of several connections wait for each
other: one run at a time, on brokers that stay warm. The socket is for its owner only: a scenario names commands.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.errors import USAGE, AftershockError
from chaos.lab.progress import ProgressListener
from chaos.run.events import Event
from chaos.testing.session import Session, step_of
from chaos.testing.verdict import Verdict

MOST_BYTES = 16 << 20
"""Longest request."""


class Steps(ProgressListener):
    """Passes the steps of a run to the connection that asked for it."""

    def __init__(self) -> None:
        self.write: Callable[[str], None] = lambda words: None

    def run_event(self, name: str, event: Event) -> None:
        """Pass the words of a step on."""
        if words := step_of(event):
            self.write(words)


class Control(socketserver.ThreadingUnixStreamServer):
    """The server. session: made with `steps` as its listener."""

    daemon_threads = True

    def __init__(self, path: Path, session: Session, steps: Steps) -> None:
        self.session, self.steps, self.running = session, steps, threading.Lock()
        super().__init__(str(path), _Connection)
        path.chmod(0o600)


class _Connection(socketserver.StreamRequestHandler):
    server: Control

    def handle(self) -> None:
        while line := self.rfile.readline(MOST_BYTES):
            try:
                self._write(self._answer(line))
            except (BrokenPipeError, ConnectionResetError):
                return

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            scenario, seed, folder = request["run"], request.get("seed"), Path(request.get("folder") or "")
            if not isinstance(scenario, dict) or not isinstance(seed, int | None):
                raise TypeError
        except (ValueError, TypeError, KeyError, AttributeError):
            form = '{"run": SCENARIO, "seed": 7, "folder": PATH}'
            return {"error": f"a request is {form} in one line; seed and folder may be left out", "exit_code": USAGE}
        if "folder" in request and not (folder.is_absolute() and folder.is_dir()):
            return {"error": f"folder: {request['folder']!r} is no absolute path of a folder", "exit_code": USAGE}
        with self.server.running:
            self.server.steps.write = self._step
            try:
                return answer_of(self.server.session.run(scenario, seed, folder))
            except AftershockError as e:
                return {"error": str(e), "exit_code": e.exit_code}

    def _step(self, words: str) -> None:
        # the run goes on without a client that has gone: its verdict is in the run directory
        try:
            self._write({"step": words})
        except OSError:
            self.server.steps.write = lambda words: None

    def _write(self, data: dict[str, Any]) -> None:
        self.wfile.write(json.dumps(data, ensure_ascii=False).encode() + b"\n")
        self.wfile.flush()


def answer_of(verdict: Verdict) -> dict[str, Any]:
    """Return the last line of an answer."""
    return {
        "verdict": verdict.verdict,
        "sentence": verdict.sentence,
        "description": verdict.describe(),
        "report": str(verdict.report),
        "scenario": str(verdict.scenario),
        "result": verdict.result.model_dump(mode="json"),
    }
