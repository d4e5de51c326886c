"""The fleet: all clients of a run, started, followed, ordered, killed and brought back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from chaos.clients.exits import UnexpectedExit
from chaos.clients.protocol import partition_name
from chaos.clients.specs import MODULES, Entry, SpecBuilder
from chaos.clients.state import ClientState
from chaos.cluster import processes
from chaos.cluster.processes import Identity, spawn
from chaos.errors import ClientError
from chaos.events import now_us
from chaos.ledger.writer import TableWriter
from chaos.rundir import RunDir
from chaos.scenario import Assign, Producer, Resolved, StartAt
from chaos.wait import wait_until

KILL_TIMEOUT_S = 10.0


class Fleet:
    """The clients of one run. Its methods may be called from several threads.

    Each client is `<entry>/<number>`, numbered from 1. Counts include the earlier lives of a client; those of a life
    that was killed are as it last told them, so they may be short by what it did in its last 100 ms. Leaving the
    context kills whatever still runs. Methods that name a client raise `ClientError` if there is no such client, or
    it is gone.
    """

    def __init__(self, run: RunDir, resolved: Resolved, bootstrap: str) -> None:
        self._run, self._scenario = run, resolved.scenario
        self._specs = SpecBuilder(run, resolved, bootstrap)
        self._owner = Identity.current()
        self._lock = threading.RLock()
        self._lives: dict[str, list[ClientState]] = {}
        self._entries: dict[str, Entry] = {e.name: e for e in (*self._scenario.producers, *self._scenario.consumers)}
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
        """Start every consumer of the scenario, and the processes of the producers, which hold still.

        Returns when all have told that they run.
        """
        self._start_all([*self._scenario.consumers, *self._scenario.producers])

    def start_producers(self) -> None:
        """Let every producer send; those without a process get one first."""
        self._start_all(self._scenario.producers)
        for client in [c for e in self._scenario.producers for c in self.clients(e.name)]:
            self.order(client, {"do": "start"})

    def _start_all(self, entries: Sequence[Entry]) -> None:
        """Start the clients of these entries that have no process yet, but for those that join later."""
        clients = [c for e in entries for c in self.clients(e.name) if c not in self._scenario.held_back()]
        self._wait_started([self._start(c) for c in clients if c not in self._lives])

    def clients(self, entry: str) -> list[str]:
        """The ids of an entry's clients."""
        if entry not in self._entries:
            raise ClientError(f"the scenario has no client entry {entry!r} (known: {', '.join(self._entries)})")
        found = self._entries[entry]
        count = found.count if isinstance(found, Producer) else found.members
        return [f"{entry}/{number}" for number in range(1, count + 1)]

    def present(self, entry: str) -> list[str]:
        """The ids of an entry's clients that have been started: one that is to join later has not."""
        with self._lock:
            return [client for client in self.clients(entry) if client in self._lives]

    def _start(self, client: str) -> ClientState:
        with self._lock:
            self.clock_zero_us = self.clock_zero_us or now_us()
            lives = self._lives.setdefault(client, [])
            entry = self._entries[client.rpartition("/")[0]]
            spec = self._specs.build(entry, client, len(lives) + 1, self.clock_zero_us)
            role = "producer" if isinstance(entry, Producer) else "consumer"
            log = self._run.logs / f"{client.replace('/', '-')}.log"
            spawned = spawn(
                [sys.executable, "-m", MODULES[type(spec)], str(self._specs.write(spec))],
                run=self._run,
                role=f"{role} {client}",
                owner=self._owner,
                log=log,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            state = ClientState(client, role, spec.incarnation, spawned, log)
            lives.append(state)
        state.listen(self._ended)
        return state

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

    def state(self, client: str) -> ClientState:
        """The present or last life of a client."""
        with self._lock:
            lives = self._lives.get(client)
            if not lives:
                raise ClientError(
                    f"there is no client {client} (known: {', '.join(sorted(self._lives)) or 'none yet'})"
                )
            return lives[-1]

    def _lives_of(self, entry: str) -> list[ClientState]:
        with self._lock:
            return [life for client in self.clients(entry) for life in self._lives.get(client, [])]

    def wait_assigned(self, timeout_s: float) -> None:
        """Wait until the members of each group together hold every partition, each partition once, and every assign
        consumer holds all of its own (one that waits for a time to come only has to run). Raises `WaitTimeout`.
        """
        wait_until(
            lambda: not self._unassigned(),
            timeout_s,
            lambda: f"not all partitions are assigned: {'; '.join(self._unassigned())}",
        )

    def _unassigned(self) -> list[str]:
        missing = []
        for entry in self._scenario.consumers:
            if isinstance(entry, Assign) and isinstance(entry.start, StartAt) and entry.start.timestamp is not None:
                continue
            held = {c: self.state(c).assigned() for c in self.present(entry.name)}
            there = [self._scenario.topic(t) for t in entry.topics if not self._scenario.topic(t).later]
            wanted = sorted(partition_name((t.name, p)) for t in there for p in range(t.partitions))
            if isinstance(entry, Assign):
                missing += [
                    f"{c} holds {len(has)} of {len(wanted)}" for c, has in held.items() if sorted(has) != wanted
                ]
            elif sorted(p for has in held.values() for p in has) != wanted:
                missing.append(f"{entry.name}: {', '.join(f'{c} holds {len(has)}' for c, has in held.items())}")
        return missing

    def total_sent(self) -> int:
        """Records that all producers together have given to their client library."""
        return self._total("sent")

    def total_acked(self) -> int:
        """Records that were acknowledged to all producers together."""
        return self._total("acked")

    def _total(self, count: str) -> int:
        return sum(life.count(count) for p in self._scenario.producers for life in self._lives_of(p.name))

    def producers_done(self) -> bool:
        """Whether every producer has sent all it has to send, and has an answer or a time-out for each record."""
        states = [self.state(c) for p in self._scenario.producers for c in self.clients(p.name)]
        return all(s.progress().get("done", False) or (s.asked_to_end and not s.alive) for s in states)

    def end_outlasting(self) -> None:
        """The faults are through: stop the producers that waited for that, each once it has sent its least number."""
        for entry in self._scenario.producers:
            for state in [self.state(c) for c in self.clients(entry.name) if entry.outlast_faults]:
                if state.alive and not state.asked_to_end and state.count("sent") >= entry.records:
                    self._order_to_stop(state)

    def _order_to_stop(self, state: ClientState) -> None:
        state.asked_to_end = True
        try:
            state.order({"do": "stop"})
        except ClientError:  # it ended meanwhile, by itself
            state.asked_to_end = False

    def delivered(self, entry: str) -> int:
        """Records processed by all clients of a consumer entry; redeliveries count again."""
        return sum(life.count("delivered") for life in self._lives_of(entry))

    def positions(self, reader: str) -> dict[str, int]:
        """Next offset after the last processed record, by `topic/partition`, of what is held now.

        A reader is one client (`replay/1`), or an entry: then it is the group, and a partition that two members claim
        is as far as the one that is further back.
        """
        clients = [reader] if "/" in reader else self.present(reader)
        found: dict[str, int] = {}
        for client in clients:
            state = self.state(client)
            for partition, offset in state.positions().items():
                found[partition] = min(offset, found.get(partition, offset))
        return found

    def order(self, client: str, order: dict[str, Any]) -> None:
        """Give a client an order of the protocol, such as `{"do": "slow", "per_record_s": 0.02}`."""
        self.state(client).order(order)

    def crash(self, client: str) -> None:
        """SIGKILL a client; returns when it is gone and its `crashed` row is written."""
        state = self.state(client)
        if not state.alive:
            raise ClientError(f"{client} is gone already; see {state.log}")
        state.killed_for = "crash"
        state.asked_to_end = True
        state.kill(KILL_TIMEOUT_S)

    def pause(self, client: str) -> None:
        """SIGSTOP a client; returns when it stands still."""
        state = self.state(client)
        if not state.alive or not processes.pause(state.spawned.identity):
            raise ClientError(f"{client} is gone and cannot be paused; see {state.log}")

    def resume(self, client: str) -> None:
        """SIGCONT; nothing to do for one that is not paused, or is gone."""
        processes.cont(self.state(client).spawned.identity)

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
        self._wait_started([self._start(client)])

    def restart(self, client: str) -> None:
        """Start the next life of a client that is gone; returns when it runs."""
        if self.state(client).alive:
            raise ClientError(f"{client} still runs; only a client that is gone can be started again")
        self._wait_started([self._start(client)])

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
            else:
                lines = tuple(state.last_lines())
                detail |= {"unexpected": True, "last_lines": lines}
                self._unexpected.append(UnexpectedExit(state.client, state.incarnation, state.exit_code, lines))
            row = {
                "client": state.client,
                "role": state.role,
                "incarnation": state.incarnation,
                "event": "crashed",
                "detail": json.dumps(detail),
                "at_us": now_us(),
            }
            try:
                self._lifecycle.append_rows([row])
            except OSError as e:  # most likely what ended the client, too: the disk is full
                state.errors.append(f"its end is not on record: {e}")
