"""A worker as the drive sees it: a host for clients, behind a connection."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.clients.host import Meter
from chaos.clients.protocol import ClientSpec
from chaos.errors import ClientError
from chaos.processes.usage import Usage
from chaos.scenario.runtimes.choice import Client
from chaos.workers.connection import SILENCE_S, Channel, Frame
from chaos.workers.names import worker_name

CALL_S = 60.0
"""Time for an answer to a call, except to those that install or copy."""
LONG_CALL_S = 900.0


class RemoteMeter:
    """The usage of a process on a worker, which its agent measures."""

    def __init__(self, process: RemoteProcess) -> None:
        self._process = process
        self.total: Usage | None = None
        self.started: Usage | None = None

    def mark_started(self) -> None:
        """Keep the usage up to now as that of the start."""
        with suppress(ClientError):
            self._process.worker.order("mark_started", process=self._process.number)


class RemoteProcess:
    """The process of a client on a worker."""

    def __init__(self, worker: Worker, number: int, log: Path) -> None:
        self.worker, self.number, self.log = worker, number, log
        self.pid = 0
        self._meter = RemoteMeter(self)
        self._frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._code: int | None = None
        self._last_lines: list[str] = []

    @property
    def meter(self) -> RemoteMeter:
        """The usage of the process and its children, known when it has ended."""
        return self._meter

    def receive(self, frame: Frame) -> None:
        """Take a frame of the agent about this process: an event, or its end."""
        self._frames.put(frame)

    def read_events(self) -> Iterator[bytes]:
        """Yield the lines on stdout until the process ends, or its worker."""
        while "line" in (frame := self._frames.get()):
            yield frame["line"].encode("utf-8", "surrogateescape")
        self._code, self._last_lines = frame["code"], frame["log"]
        self._meter.total, self._meter.started = (
            Usage(**frame[name]) if frame.get(name) else None for name in ("total", "started")
        )
        self._ended.set()

    def write(self, line: bytes) -> None:
        """Write a line to stdin. Raises `BrokenPipeError` if the process is gone."""
        try:
            self.worker.call("write", process=self.number, line=line.decode())
        except ClientError as e:
            raise BrokenPipeError(str(e)) from None

    def signal(self, number: int) -> bool:
        """Send a signal to the process and its children; return False if it, or its worker, is gone."""
        try:
            return bool(self.worker.call("signal", process=self.number, number=number))
        except ClientError:
            return False

    def pause(self) -> bool:
        """Send SIGSTOP to the process and its children, and wait until it is paused; return False if it is gone."""
        return bool(self.worker.call("pause", process=self.number))

    def wait(self) -> int | None:
        """Wait for the end. Returns the exit code, None if the worker is gone."""
        self._ended.wait()
        return self._code

    def last_lines(self) -> list[str]:
        """Return the last lines of the log; of a worker that is gone, why."""
        if not self._ended.is_set():
            with suppress(ClientError):
                lines: list[str] = self.worker.call("last_lines", process=self.number)
                return lines
        return self._last_lines


class RemoteRows:
    """The rows that clients wrote on a worker; see `chaos.clients.checkpoint.WrittenRows`."""

    def __init__(self, worker: Worker, ledger: Path) -> None:
        self._worker, self.ledger = worker, ledger

    def _ask(self, what: str, *arguments: object) -> Any:
        return self._worker.call("written", LONG_CALL_S, what=what, arguments=arguments)

    def checkpoint_of(self, client: str, stored: bool = False) -> dict[str, int]:
        """Return the next offset of each `topic/partition`."""
        found: dict[str, int] = self._ask("checkpoint_of", client, stored)
        return found

    def next_seq_of(self, client: str) -> int:
        """Return the seq after the highest one in the rows of a producer."""
        return int(self._ask("next_seq_of", client))

    def first_unacked_of(self, client: str) -> int:
        """Return the first seq of a producer without an acknowledged row."""
        return int(self._ask("first_unacked_of", client))

    def incarnations(self, client: str) -> list[int]:
        """Return the numbers of the incarnations of a client that wrote rows."""
        found: list[int] = self._ask("incarnations", client)
        return found


class Worker:
    """One worker. lost: why it is gone, empty while it is there. Its methods are thread-safe."""

    def __init__(self, hello: Frame, channel: Channel) -> None:
        self.name = worker_name(hello["number"])
        self.host, self.machine, self.pid = str(hello["host"]), str(hello["machine"]), int(hello["pid"])
        self.lost = ""
        self._channel = channel
        self.ledger = Path(hello["ledger"])
        self._rows = RemoteRows(self, self.ledger)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[Frame]] = {}
        self._processes: dict[int, RemoteProcess] = {}
        self._ending = False
        threading.Thread(target=self._listen, name=self.name, daemon=True).start()

    @property
    def written(self) -> RemoteRows:
        """The rows that clients wrote there."""
        return self._rows

    def describe(self) -> str:
        """Return name and machine."""
        return f"{self.name} (process {self.pid} on {self.host})"

    def prepare(self, libraries: Iterable[Client]) -> None:
        """Install client libraries, unless they are there. Raises `ClientError`."""
        self.call("prepare", LONG_CALL_S, libraries=[library.model_dump() for library in libraries])

    def start(self, spec: ClientSpec, library: Client, log: Path, env: Mapping[str, str]) -> RemoteProcess:
        """Start the program of a spec. Raises `ClientError`."""
        assert not env, "the rules of a fleet refuse faults that need it"
        number = next(self._numbers)
        process = RemoteProcess(self, number, log)
        with self._lock:  # the first event may arrive before the answer
            self._processes[number] = process
        given, runs = spec.model_dump(mode="json"), library.model_dump()
        process.pid = self.call("start", process=number, spec=given, library=runs, log=log.name)
        return process

    def measure(self, meters: Iterable[Meter]) -> None:
        """No-op: the agent measures."""

    def call(self, name: str, timeout_s: float = CALL_S, **arguments: object) -> Any:
        """Let the agent do something, and return what it answers. Raises `ClientError` with its reason, or if it is
        gone.
        """
        number, answer = next(self._numbers), queue.SimpleQueue[Frame]()
        with self._lock:
            if self.lost:
                raise ClientError(self.lost)
            self._answers[number] = answer
        try:
            self._send({"call": name, "n": number, "arguments": arguments})
            frame = answer.get(timeout=timeout_s)
        except queue.Empty:
            raise ClientError(f"{self.describe()} did not answer to {name} within {timeout_s:g} s") from None
        finally:
            with self._lock:
                self._answers.pop(number, None)
        if "error" in frame:
            raise ClientError(frame["error"])
        return frame["value"]

    def order(self, name: str, **arguments: object) -> None:
        """Let the agent do something without waiting for it. Raises `ClientError` if it is gone."""
        self._send({"call": name, "n": next(self._numbers), "arguments": arguments})

    def _send(self, frame: Frame) -> None:
        try:
            self._channel.send(frame)
        except OSError:
            self.lose("its connection ended")
            raise ClientError(self.lost) from None

    def _listen(self) -> None:
        try:
            while True:
                frame = self._channel.receive(SILENCE_S)
                if frame is None:
                    self.lose(f"it was silent for {SILENCE_S:g} s")
                    return
                self._take(frame)
        except (OSError, EOFError, ValueError):
            self.lose("its connection ended")

    def _take(self, frame: Frame) -> None:
        with self._lock:
            answer, process = self._answers.get(frame.get("answers", 0)), self._processes.get(frame.get("process", 0))
        if answer:
            answer.put(frame)
        elif process:
            process.receive(frame)
            if "line" not in frame:
                with self._lock:
                    del self._processes[frame["process"]]

    def lose(self, reason: str) -> None:
        """Give the worker up: each of its clients has ended, and nobody knows how."""
        with self._lock:
            if self.lost or self._ending:
                return
            self.lost = f"{self.describe()} is gone: {reason}"
            processes, answers = list(self._processes.values()), list(self._answers.values())
            self._processes.clear()
        for process in processes:
            process.receive({"code": None, "log": [self.lost]})
        for answer in answers:
            answer.put({"error": self.lost})
        self._channel.close()

    def end(self) -> None:
        """Let the agent end; it kills clients that still run."""
        self._ending = True
        with suppress(ClientError):
            self.order("end")
