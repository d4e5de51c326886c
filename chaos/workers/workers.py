"""The workers of a run on the side of the drive: waits for their agents, places clients, and collects the ledgers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Listener

from chaos.clients.specs import process_mates
from chaos.errors import AftershockError, ClientError, WaitTimeout
from chaos.ledger import store
from chaos.processes.ports import HOST
from chaos.processes.process import ProcessId, Spawned, spawn, wait_gone
from chaos.run.directory import Run
from chaos.run.events import now_us
from chaos.scenario.model import Scenario
from chaos.wait import wait_until
from chaos.workers.clock import ClockComparison, Offset
from chaos.workers.connection import SILENCE_S, TIMEOUT_S, Address, Channel, publish, withdraw
from chaos.workers.delivery import Delivery, Manifest
from chaos.workers.names import machine_id, worker_name
from chaos.workers.remote import LONG_CALL_S, Worker

ADDRESS = "AFTERSHOCK_FLEET_ADDRESS"
"""An environment variable: the address of this machine at which workers reach the drive; loopback if not set."""
TIMEOUT = "AFTERSHOCK_FLEET_TIMEOUT_S"
"""An environment variable: seconds to wait for workers that somebody else starts."""
CLOCK_EVERY_S = 1.0
EXCHANGES = 5
"""Number of exchanges for a comparison, so that one that another process delays does not make it uncertain."""
EXCHANGE_EVERY_S = 0.01
KNOWN_US = 5_000
"""Uncertainty from which on a clock counts as known before the first client starts."""
KNOWN_EVERY_S = 0.05
KNOWN_TIMEOUT_S = 10.0
ANSWER_S = 30.0
END_S = 20.0

Note = Callable[[str, str, object], None]
"""Records entity, key and value in the table `cluster`."""


class Workers:
    """The workers of a run. Entering waits for all of them; leaving ends them. Raises `ClientError`.

    store: where the large tables of the ledger go; None: into the run directory.
    start: whether this process starts them, on this machine; else the tasks of the DAG do.
    """

    def __init__(self, run: Run, scenario: Scenario, start: bool) -> None:
        assert scenario.fleet is not None  # the caller checked it
        self._run, self._scenario, self._count = run, scenario, scenario.fleet.workers
        self._start = start
        self._by_number: dict[int, Worker] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._spawned: list[Spawned] = []
        self._placed = dict(place(scenario, self._count))
        self.store = store.configured(run.run_id)

    def __enter__(self) -> Workers:
        try:
            host = os.environ.get(ADDRESS) or HOST
            try:
                self._listener = Listener((host, 0), backlog=self._count)
            except OSError as e:
                raise ClientError(f"the drive cannot listen at {host} ({e.strerror}): correct {ADDRESS}") from None
            address = Address(host=host, port=self._listener.address[1])
            self._secret = publish(self._run, address)
            threading.Thread(target=self._accept, name="workers", daemon=True).start()
            if self._start:
                self._spawn()
            self._wait()
            self._check_store()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _spawn(self) -> None:
        for number in range(1, self._count + 1):
            argv = [sys.executable, "-m", "chaos.workers", str(self._run.path), str(number)]
            log = self._run.logs / f"{worker_name(number)}.log"
            role, owner = worker_name(number), ProcessId.current()
            self._spawned.append(spawn(argv, run=self._run, role=role, owner=owner, log=log, stdin=subprocess.DEVNULL))

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                channel = Channel(self._listener.accept())
            except OSError:  # the other side has gone already
                continue
            threading.Thread(target=self._admit, args=(channel,), name="worker", daemon=True).start()

    def _admit(self, channel: Channel) -> None:
        """Let an agent in that knows the secret, and has a number that no other one has."""
        try:
            channel.prove(self._secret, "drive", "worker")
            hello = channel.hello()
            number = int(hello["number"])
            with self._lock:
                if number in self._by_number or not 1 <= number <= self._count or self._ended.is_set():
                    raise ClientError(f"there is a {worker_name(number)}, or none is needed")
                self._by_number[number] = Worker(hello, channel)
        except (AftershockError, OSError, EOFError, ValueError, KeyError, TypeError):
            channel.close()

    def _wait(self) -> None:
        """Wait until all agents are there."""
        text = os.environ.get(TIMEOUT) or str(TIMEOUT_S)
        try:
            timeout_s = float(text)
        except ValueError:
            raise ClientError(f"{TIMEOUT}={text} is no number of seconds; correct it, or leave it out") from None

        def missing() -> list[str]:
            return [worker_name(n) for n in range(1, self._count + 1) if n not in self._by_number]

        def all_there() -> bool:
            for spawned in self._spawned:
                if not spawned.identity.alive():
                    raise ClientError(f"a worker ended before it connected; see {self._run.logs}/worker-*.log")
            return not missing()

        def why() -> str:
            listed = f"{len(missing())} of {self._count} workers did not connect ({', '.join(missing())})"
            return (
                f"{listed}: each needs a free slot beside that of `drive` (worker_concurrency of Celery, parallelism, "
                f"the pool and the queue of the tasks `clients`), the run directory, and a way to {ADDRESS}"
            )

        wait_until(all_there, timeout_s, why, error=ClientError)
        for worker in self.all:
            if worker.machine != machine_id() and not self._scenario.attached:
                raise ClientError(
                    f"{worker.describe()} is on another machine, and the brokers of the driver "
                    f"{self._scenario.cluster.driver} listen on loopback only: use an existing cluster "
                    "(driver: attached), or put all workers on this machine"
                )

    def _check_store(self) -> None:
        """Raise `ClientError` if the drive or a worker cannot write to the store of the run."""
        if self.store is None:
            return
        self.store.check()
        for worker in self.all:
            try:
                worker.call("check_store", LONG_CALL_S, url=self.store.url)
            except ClientError as e:
                raise ClientError(f"{worker.describe()} cannot put its ledger there: {e}") from None

    @property
    def all(self) -> list[Worker]:
        """All workers, in the order of their numbers."""
        with self._lock:
            return [worker for _, worker in sorted(self._by_number.items())]

    def host_of(self, client: str) -> Worker:
        """Return the worker on which a client runs, in each of its incarnations."""
        return self._by_number[self._placed[client]]

    def check(self) -> None:
        """Raise `ClientError` if a worker is gone, with its clients."""
        for number, worker in sorted(self._by_number.items()):
            if worker.lost:
                clients = ", ".join(c for c, placed in self._placed.items() if placed == number)
                raise ClientError(f"{worker.lost}, and with it the clients {clients}")

    def watch(self, note: Note) -> None:
        """Record machine and clients of each worker, and compare the clocks, until the workers end.

        Returns when each clock is known within `KNOWN_US`, at the latest after `KNOWN_TIMEOUT_S`. Before, no client
        runs, so slow comparisons do no harm, and are not recorded.
        """
        known = []
        for number, worker in sorted(self._by_number.items()):
            entity = f"worker:{worker.name}"
            beside = worker.machine == machine_id()
            note(entity, "host", {"name": worker.host, "pid": worker.pid, "beside_drive": beside})
            note(entity, "clients", [client for client, placed in self._placed.items() if placed == number])
            known.append(threading.Event())
            compared = (worker, note, known[-1])
            threading.Thread(target=self._compare, args=compared, name=f"clock {entity}", daemon=True).start()
        until = time.monotonic() + KNOWN_TIMEOUT_S
        for clock_known in known:
            clock_known.wait(max(0.0, until - time.monotonic()))
            clock_known.set()

    def _compare(self, worker: Worker, note: Note, known: threading.Event) -> None:
        clock = ClockComparison()
        while not worker.lost:
            try:
                best = self._exchange(worker, clock)
            except ClientError:
                worker.lose(f"it did not answer for {SILENCE_S:g} s")
                break
            if known.is_set() or best.uncertainty_us <= KNOWN_US:
                with suppress(AftershockError, OSError, ValueError):  # the observer has ended
                    note(f"worker:{worker.name}", "clock", [best.ahead_us, best.uncertainty_us])
                known.set()
            if self._ended.wait(CLOCK_EVERY_S if known.is_set() else KNOWN_EVERY_S):
                break
        known.set()

    def _exchange(self, worker: Worker, clock: ClockComparison) -> Offset:
        """Ask a worker for its time, several times, and return the best offset. Raises `ClientError`."""
        for _ in range(EXCHANGES):
            began_ns = time.monotonic_ns()  # first: a delay between the two is in the round trip
            asked_us = now_us()
            shown_us = int(worker.call("clock", SILENCE_S))
            best = clock.add(asked_us, shown_us, (time.monotonic_ns() - began_ns) // 1000)
            self._ended.wait(EXCHANGE_EVERY_S)
        return best

    def collect(self) -> tuple[list[Delivery], dict[str, str]]:
        """Return the ledgers that the workers put into the run, and why that of another is missing."""
        found: list[Delivery] = []
        missing: dict[str, str] = {}

        def fetch(worker: Worker) -> Delivery:
            url = self.store.url if self.store else ""
            manifest = Manifest.model_validate(worker.call("deliver", LONG_CALL_S, store=url))
            return Delivery(self._run, worker.name, manifest, self.store)

        with ThreadPoolExecutor(self._count) as pool:
            for worker, future in [(w, pool.submit(fetch, w)) for w in self.all]:
                try:
                    found.append(future.result())
                except (AftershockError, ValueError) as e:
                    missing[worker.name] = f"{e} (what it wrote stays in {worker.ledger} on {worker.host})"
        return found, missing

    def forget(self) -> None:
        """Let the workers remove the ledgers, which the run directory has now."""
        for worker in self.all:
            with suppress(ClientError):
                worker.call("forget")

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        withdraw(self._run)
        for worker in self.all:
            worker.end()
        if hasattr(self, "_listener"):
            with suppress(OSError):  # ends an accept that waits; a close does not
                socket.create_connection(self._listener.address, ANSWER_S).close()
            self._listener.close()
        for spawned in self._spawned:
            with suppress(WaitTimeout):
                wait_gone([spawned.identity], END_S)
            spawned.signal_group(signal.SIGKILL)
            spawned.wait()


def place(scenario: Scenario, workers: int) -> Iterator[tuple[str, int]]:
    """Yield each client with the number of its worker: the processes of all entries in turn.

    Clients that are threads of one process are together.
    """
    turn = 0
    for entry in scenario.entries:
        count = entry.count if hasattr(entry, "count") else entry.members
        clients = [f"{entry.name}/{number}" for number in range(1, count + 1)]
        for client in clients:
            mates = process_mates(entry, client)
            if client != mates[0]:
                continue
            for mate in mates:
                yield mate, turn % workers + 1
            turn += 1
