"""The fleet: starts, orders, kills and restarts the clients of a run."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from chaos.clients.checkpoint import incarnations
from chaos.clients.jvm import remove_temporary_of_flink
from chaos.clients.protocol import lifecycle_row
from chaos.errors import ClientError
from chaos.fleet.process import ClientClocks, Launcher
from chaos.fleet.roster import ClientState, Roster
from chaos.fleet.session import SessionCluster
from chaos.fleet.specs import SpecBuilder, process_mates
from chaos.kafka.security import Endpoint, Security
from chaos.ledger.stream import TableWriter
from chaos.preload.libraries import Skew
from chaos.processes.process import ProcessId
from chaos.processes.usage import read_all
from chaos.run.directory import Run
from chaos.run.events import now_us
from chaos.scenario.resolve import Resolved
from chaos.setup.clients import Assign, Entry, Producer
from chaos.wait import wait_until

KILL_TIMEOUT_S = 10.0
METER_EVERY_S = 0.5


class Fleet(Roster):
    """The clients of one run. Leaving the context kills every client that still runs.

    They connect to `bootstrap`, or each process to the addresses that `front` returns for its (first) client.
    databases: see `SpecBuilder`.

    Methods that take a client raise `ClientError` if it does not exist or is gone.
    """

    def __init__(
        self,
        run: Run,
        resolved: Resolved,
        bootstrap: str,
        security: Security | None = None,
        front: Callable[[str], str] | None = None,
        databases: Mapping[str, str] | None = None,
        beside: Mapping[str, Endpoint] | None = None,
    ) -> None:
        super().__init__(resolved.scenario)
        self._run = run
        self._specs = SpecBuilder(run, resolved, front or (lambda _: bootstrap), security, databases, beside)
        self._owner = ProcessId.current()
        self._launcher = Launcher(run, self._owner, resolved.scenario.hides_payloads)
        self._launcher.prepare(resolved.scenario.client_libraries)
        self._lifecycle = TableWriter(run.ledger, "lifecycle", "fleet")
        self._unexpected: list[ClientState] = []
        self._ended = threading.Event()
        self._sessions: dict[str, SessionCluster] = {}
        self._clocks = ClientClocks(self._specs.folder, resolved.scenario.skewed_clients)
        self.clock_zero_us = 0
        """Time of the first start of a client; start times in the scenario count from it."""

    def __enter__(self) -> Fleet:
        threading.Thread(target=self._measure, name="usage", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self.kill_all()
        self._lifecycle.close()

    def _measure(self) -> None:
        """Read CPU time and memory of all processes until the fleet ends: a process that was killed shows none."""
        while not self._ended.wait(METER_EVERY_S):
            read_all(state.meter for state in self._running())

    def start_consumers(self) -> None:
        """Start all consumers and processors, and the producers, which wait for the order to start.

        Returns when every client reported that it runs.
        """
        self._start_all([*self._scenario.consumers, *self._scenario.processors, *self._scenario.producers])

    def start_producers(self) -> None:
        """Order every producer to start; a producer without a process is started first."""
        self._start_all(self._scenario.producers)
        for client in [c for e in self._scenario.producers for c in self.present(e.name)]:
            self.order(client, {"do": "start"})

    def _start_all(self, entries: Sequence[Entry]) -> None:
        """Start the clients of these entries that have no process yet, except clients that join later."""
        later = self._scenario.held_back()
        clients = [c for e in entries for c in self.clients(e.name) if c not in later]
        self._start_sessions({c.rpartition("/")[0] for c in clients})
        for client in clients:
            if client not in self._incarnations:  # a mate in the same process may have started it
                self._start(client)
        self._wait_started([self.state(c) for c in clients])

    def _start_sessions(self, entries: Iterable[str]) -> None:
        """Start the session clusters of these entries that do not run yet, all at once, and wait for them."""
        started = []
        for entry in [self._entries[name] for name in sorted(entries) if name not in self._sessions]:
            if isinstance(entry, Assign) and entry.client.session:
                installed = self._launcher.installed[self._scenario.client_of(entry)]
                self._sessions[entry.name] = SessionCluster(self._run, entry, installed, self._owner)
                started.append(self._sessions[entry.name])
        for session in started:
            session.wait_ready(self._scenario.limits.clients)

    def session(self, entry: str) -> SessionCluster:
        """Return the session cluster of an entry. Raises `ClientError` if it has none that runs."""
        if entry not in self._sessions:
            raise ClientError(f"{entry} has no session cluster, or none of its clients was started yet")
        return self._sessions[entry]

    def check(self) -> None:
        """Raise `ClientError` if a process of a session cluster, or a client, ended that nobody ended."""
        for session in list(self._sessions.values()):
            session.check()
        if died := self.deaths():
            raise ClientError(died[0].describe_exit())

    def _start(self, client: str) -> list[ClientState]:
        """Start the process of a client. Returns the states of all clients in it."""
        with self._lock:
            self.clock_zero_us = self.clock_zero_us or now_us()
            entry = self._entries[client.rpartition("/")[0]]
            mates = process_mates(entry, client)
            session = self._sessions.get(entry.name)
            incarnation = self._next_incarnation(client, session is not None)
            address = session.job_manager.address if session else None
            spec = self._specs.build(entry, mates[0], incarnation, self.clock_zero_us, address)
            log = self._run.logs / f"{client.replace('/', '-')}.log"
            library = self._scenario.client_of(entry)
            process = self._launcher.start(spec, library, log, self._clocks.environment(mates[0]))
            states = [ClientState(mate, spec.role, spec.incarnation, process) for mate in mates]
            for state in states:
                state.mates = states
                self._incarnations.setdefault(state.client, []).append(state)
        states[0].listen(self._record_exit)
        return states

    def _next_incarnation(self, client: str, has_attempts: bool) -> int:
        """Return the number of the next incarnation; a job in a session cluster used some for its attempts."""
        used = incarnations(self._run.ledger, client) if has_attempts else []
        return max(len(self._incarnations.get(client, [])), *used, 0) + 1

    def _wait_started(self, states: list[ClientState]) -> None:
        def all_started() -> bool:
            for state in states:
                if not state.alive and not state.started.is_set():
                    raise ClientError(state.describe_exit())
            return all(state.started.is_set() for state in states)

        def why() -> str:
            return f"not started: {', '.join(s.client for s in states if not s.started.is_set())}"

        wait_until(all_started, self._scenario.limits.clients, why, every_s=0.02, during=self.check)

    def end_outlasting(self) -> None:
        """Stop the producers that outlast the faults, each once it has sent its minimum number of records."""
        for entry in self._scenario.producers:
            for state in [self.state(c) for c in self.present(entry.name) if entry.outlast_faults]:
                if state.alive and not state.asked_to_end and state.count("sent") >= entry.records:
                    self._order_to_stop(state)

    def end_producers(self) -> None:
        """Order every producer to stop, whatever it has sent."""
        for state in self._producer_states():
            if state.alive and not state.asked_to_end:
                self._order_to_stop(state)

    def _order_to_stop(self, state: ClientState) -> None:
        state.asked_to_end = True
        try:
            state.order({"do": "stop"})
        except ClientError:  # it exited in the meantime
            state.asked_to_end = False

    def order(self, client: str, order: dict[str, Any]) -> None:
        """Send a client an order of the protocol, such as `{"do": "slow", "per_record_s": 0.02}`."""
        self.state(client).order(order)

    def crash(self, client: str) -> None:
        """Kill the process of a client with SIGKILL. Returns when the `crashed` rows are written."""
        state = self._running_state(client)
        for mate in state.mates:
            mate.killed_for = "crash"
            mate.asked_to_end = True
        state.kill(KILL_TIMEOUT_S)

    def pause(self, client: str) -> None:
        """Pause a client with SIGSTOP. Returns when the process is stopped."""
        state = self.state(client)
        if not state.alive or not state.process.pause():
            raise ClientError(f"{client} is gone and cannot be paused; see {state.log}")

    def resume(self, client: str) -> None:
        """Resume a client with SIGCONT; no-op if it is not paused or is gone."""
        self.state(client).process.signal(signal.SIGCONT)

    def set_clock(self, client: str, skew: Skew) -> None:
        """Change the clock of the process of a client, running or not."""
        try:
            self._clocks.set(self._first_mate(client), skew)
        except OSError as e:
            raise ClientError(f"the clock of {client} could not be set: {e}") from None

    def clock_ahead_s(self, client: str) -> float:
        """Return how many seconds the clock of a client is ahead now, as it was set."""
        try:
            return self._clocks.ahead_s(self._first_mate(client))
        except OSError as e:
            raise ClientError(f"the clock of {client} is not known: {e}") from None

    def _first_mate(self, client: str) -> str:
        return self.state(client).mates[0].client

    def leave(self, client: str, timeout_s: float) -> None:
        """Order a client to stop and wait for its exit. Raises `ClientError` after `timeout_s`."""
        state = self._running_state(client)
        self._order_to_stop(state)
        if not state.gone.wait(timeout_s):
            raise ClientError(f"{client} did not stop within {timeout_s:g} s; see {state.log}")

    def join(self, client: str) -> None:
        """Start a client that the scenario holds back. Returns when it runs."""
        if client in self._incarnations:
            raise ClientError(f"{client} was started before")
        entry = client.rpartition("/")[0]
        self._start_sessions([entry])
        self._wait_started(self._start(client))
        if isinstance(self._entries[entry], Producer):  # it waits for the order, as every first incarnation
            self.order(client, {"do": "start"})

    def restart(self, client: str) -> None:
        """Start the next incarnation of a client that is gone. Returns when it runs."""
        if self.state(client).alive:
            raise ClientError(f"{client} still runs; only a client that is gone can be restarted")
        self._wait_started(self._start(client))

    def take_over(self, client: str) -> None:
        """Start the next incarnation of a running client, which fences that one. Returns when it runs."""
        state = self._running_state(client)
        state.superseded = state.asked_to_end = True
        self._wait_started(self._start(client))

    def _running_state(self, client: str) -> ClientState:
        state = self.state(client)
        if not state.alive:
            raise ClientError(f"{client} is gone already; see {state.log}")
        return state

    def stop_all(self, timeout_s: float) -> list[str]:
        """Order every client to stop, wait, and kill clients that still run after `timeout_s`. Returns the killed."""
        running = self._running()
        for state in running:
            self._order_to_stop(state)
        deadline = time.monotonic() + timeout_s
        hung = [state for state in running if not state.gone.wait(max(0.0, deadline - time.monotonic()))]
        for state in hung:
            state.killed_for = f"did not stop within {timeout_s:g} s"
            state.kill(KILL_TIMEOUT_S)
        return [state.client for state in hung]

    def kill_all(self) -> None:
        """Kill every client and every session cluster that still runs, with SIGKILL."""
        for state in self._running():
            state.killed_for = state.killed_for or "the run was ended"
            state.asked_to_end = True
            state.kill(KILL_TIMEOUT_S)
        for session in self._sessions.values():
            session.kill_all()
        remove_temporary_of_flink(self._specs.folder)

    def _running(self) -> list[ClientState]:
        with self._lock:
            return [state for states in self._incarnations.values() for state in states if state.alive]

    def unexpected_exits(self) -> list[ClientState]:
        """Return the incarnations that exited without an order or a kill, so far."""
        with self._lock:
            return list(self._unexpected)

    def deaths(self) -> list[ClientState]:
        """Return the unexpected exits, so far, that the scenario does not demand (`expect.client_errors`)."""
        demands = self._scenario.expect.demands_error
        return [s for s in self.unexpected_exits() if not demands(s.client.rpartition("/")[0], s.last_error)]

    def _record_exit(self, state: ClientState) -> None:
        """Write the `crashed` row of a client that did not stop by order, and the row `usage` of its process."""
        if not (state.asked_to_end and state.exit_code == 0):
            self._record_crash(state)
        if state is state.mates[0]:
            self._record_usage(state)

    def _record_crash(self, state: ClientState) -> None:
        detail: dict[str, Any] = {"exit_code": state.exit_code}
        with self._lock:
            if state.killed_for and state.exit_code == -signal.SIGKILL:
                detail["killed"] = state.killed_for
            else:
                state.exit_lines = state.last_lines()
                detail |= {"superseded" if state.superseded else "unexpected": True, "last_lines": state.exit_lines}
                detail["error"] = state.own_error()
                if not state.superseded:
                    self._unexpected.append(state)
        self._append(state, "crashed", detail)

    def _record_usage(self, state: ClientState) -> None:
        usage, started = state.meter.total, state.meter.started
        if usage is None:
            return
        records = {name: sum(mate.count(name) for mate in state.mates) for name in ("acked", "delivered")}
        start = {"start_us": started.cpu_us} if started else {}
        self._append(state, "usage", {**asdict(usage), **start, **records})

    def _append(self, state: ClientState, event: str, detail: dict[str, Any]) -> None:
        with self._lock:
            try:
                self._lifecycle.append_rows([lifecycle_row(state.client, state.role, state.incarnation, event, detail)])
            except OSError as e:  # the disk is full, which probably ended the client, too
                state.errors.append(f"its exit could not be recorded: {e}")
