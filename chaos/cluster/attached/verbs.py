"""Running the user's commands: each by /bin/sh, with a time-out, and with what it says in `logs/verbs.log`.

A command gets no mark of the run: a broker that it starts belongs to the user and must outlive the run. It is in a
process group of its own, which is killed when the time is over; while it runs, `cluster.json` names it, so that whoever
ends the run can end it. Its output goes to a file of no name first: what it starts may write on, and must not die of a
closed pipe.
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

from chaos.cluster.verbs import PLACE
from chaos.errors import ClusterError
from chaos.processes.process import MARKS, ProcessId, wait_gone

LOOK_EVERY_S = 0.05
MOST_OUTPUT = 64 * 1024
_MOST_OF_LINE = 300


def fill_in(command: str, broker: int, host: str, port: int) -> str:
    """The command for a broker; what stands for something is quoted for the shell."""
    values = {"broker": broker, "host": host, "port": port}
    return PLACE.sub(lambda match: shlex.quote(str(values[match[1]])), command)


def run(
    verb: str,
    command: str,
    timeout_s: float,
    log: Path,
    secrets: Iterable[str] = (),
    *,
    meanwhile: Callable[[], object] = lambda: None,
    under_way: Callable[[ProcessId, bool], None] = lambda identity, running: None,
) -> None:
    """Run a command that `fill_in` made. Raises `ClusterError` if it fails or takes too long.

    `meanwhile` is called again and again until it ends, `under_way` when it has begun and when it is over.
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
            under_way(identity, True)
            code = _wait(child, timeout_s, meanwhile)
        finally:
            if child.poll() is None:
                end(identity)
                child.wait()
            under_way(identity, False)
        said = _read(output, secrets)
    ended = f"exit code {code}" if code is not None else f"killed after {timeout_s:g} s"
    _note(log, f"{verb}: {ended}\n{said}")
    if code != 0:
        last = f": {said.splitlines()[-1][:_MOST_OF_LINE]}" if said.strip() else ", and said nothing"
        how = "did not end in time and was " + ended if code is None else f"ended with {ended}"
        raise ClusterError(f"the {verb} command {how}{last}; see {log}")


def end(command: ProcessId) -> None:
    """SIGKILL a command and its children; nothing to do for one that has ended."""
    if command.alive():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)


def end_and_wait(command: ProcessId) -> None:
    """The same, for one whose parent is another process."""
    end(command)
    wait_gone([command], 10)


def _wait(child: subprocess.Popen[bytes], timeout_s: float, meanwhile: Callable[[], object]) -> int | None:
    """The exit code; None when the time is over."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(LOOK_EVERY_S)
        meanwhile()
    return None


def _read(output: IO[bytes], secrets: Iterable[str]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - MOST_OUTPUT))
    text = output.read(MOST_OUTPUT).decode("utf-8", errors="replace")
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    return text


def _note(log: Path, text: str) -> None:
    with log.open("a", encoding="utf-8") as f:
        f.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text.rstrip()}\n")
