"""One instance of an application: its values for placeholders, its files, and the process of its incarnation."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.apps.processes import Running, start_container, start_process
from chaos.cluster.teardown import CONTAINER
from chaos.errors import ClientError
from chaos.install.programs import Built
from chaos.processes.process import ProcessId
from chaos.processes.scrub import Scrubber
from chaos.run.directory import Run
from chaos.setup.apps import SECRETS, App, filled, placeholders

if TYPE_CHECKING:
    from docker import DockerClient

LAST_BYTES = 1 << 16
"""The end of a log that is read for its last lines: it may have gigabytes."""
SHOWN_LINES, MOST_OF_LINE = 3, 500


@dataclass
class Instance:
    """One instance. values: by placeholder. built: what starts its program, if the application has one.

    wanted: whether it is to run; `since`: monotonic time of the last start.
    """

    app: App
    number: int
    values: Mapping[str, str]
    folder: Path
    log: Path
    built: Built | None = None
    wanted: bool = True
    incarnation: int = 0
    since: float = 0.0
    running: Running | None = None
    exit_code: int | None = None
    asked: str = ""
    """Why the incarnation is to end; empty if nobody asked for it."""
    read_from: int = 0
    """The size of the log when the incarnation started."""
    searched_to: int = 0
    """Up to where the log was searched for the line that says that the incarnation is ready."""
    log_matched: bool = False
    restarts: int = 0
    """Restarts by the supervisor."""
    ready: bool = False
    """Whether the incarnation was waited for until it was ready."""
    paused: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def name(self) -> str:
        """The name, such as billing/1."""
        return f"{self.app.name}/{self.number}"

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.running is not None

    @property
    def pid(self) -> int | None:
        """The process ID of the current incarnation."""
        return self.running.pid if self.running else None

    def ran_for(self) -> float:
        """Return for how many seconds the current incarnation has run; 0 if none does."""
        return time.monotonic() - self.since if self.alive else 0.0

    def _make_folders(self) -> None:
        """Make its folders. A container has any user: all may use them, below a folder that only the owner enters."""
        data = Path(self.values["data"])
        for folder in (data, Path(self.values["files"])):
            folder.mkdir(parents=True, exist_ok=True)
        if self.app.image is not None:
            self.folder.chmod(0o700)
            data.chmod(0o777)
            for path in Path(self.values["files"]).rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o644)
            (self.folder / CONTAINER).touch()

    def write_files(self) -> None:
        """Write its files from their templates; only their owner may read files with a password. Raises `ClientError`.

        `chaos.cluster.teardown.remove_secret_files` finds files with a password by that.
        """
        files = Path(self.values["files"])
        known = {name: value for name, value in self.values.items() if name not in SECRETS or value}
        for name, template in self.app.files.items():
            target = files / name
            try:
                text = Path(template).read_text(encoding="utf-8")
                target.parent.mkdir(parents=True, exist_ok=True)
                secret = not SECRETS.isdisjoint(known.keys() & set(placeholders(text)))
                target.unlink(missing_ok=True)
                mode = 0o600 if secret and self.app.image is None else 0o644
                with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as f:
                    f.write(filled(text, known, strict=False))
            except (OSError, UnicodeDecodeError) as e:
                raise ClientError(f"{self.name}: its file {name} cannot be made from {template}: {e}") from None

    def start(self, run: Run, owner: ProcessId, scrubber: Scrubber, engine: DockerClient | None) -> None:
        """Start the next incarnation. Raises `ClientError`, or `ClusterError` for a container."""
        self._make_folders()
        self.write_files()
        self.read_from = self.searched_to = self.log.stat().st_size if self.log.exists() else 0
        self.log_matched = False
        known = dict(self.values)
        env = {name: filled(text, known) for name, text in self.app.env.items()}
        arguments = [filled(word, known) for word in self.app.arguments]
        if self.app.image is not None:
            assert engine is not None  # an application with an image has one
            self.running = start_container(
                engine,
                self.app.image,
                arguments,
                run=run,
                name=self.name,
                incarnation=self.incarnation + 1,
                owner=owner,
                log=self.log,
                env=env,
                folder=self.folder,
                scrubber=scrubber,
            )
        else:
            command = [filled(word, known) for word in self.app.command or ()]
            self.running = start_process(
                [*self.built.command, *arguments] if self.built else command,
                run=run,
                name=self.name,
                owner=owner,
                log=self.log,
                # the platform's own PYTHONPATH is no business of the application
                env={"PYTHONPATH": os.environ.get("PYTHONPATH", ""), **(self.built.env if self.built else {}), **env},
                directory=Path(self.values["directory"]),
                scrubber=scrubber,
            )
        self.incarnation, self.since = self.incarnation + 1, time.monotonic()
        self.exit_code, self.asked, self.paused, self.ready = None, "", False, False

    def pause(self) -> bool:
        """Suspend it; return False if it is gone."""
        running = self.running
        self.paused = running is not None and running.pause()
        return self.paused

    def suspended(self) -> bool:
        """Return whether the system shows it as suspended."""
        running = self.running
        return running is not None and running.suspended()

    def resume(self) -> None:
        """Let it go on, if it is suspended."""
        running = self.running
        self.paused = False
        if running is not None:
            running.resume()

    def kill(self) -> None:
        """Kill it, if it runs."""
        running = self.running
        if running is not None:
            running.kill()

    def ask_to_end(self) -> None:
        """Send it the signal with which the application stops, if it runs."""
        running = self.running
        if running is not None:
            running.signal(self.app.stop.signal)

    def wrote(self, pattern: str) -> bool:
        """Return whether a line of the current incarnation matches; only what is new since the last call is read."""
        if self.log_matched:
            return True
        expression = re.compile(pattern)
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(self.searched_to)
            for line in log:
                self.log_matched = bool(expression.search(line.decode("utf-8", errors="replace").rstrip("\r\n")))
                if self.log_matched:
                    break
                if line.endswith(b"\n"):  # else it may go on
                    self.searched_to += len(line)
        return self.log_matched

    def last_words(self) -> str:
        """Return the last lines of the output of the current incarnation, on one line; empty if nothing is readable."""
        text = b""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(self.read_from, self.log.stat().st_size - LAST_BYTES))
            text = log.read()
        lines = [line.strip() for line in text.decode("utf-8", errors="replace").splitlines() if line.strip()]
        return " | ".join(line[:MOST_OF_LINE] for line in lines[-SHOWN_LINES:])

    def describe_exit(self) -> str:
        """Return how the last incarnation ended, with its last words."""
        code = self.exit_code or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        words = self.last_words()
        said = f": {words}" if words else ", and wrote nothing"
        return f"{self.name} ended with {how}{said}; see logs/{self.log.name}"
