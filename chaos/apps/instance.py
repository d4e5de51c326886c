"""One instance of an application: its values for placeholders, its files, and the process of its incarnation."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from chaos.apps.processes import Running, start_container, start_process
from chaos.cluster.teardown import CONTAINER
from chaos.errors import ClientError
from chaos.install.programs import Built
from chaos.processes.process import ProcessId
from chaos.processes.scrub import Scrubber
from chaos.run.directory import Run
from chaos.setup.apps import App
from chaos.setup.placeholders import FORMS, PORT, SECRETS, base_of, filled, placeholders
from chaos.setup.postgres import USER

if TYPE_CHECKING:
    from docker import DockerClient

_OF_SERVER = {"database", "setup", "config"}
LAST_BYTES = 1 << 16
"""The end of a log that is read for its last lines: it may have gigabytes."""
SHOWN_LINES, MOST_OF_LINE, HINT_LINES = 3, 500, 40
WARNING = re.compile(r"%[4-7]\|")
"""The begin of a line of librdkafka below an error (`log_level`): it warns of what it tries again at each start."""
LOG_LIMIT, KEPT_OF_LOG, BEFORE_READY = 64 << 20, 8 << 20, 16
"""Bytes of a log above which its middle is left out, and bytes that stay at each end. The limit is so many times higher
as long as the line is awaited that says that the instance is ready."""
HINTS = (
    (
        re.compile(
            r"EADDRINUSE|BindException|address (is )?already in use|address in use|port \d+ .*already in use", re.I
        ),
        "its port is taken, perhaps by another instance: write {port}, a free port for each instance, where the "
        "command, env or a template has the port",
    ),
    (
        re.compile(r"\btty\b|EOF when reading a line|not a terminal|inappropriate ioctl|setRawMode", re.I),
        "it asks for a terminal, and no instance has one: its standard input is empty; give what it asks for in the "
        "command, env or a file",
    ),
    (
        re.compile(
            r"certificate.verify.failed|unable to (get|verify) .*(issuer|certificate)|self.signed certificate|PKIX path"
            r"|signed by unknown authority|unknown ca\b",
            re.I,
        ),
        "it does not trust the authority of the run, with which the relay ends TLS: give it {ca}, or {truststore} with "
        "{store_password}, where it has its authorities",
    ),
    (
        re.compile(r"AUTHORIZATION_FAILED|AuthorizationException|not authorized to access", re.I),
        "the brokers refuse it for lack of a right: give its user an ACL for what it asks for, at the cluster to which "
        "it connects",
    ),
)
"""What to do about an end or a start that does not end, by what the last lines of the output say."""
DAEMON = "start it in the foreground, so that the run can break, restart and end it"
NO_WORK_LEFT = "an application has to run until it is asked to end; its standard input is empty"


@dataclass
class Instance:
    """One instance. values: by placeholder. built: what starts its program, if the application has one.

    hidden: whether no text of the run may have a part of its output, which may have a payload in it; its log has it.
    wanted: whether it is to run; `since`: monotonic time of the last start.
    """

    app: App
    number: int
    values: Mapping[str, str]
    folder: Path
    log: Path
    built: Built | None = None
    hidden: bool = False
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
    attempts: int = 0
    """Starts since an incarnation was ready, or was ended by the run."""
    idle: dict[str, float] = field(default_factory=dict)
    """Since when parts of it run that have nothing to do, such as connectors without tasks, in monotonic s."""
    paused: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)
    end: str = ""
    """How the incarnation before the current one ended; empty if there was none."""
    left: int = 0
    """Number of processes that the last incarnation left in the background when it ended."""
    left_out: int = 0
    """Bytes of the log that were left out."""
    _head: int = 0
    """Bytes at the beginning of the log that stay, once some are left out."""
    _reading: threading.RLock = field(default_factory=threading.RLock)

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
        """Write its files, from templates or from settings of a worker of Kafka Connect. Raises `ClientError`."""
        needed = SECRETS - {"key_password"}  # a key may have none
        known = {name: value for name, value in self.values.items() if base_of(name) not in needed or value}
        for name, template in self.app.files.items():
            try:
                text = Path(template).read_text(encoding="utf-8")
                self._write(name, filled(text, known, strict=False), set(placeholders(text)))
            except (OSError, UnicodeDecodeError) as e:
                raise ClientError(f"{self.name}: its file {name} cannot be made from {template}: {e}") from None
        for name, config in self._settings().items():
            lines = [f"{key}={FORMS['properties'](filled(text, known))}\n" for key, text in config.items()]
            self._write(name, "".join(lines), {own for text in config.values() for own in placeholders(text)})

    def _settings(self) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of a worker of Kafka Connect by the name of their file; empty of another application."""
        return self.app.connect.files(self.built.folder) if self.app.connect and self.built else {}

    def _write(self, name: str, text: str, used: set[str]) -> None:
        """Write a file; only its owner may read one with a password.

        `chaos.cluster.teardown.remove_secret_files` finds files with a password by that. used: its placeholders.
        """
        target = Path(self.values["files"]) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        secret = any(self.values.get(own) for own in used if base_of(own) in SECRETS)
        mode = 0o600 if secret and self.app.image is None else 0o644
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as f:
            f.write(text)

    def start(self, run: Run, owner: ProcessId, scrubber: Scrubber, engine: DockerClient | None) -> None:
        """Start the next incarnation. Raises `ClientError`, or `ClusterError` for a container."""
        self.end = self.describe_exit() if self.incarnation else ""
        self._make_folders()
        self.write_files()
        self.read_from = self.searched_to = self.log.stat().st_size if self.log.exists() else 0
        self.log_matched = False
        known = dict(self.values)
        env = {name: filled(text, known) for name, text in self.app.env.items()}
        arguments = [filled(word, known) for word in self.app.arguments]
        arguments += [str(Path(self.values["files"]) / name) for name in self._settings()]
        if self.app.postgres is not None and self.built is not None:
            followed = self.app.postgres.standby_of
            server = {"bin": self.built.folder, "data": self.values["data"], "port": self.values["port"], "user": USER}
            server |= {"name": self.app.name, "follows": self.values[f"{PORT}{followed}"] if followed else ""}
            arguments.append(json.dumps(server | self.app.postgres.model_dump(include=_OF_SERVER)))
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
        self.incarnation, self.attempts, self.since = self.incarnation + 1, self.attempts + 1, time.monotonic()
        self.exit_code, self.asked, self.paused, self.ready = None, "", False, False

    def came_up(self) -> None:
        """Note that the incarnation is ready: the next end is a new reason to start again."""
        self.ready, self.attempts = True, 0

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
        with self._reading, contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(self.searched_to)
            for line in log:
                self.log_matched = bool(expression.search(line.decode("utf-8", errors="replace").rstrip("\r\n")))
                if self.log_matched:
                    break
                if line.endswith(b"\n"):  # else it may go on
                    self.searched_to += len(line)
        return self.log_matched

    def shorten_log(self) -> bool:
        """Leave the middle of the log out if it is above its limit; return whether this is the first time.

        The program goes on appending to the same file, so what it writes at the moment of the cut is left out, too.
        """
        with self._reading, contextlib.suppress(OSError), self.log.open("r+b") as log:
            size = log.seek(0, os.SEEK_END)
            kind, pattern = self.app.awaited.selector if self.app.awaited else ("", "")
            awaited = size > LOG_LIMIT and kind == "log" and not self.wrote(str(pattern))
            if size <= LOG_LIMIT * (BEFORE_READY if awaited else 1):
                return False
            log.seek(size - KEPT_OF_LOG)
            tail = log.read()
            size = log.tell()
            tail = tail[tail.find(b"\n") + 1 :]
            log.seek(0)
            self._head = self._head or log.read(KEPT_OF_LOG).rfind(b"\n") + 1
            first, end = not self.left_out, size - len(tail)
            self.left_out += end - self._head
            note = f"[Aftershock left out some {self.left_out:,} bytes here: only both ends of a long log stay]\n"
            begin = self._head + len(note)
            _move(log, note.encode() + tail, self._head, size)

            def moved(offset: int) -> int:
                return offset if offset <= self._head else max(begin, offset - end + begin)

            self.read_from, self.searched_to = moved(self.read_from), moved(self.searched_to)
            return first
        return False

    def _last_lines(self) -> list[str]:
        """Return the last lines of the output of the current incarnation that are not empty."""
        text = b""
        with self._reading, contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(self.read_from, self.log.stat().st_size - LAST_BYTES))
            text = log.read()
        return [line.strip() for line in text.decode("utf-8", errors="replace").splitlines() if line.strip()]

    def last_words(self) -> str:
        """Return the last lines of the output of the current incarnation, on one line; empty if it has none to show."""
        if self.hidden:
            return ""
        lines = self._last_lines()
        shown = [line for line in lines if not WARNING.match(line)] or lines
        return " | ".join(line[:MOST_OF_LINE] for line in shown[-SHOWN_LINES:])

    def hint(self) -> str:
        """Return what to do about an incarnation that ended, or that is never ready; mostly empty."""
        if self.exit_code == 0 and self.left:
            noun = "process" if self.left == 1 else "processes"
            return f"it left {self.left} {noun} in the background, which ended with it: {DAEMON}"
        lines = self._last_lines()[-HINT_LINES:]
        said = next((advice for pattern, advice in HINTS if any(map(pattern.search, lines))), "")
        return said or (NO_WORK_LEFT if self.exit_code == 0 else "")

    def how_it_ended(self) -> str:
        """Return the exit code or the signal of the last incarnation, as text."""
        code = self.exit_code or 0
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def describe_exit(self) -> str:
        """Return how the last incarnation that ended did so, with its last words."""
        if self.alive:
            return self.end
        words = self.last_words()
        said = f": {words}" if words else "" if self.hidden else ", and wrote nothing"
        hint = f"; {hint}" if (hint := self.hint()) else ""
        return f"{self.name} ended with {self.how_it_ended()}{said}{hint}; see logs/{self.log.name}"


def _move(log: IO[bytes], content: bytes, at: int, size: int) -> None:
    """Write what stays of a log at a place, with what was appended since it had this size, and cut the rest off."""
    while content:
        log.seek(at)
        at += log.write(content)
        log.seek(size)
        content = log.read()
        size += len(content)
    log.truncate(at)
