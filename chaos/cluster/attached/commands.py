"""The execution of the user's commands by /bin/sh, with a timeout and their output in `logs/verbs.log`.

A command does not get the marks of the run: a broker that it starts belongs to the user and must outlive the run. It
runs in a new process group, which is killed after the timeout. While it runs, `cluster.json` lists it, so that any
process that ends the run can end it. Its output goes to an unnamed file first, because processes that it leaves behind
may continue to write, and a closed pipe would kill them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from chaos.cluster.verbs import PLACEHOLDER
from chaos.errors import ClusterError
from chaos.processes.process import MARKS, ProcessId
from chaos.processes.scrub import Scrubber

CHECK_EVERY_S = 0.05
MAX_OUTPUT = 64 * 1024
_MAX_LINE = 300


def fill_in(command: str, broker: int, host: str, port: int) -> str:
    """Return the command for a broker, with the values of its placeholders quoted for the shell."""
    values = {"broker": broker, "host": host, "port": port}
    return PLACEHOLDER.sub(lambda match: shlex.quote(str(values[match[1]])), command)


def run(
    verb: str,
    command: str,
    timeout_s: float,
    log: Path,
    secrets: Iterable[str] = (),
    *,
    meanwhile: Callable[[], object] = lambda: None,
    on_change: Callable[[ProcessId, bool], None] = lambda identity, running: None,
) -> None:
    """Run a command from `fill_in`. Raises `ClusterError` if it fails or takes too long.

    `meanwhile` is called repeatedly until the command ends. `on_change` is called with the process and whether it runs,
    after the start and after the end.
    """
    env = {key: value for key, value in os.environ.items() if key not in MARKS}
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
        identity = ProcessId.of(child.pid)
        try:
            on_change(identity, True)
            code = _wait(child, timeout_s, meanwhile)
        finally:
            if child.poll() is None:
                end(identity)
                child.wait()
            on_change(identity, False)
        text = _read(output, secrets)
    ended = f"exit code {code}" if code is not None else f"killed after {timeout_s:g} s"
    _note(log, f"{verb}: {ended}\n{text}")
    if code != 0:
        last = f": {text.splitlines()[-1][:_MAX_LINE]}" if text.strip() else ", and said nothing"
        how = "did not end in time and was " + ended if code is None else f"ended with {ended}"
        raise ClusterError(f"the {verb} command {how}{last}; see {log}")


def end(command: ProcessId) -> None:
    """Kill a command and its children; do nothing if it has ended."""
    if command.alive():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)


def _wait(child: subprocess.Popen[bytes], timeout_s: float, meanwhile: Callable[[], object]) -> int | None:
    """Return the exit code; None after the timeout."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(CHECK_EVERY_S)
        meanwhile()
    return None


def _read(output: IO[bytes], secrets: Iterable[str]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - MAX_OUTPUT))
    text = output.read(MAX_OUTPUT).decode("utf-8", errors="replace")
    return Scrubber(secrets).text(text)


def _note(log: Path, text: str) -> None:
    with log.open("a", encoding="utf-8") as f:
        f.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text.rstrip()}\n")
