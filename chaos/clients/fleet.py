"""The fleet: all clients of a run, started, followed, ordered, killed and brought back."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from chaos.clients.confluent import environment
from chaos.clients.roster import Roster
from chaos.clients.specs import MODULES, Entry, SpecBuilder, process_mates
from chaos.clients.state import ClientState, UnexpectedExit
from chaos.errors import ClientError
from chaos.ledger.writer import TableWriter
from chaos.processes import process
from chaos.processes.process import ProcessId, spawn
from chaos.run.directory import Run
from chaos.run.events import now_us
from chaos.scenario.producers import Processor, Producer
from chaos.scenario.resolve import Resolved
from chaos.wait import wait_until

KILL_TIMEOUT_S = 10.0


class Fleet(Roster):
    """The clients of one run. Leaving the context kills whatever still runs.

    Methods that name a client raise `ClientError` if there is no such client, or it is gone.
    """

    def __init__(self, run: Run, resolved: Resolved, bootstrap: str) -> None:
        super().__init__(resolved.scenario)
        self._run = run
        self._specs = SpecBuilder(run, resolved, bootstrap)
        self._owner = ProcessId.current()
        self._env = environment.prepare(resolved.scenario.clients.confluent_kafka)
        self._lifecycle = TableWriter(run.ledger, "lifecycle", "fleet")
        self._unexpected: list[UnexpectedExit] = []
        self.clock_zero_us = 0
        """When the first client was started: what start positions in time count from."""

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.kill_all()
        self._lifecycle.close()

    def start_consumers(self) -> None:
        """Start every consumer and processor of the scenario, and the processes of the producers, which hold still.

        Returns when all have told that they run.
        """
        self._start_all([*self._scenario.consumers, *self._scenario.processors, *self._scenario.producers])

    def start_producers(self) -> None:
        """Let every producer send; those without a process get one first."""
        self._start_all(self._scenario.producers)
        for client in [c for e in self._scenario.producers for c in self.clients(e.name)]:
            self.order(client, {"do": "start"})

    def _start_all(self, entries: Sequence[Entry]) -> None:
        """Start the clients of these entries that have no process yet, but for those that join later."""
        later = self._scenario.held_back()
        wanted = [c for e in entries for c in self.clients(e.name) if c not in later]
        for client in wanted:
            if client not in self._lives:  # it may have come with another one, in the same process
                self._start(client)
        self._wait_started([self.state(c) for c in wanted])

    def _start(self, client: str) -> list[ClientState]:
        """Start the process of a client; returns the states of all that live in it."""
        with self._lock:
            self.clock_zero_us = self.clock_zero_us or now_us()
            entry = self._entries[client.rpartition("/")[0]]
            mates = process_mates(entry, client)
            incarnation = len(self._lives.get(client, [])) + 1
            spec = self._specs.build(entry, mates[0], incarnation, self.clock_zero_us)
            role = "producer" if isinstance(entry, Producer | Processor) else "consumer"
            log = self._run.logs / f"{client.replace('/', '-')}.log"
            spawned = spawn(
                [sys.executable, "-m", MODULES[type(spec)], str(self._specs.write(spec))],
                run=self._run,
                role=f"{role} {client}",
                owner=self._owner,
                log=log,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._env,
            )
            states = [ClientState(mate, role, spec.incarnation, spawned, log) for mate in mates]
            for state in states:
                state.mates = states
                self._lives.setdefault(state.client, []).append(state)
        states[0].listen(self._ended)
        return states

    def _wait_started(self, states: list[ClientState]) -> None:
        def all_started() -> bool:
            for state in states:
                if not state.alive and not state.started.is_set():
                    last = " | ".join(state.last_lines()[-3:]) or "nothing in its log"
                    raise ClientError(f"{state.client} did not start: {last}; see {state.log}")
            return all(state.started.is_set() for state in states)

        def why() -> str:
            return f"not started: {', '.join(s.client for s in states if not s.started.is_set())}"

        wait_until(all_started, self._scenario.limits.clients, why, every_s=0.02)

    def end_outlasting(self) -> None:
        """The faults are through: stop the producers that waited for that, each once it has sent its least number."""
        for entry in self._scenario.producers:
            for state in [self.state(c) for c in self.clients(entry.name) if entry.outlast_faults]:
                if state.alive and not state.asked_to_end and state.count("sent") >= entry.records:
                    self._order_to_stop(state)

    def end_producers(self) -> None:
        """The load was given up: order every producer to stop, however much it has sent."""
        for state in self._producer_states():
            if state.alive and not state.asked_to_end:
                self._order_to_stop(state)

    def _order_to_stop(self, state: ClientState) -> None:
        state.asked_to_end = True
        try:
            state.order({"do": "stop"})
        except ClientError:  # it ended meanwhile, by itself
            state.asked_to_end = False

    def order(self, client: str, order: dict[str, Any]) -> None:
        """Give a client an order of the protocol, such as `{"do": "slow", "per_record_s": 0.02}`."""
        self.state(client).order(order)

    def crash(self, client: str) -> None:
        """SIGKILL a client, and all that live in its process; returns when its `crashed` row is written."""
        state = self.state(client)
        if not state.alive:
            raise ClientError(f"{client} is gone already; see {state.log}")
        for mate in state.mates:
            mate.killed_for = "crash"
            mate.asked_to_end = True
        state.kill(KILL_TIMEOUT_S)

    def pause(self, client: str) -> None:
        """SIGSTOP a client; returns when it stands still."""
        state = self.state(client)
        if not state.alive or not process.pause(state.spawned.identity):
            raise ClientError(f"{client} is gone and cannot be paused; see {state.log}")

    def resume(self, client: str) -> None:
        """SIGCONT; nothing to do for one that is not paused, or is gone."""
        process.cont(self.state(client).spawned.identity)

    def leave(self, client: str, timeout_s: float) -> None:
        """Order a client to stop, and wait until it has left in good order. Raises `ClientError` if it does not."""
        state = self.state(client)
        if not state.alive:
            raise ClientError(f"{client} is gone already; see {state.log}")
        self._order_to_stop(state)
        if not state.gone.wait(timeout_s):
            raise ClientError(f"{client} did not stop within {timeout_s:g} s; see {state.log}")

    def join(self, client: str) -> None:
        """Start a client that was held back; returns when it runs."""
        if client in self._lives:
            raise ClientError(f"{client} was started before")
        self._wait_started(self._start(client))

    def restart(self, client: str) -> None:
        """Start the next life of a client that is gone; returns when it runs."""
        if self.state(client).alive:
            raise ClientError(f"{client} still runs; only a client that is gone can be started again")
        self._wait_started(self._start(client))

    def take_over(self, client: str) -> None:
        """Start the next life of a client that still runs, which is to end that one; returns when it runs."""
        state = self.state(client)
        if not state.alive:
            raise ClientError(f"{client} is gone already; see {state.log}")
        state.superseded = state.asked_to_end = True
        self._wait_started(self._start(client))

    def stop_all(self, timeout_s: float) -> list[str]:
        """Order every client to stop and wait; those that do not in time are killed, and returned."""
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
        """SIGKILL every client that still runs: an emergency, or the end after a failure."""
        for state in self._running():
            state.killed_for = state.killed_for or "the run was ended"
            state.asked_to_end = True
            state.kill(KILL_TIMEOUT_S)

    def _running(self) -> list[ClientState]:
        with self._lock:
            return [life for lives in self._lives.values() for life in lives if life.alive]

    def unexpected_exits(self) -> list[UnexpectedExit]:
        """Every client that ended without having been asked to, so far."""
        with self._lock:
            return list(self._unexpected)

    def _ended(self, state: ClientState) -> None:
        """A process is gone and reaped: write what it could not write itself."""
        if state.asked_to_end and state.exit_code == 0:
            return
        detail: dict[str, Any] = {"exit_code": state.exit_code}
        with self._lock:
            if state.killed_for and state.exit_code == -signal.SIGKILL:
                detail["killed"] = state.killed_for
            elif state.superseded:
                detail |= {"superseded": True, "last_lines": tuple(state.last_lines())}
            else:
                lines = tuple(state.last_lines())
                detail |= {"unexpected": True, "last_lines": lines}
                self._unexpected.append(UnexpectedExit(state.client, state.incarnation, state.exit_code, lines))
            try:
                self._lifecycle.append_rows([state.crashed(detail)])
            except OSError as e:  # most likely what ended the client, too: the disk is full
                state.errors.append(f"its end is not on record: {e}")
