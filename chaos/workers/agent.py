"""The agent of a worker: runs clients as the drive orders, on the disk and with the clock of its machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from chaos.clients.host import METER_EVERY_S, LocalHost, LocalProcess
from chaos.clients.minicluster import remove_temporary
from chaos.clients.protocol import (
    AssignConsumerSpec,
    ClientSpec,
    GroupConsumerSpec,
    ProcessorSpec,
    ProducerSpec,
    ShareConsumerSpec,
)
from chaos.errors import AftershockError, ClientError
from chaos.ledger.store import LedgerStore
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.run.events import now_us
from chaos.scenario.runtimes.choice import Client
from chaos.wait import wait_until
from chaos.workers import delivery
from chaos.workers.connection import SILENCE_S, Address, Channel, Frame, connect, published
from chaos.workers.names import machine_id, worker_name

POLL_S = 1.0
CALLS_AT_ONCE = 8

_SPECS: dict[str, type[ClientSpec]] = {
    str(spec.model_fields["program"].default): spec
    for spec in (AssignConsumerSpec, GroupConsumerSpec, ProcessorSpec, ProducerSpec, ShareConsumerSpec)
}
_CLIENT: TypeAdapter[Client] = TypeAdapter(Client)


def serve(run_dir: Path, number: int, timeout_s: float) -> None:
    """Run the clients of worker `number` of a run until its drive ends. Raises `ClientError`.

    timeout_s: how long the drive may take to begin.
    """
    run = Run(run_dir.absolute())

    def address() -> Address | None:
        return published(run) if run.path.is_dir() else None

    def why() -> str:
        return (
            f"{worker_name(number)} found no drive in {run.path} within {timeout_s:g} s: the run directory is not on "
            "this machine, or the drive did not begin"
        )

    found = wait_until(address, timeout_s, why, every_s=0.1, error=ClientError)
    assert found is not None
    Agent(run, number, connect(run, found)).run()


class Agent:
    """One worker. Calls of the drive are methods with the prefix `do_`; each runs in a thread."""

    def __init__(self, run: Run, number: int, channel: Channel) -> None:
        self._run, self._channel, self._name = run, channel, worker_name(number)
        work = Path(tempfile.mkdtemp(prefix=f"aftershock-{run.run_id}-{self._name}-"))
        self._work = Run(work)
        for needed in (self._work.logs, self._work.ledger):
            needed.mkdir()
        self._host = LocalHost(run, ProcessId.current(), work)
        self._processes: dict[int, LocalProcess] = {}
        self._listeners: list[threading.Thread] = []
        self._parent = os.getppid()
        self._ended = threading.Event()
        self._delivered = False
        channel.hello(
            {
                "number": number,
                "host": socket.gethostname(),
                "machine": machine_id(),
                "pid": os.getpid(),
                "ledger": str(self._work.ledger),
            }
        )

    def run(self) -> None:
        """Obey the drive until it says that this is the end. Raises `ClientError` if it is gone before."""
        threading.Thread(target=self._measure, name="usage", daemon=True).start()
        pool = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="call")
        try:
            reason = self._obey(pool)
        finally:
            self._ended.set()
            self._channel.close()  # first: the drive has to see the end of the worker, not that of each client
            self._kill_all()
            pool.shutdown(wait=False, cancel_futures=True)
            remove_temporary(self._work.path / "clients")
            if self._delivered or not any(self._work.ledger.rglob("*.*")):
                shutil.rmtree(self._work.path, ignore_errors=True)
        if reason:
            kept = f"; its ledger stays in {self._work.path}" if self._work.path.exists() else ""
            raise ClientError(f"{self._name} lost its drive: {reason}{kept}")

    def _obey(self, pool: ThreadPoolExecutor) -> str:
        """Return why the drive is gone, empty if it ended in order."""
        silent_s = 0.0
        while True:
            try:
                frame = self._channel.receive(POLL_S)
            except (OSError, EOFError, ValueError):
                return "the connection ended"
            if os.getppid() != self._parent:
                return "the process that started this worker is gone"
            silent_s = 0.0 if frame else silent_s + POLL_S
            if silent_s >= SILENCE_S:
                return f"it was silent for {SILENCE_S:g} s"
            if frame is None:
                continue
            if frame["call"] == "end":
                return ""
            if frame["call"] == "clock":  # at once: a wait for a thread would look like a slow network
                self._answer(frame, now_us())
            else:
                pool.submit(self._call, frame)

    def _call(self, frame: Frame) -> None:
        method: Callable[..., Any] = getattr(self, f"do_{frame['call']}")
        try:
            self._answer(frame, method(**frame["arguments"]))
        except AftershockError as e:
            self._answer(frame, None, {"error": str(e)})
        except OSError as e:
            self._answer(frame, None, {"error": str(e), "gone": True})
        except Exception as e:  # noqa: BLE001 # the drive has to learn it, or it would wait
            self._answer(frame, None, {"error": f"{type(e).__name__}: {e}"})

    def _answer(self, frame: Frame, value: object, problem: Frame | None = None) -> None:
        with suppress(OSError):  # the loop notices that the drive is gone
            self._channel.send({"answers": frame["n"], "value": value, **(problem or {})})

    def do_prepare(self, libraries: list[dict[str, Any]]) -> None:
        """Install client libraries."""
        self._host.prepare(map(_CLIENT.validate_python, libraries))

    def do_start(self, process: int, spec: dict[str, Any], library: dict[str, Any], log: str) -> int:
        """Start a client, and return its process ID. process: the number that the drive gives it."""
        found = self._host.start(
            _SPECS[spec["program"]].model_validate(spec), _CLIENT.validate_python(library), self._work.logs / log, {}
        )
        self._processes[process] = found
        thread = threading.Thread(target=self._listen, args=(process, found), name=log, daemon=True)
        self._listeners.append(thread)
        thread.start()
        return found.pid

    def _listen(self, number: int, process: LocalProcess) -> None:
        """Report the events and the end of a process."""
        with suppress(OSError):
            for line in process.read_events():
                self._channel.send({"process": number, "line": line.decode("utf-8", "surrogateescape")})
        code = process.wait()
        with suppress(OSError):
            self._channel.send({"process": number, "code": code, "log": process.last_lines(), **self._usage(process)})

    def _usage(self, process: LocalProcess) -> Frame:
        usages = {"total": process.meter.total, "started": process.meter.started}
        return {name: usage and asdict(usage) for name, usage in usages.items()}

    def do_write(self, process: int, line: str) -> None:
        """Write a line to the stdin of a client."""
        try:
            self._processes[process].write(line.encode())
        except ValueError as e:  # it is closed
            raise BrokenPipeError(str(e)) from None

    def do_signal(self, process: int, number: int) -> bool:
        """Send a signal to a client."""
        return self._processes[process].signal(number)

    def do_pause(self, process: int) -> bool:
        """Pause a client."""
        return self._processes[process].pause()

    def do_mark_started(self, process: int) -> None:
        """Keep the usage of a client as that of its start."""
        self._processes[process].meter.mark_started()

    def do_last_lines(self, process: int) -> list[str]:
        """Return the last lines of the log of a client."""
        return self._processes[process].last_lines()

    def do_written(self, what: str, arguments: list[Any]) -> Any:
        """Return what the rows of a client say; what: a method of `WrittenRows`."""
        return getattr(self._host.written, what)(*arguments)

    def do_check_store(self, url: str) -> None:
        """Raise `RunDirError` if this worker cannot write to the store of the run."""
        LedgerStore(url).check()

    def do_deliver(self, store: str) -> dict[str, Any]:
        """Seal the ledger, put it into the run directory and the store, and return the manifest.

        All clients have ended. store: a URL, empty if the run has none.
        """
        place = LedgerStore(store) if store else None
        return delivery.put(self._work, self._run, self._name, place).model_dump()

    def do_forget(self) -> None:
        """The drive has the ledger: it need not stay here."""
        self._delivered = True

    def _measure(self) -> None:
        while not self._ended.wait(METER_EVERY_S):
            self._host.measure([process.meter for process in self._processes.copy().values()])

    def _kill_all(self) -> None:
        for process in self._processes.copy().values():
            process.signal(signal.SIGKILL)
        for thread in self._listeners:
            thread.join(SILENCE_S)
