"""The bench: one broker, the program under test, and what the points need to know of both."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import Message, Producer

from chaos.clients.protocol import ClientSpec, Config, Program
from chaos.errors import ClientError, WaitTimeout
from chaos.fleet.process import ClientProcess
from chaos.fleet.roster import ClientState
from chaos.kafka.admin import create_topic
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.kafka.reading import log_consumer, read_to_end
from chaos.ledger.files import ledger_files, read_file
from chaos.ledger.record import Identity, crc_ok, encode, parse, run_token
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd
from chaos.processes.process import ProcessId, spawn
from chaos.processes.scrub import Scrubber
from chaos.run.directory import Run
from chaos.run.events import now_us
from chaos.wait import wait_until

PARTITIONS = 2
START_S = 60.0
"""Longest time to start: a runtime may be slow on a busy machine."""
STEP_S = 60.0
EXIT_S = 15.0
SESSION_MS = 6000
"""session.timeout.ms of members: the next incarnation of a killed one waits this long for its partitions."""
VALUE_SIZE = 128

Row = dict[str, Any]
T = TypeVar("T")


class Broken(Exception):
    """A point that does not hold, with the reason."""


@dataclass(frozen=True)
class Point:
    """One point of the contract. `reason` is why it does not hold; empty if it holds.

    lacks: why the client library cannot do what the point asks for; it is not judged then.
    """

    program: str
    name: str
    reason: str = ""
    reached: bool = True
    lacks: str = ""

    @property
    def holds(self) -> bool:
        """Whether the program was seen to keep this point."""
        return self.reached and not self.reason and not self.lacks


@dataclass(frozen=True)
class Record:
    """A record in the log. `intact` says whether its CRC matches."""

    partition: int
    offset: int
    identity: Identity | None
    intact: bool
    key: bytes | None


def require(holds: bool, reason: str) -> None:
    """Raise `Broken` unless a condition holds."""
    if not holds:
        raise Broken(reason)


class Bench:
    """The program under test on one broker.

    command: returns the command line for a program, without the spec. lacks_setting: returns why a release has no
    setting with this common name; empty if it has it.
    """

    def __init__(
        self,
        run: Run,
        bootstrap: str,
        command: Callable[[Program], Sequence[str]],
        lacks_setting: Callable[[str], str] = lambda name: "",
    ) -> None:
        self.run, self.bootstrap = run, bootstrap
        self.kafka = Kafka(bootstrap)
        self.token = run_token(run.run_id)
        self._command, self._lacks_setting = command, lacks_setting
        self._names = 0
        self._states: list[ClientState] = []

    def known(self, config: Config) -> Config:
        """Return the settings that the release has; the others are not asked of it."""
        return {name: value for name, value in config.items() if not self._lacks_setting(name)}

    def topic(self) -> str:
        """Create a topic with `PARTITIONS` partitions, and return its name."""
        self._names += 1
        name = self.named(f"topic-{self._names}")
        create_topic(self.kafka, name, PARTITIONS, 1, {})
        return name

    def named(self, name: str) -> str:
        """Return a name that only this bench uses on its cluster, for a topic, a group or a transactional.id."""
        return f"{name}-{self.token}"

    def _librdkafka(self, **settings: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 0, **settings}

    def fill(self, topic: str, records: int) -> None:
        """Write records with identities, in turn to the partitions."""
        producer = Producer(self._librdkafka())
        for seq in range(records):
            identity = Identity(self.token, "feed/1", 1, seq, now_us())
            producer.produce(topic, encode(identity, None, b"x" * 40), partition=seq % PARTITIONS)
        if producer.flush(STEP_S):
            raise ClientError("the broker does not take the records of the suite")

    def log(self, topic: str, isolation: str = "read_uncommitted") -> list[Record]:
        """Return the records of a topic. Raises `ClientError` if its end is not reached."""
        found: list[Message] = []
        begins = {TopicPartition(topic, p): 0 for p in range(PARTITIONS)}
        with closing(log_consumer(self._librdkafka(**{"isolation.level": isolation}))) as consumer:
            if read_to_end(consumer, begins, STEP_S, found.append):
                raise ClientError(f"the suite does not reach the end of {topic} within {STEP_S:g} s")
        values = [m.value() or b"" for m in found]
        return [
            Record(m.partition(), m.offset(), parse(value), crc_ok(m.key(), value), m.key())
            for m, value in zip(found, values, strict=True)
        ]

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group by partition."""
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        return {p.number: offset for p, offset in (self.kafka.committed(group, partitions) or {}).items()}

    def common(self, client: str, incarnation: int = 1) -> dict[str, Any]:
        """Return the fields that every spec has."""
        return {
            "run_id": self.run.run_id,
            "run_token": self.token,
            "ledger": self.run.ledger,
            "client": client,
            "incarnation": incarnation,
            "bootstrap": self.bootstrap,
        }

    def start(self, spec: ClientSpec) -> ClientState:
        """Start the program with a spec, and wait until it reports that it runs. Raises `Broken`."""
        path = self.run.path / "clients" / f"{spec.writer.replace('/', '-')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(spec.model_dump_json(indent=1), encoding="utf-8")
        log = self.run.logs / f"{spec.writer.replace('/', '-')}.log"
        try:
            spawned = spawn(
                [*self._command(spec.program), str(path)],
                run=self.run,
                role=f"{spec.role} {spec.client}",
                owner=ProcessId.current(),
                log=log,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        except OSError as e:
            raise Broken(f"the program cannot be started: {e}") from None
        process = ClientProcess(spawned, log, Scrubber())
        state = ClientState(spec.client, spec.role, spec.incarnation, process)
        self._states.append(state)
        state.listen(lambda _: None)
        started = within(START_S, lambda: state.started.is_set() or not state.alive)
        if not state.started.is_set():
            why = "it exited" if started else f"no event started within {START_S:g} s"
            raise Broken(f"{why}; the last lines of its log: {' | '.join(state.last_lines()[-3:]) or 'none'}")
        return state

    def last(self) -> ClientState:
        """Return the program that was started last."""
        return self._states[-1]

    def rows(self, table: str, client: str, incarnation: int = 1) -> list[Row]:
        """Return the rows of a client, without torn ones. Raises `Broken` if a file breaks the rules of the ledger."""
        found: list[Row] = []
        for path in ledger_files(self.run.ledger / table, f"{client.replace('/', '-')}.{incarnation}"):
            end = StreamEnd()
            for batch in read_file(path, TABLES[table], end):
                found += batch.to_pylist()
            if end.refused:
                raise Broken(f"{table}/{path.name}, {end.reason}")
        return found

    def details(self, client: str, event: str) -> list[Row]:
        """Return the details of the lifecycle rows of one event."""
        rows = [r for r in self.rows("lifecycle", client) if r["event"] == event]
        return [json.loads(row["detail"]) for row in rows]

    def end(self) -> None:
        """Kill every program that still runs."""
        for state in self._states:
            if state.alive:
                state.kill(EXIT_S)


def within(timeout_s: float, condition: Callable[[], T]) -> T | None:
    """Wait for a condition. Returns its value, or None after the time."""
    try:
        return wait_until(condition, timeout_s, "not reached", every_s=0.02)
    except WaitTimeout:
        return None


def eventually(condition: Callable[[], object], reason: str | Callable[[], str]) -> None:
    """Wait for a condition. Raises `Broken` with the reason after `STEP_S`."""
    if not within(STEP_S, condition):
        raise Broken(reason if isinstance(reason, str) else reason())


def crash(state: ClientState) -> None:
    """Kill a program as a fault does, and check that nothing of its process group is left."""
    pid = state.process.pid
    state.kill(EXIT_S)

    def gone() -> bool:
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return True
        return False

    require(bool(within(EXIT_S, gone)), f"processes of group {pid} outlive a SIGKILL")


def stop(state: ClientState) -> None:
    """Order a program to stop, and check that it ends with exit code 0."""
    state.order({"do": "stop"})
    require(state.gone.wait(STEP_S), f"it does not end within {STEP_S:g} s after the order to stop")
    require(state.exit_code == 0, f"exit code {state.exit_code} after the order to stop, not 0")


def orphan(state: ClientState) -> None:
    """Close the stdin of a program, and check that it ends by itself, and not as if it had been ordered to."""
    state.process.end_orders()
    require(state.gone.wait(EXIT_S), f"it still runs {EXIT_S:g} s after the end of stdin")
    require(state.exit_code != 0, "exit code 0 after the end of stdin, as after a clean stop")


def refuse(bench: Bench, spec: ClientSpec, name: str) -> None:
    """Start a program with a setting that no library has, and check that it exits and names the setting."""
    try:
        bench.start(spec)
    except Broken as e:
        require("it exited" in str(e), str(e))
        state = bench.last()
        require(state.exit_code != 0, f"exit code 0 although no library has the setting {name}")
        found = any(name in text for text in (*state.errors, *state.last_lines()))
        require(found, f"neither its events nor the end of its log name the setting {name}")
        return
    raise Broken(f"it starts although no library has the setting {name}")


def rubbish(state: ClientState) -> None:
    """Send orders that are none, and check that the program reports and ignores them."""
    before = len(state.errors)
    for line in (b"{\n", b"[1, 2]\n", b'{"do": "dance"}\n'):
        state.process.write(line)
    eventually(
        lambda: len(state.errors) >= before + 3 or not state.alive, "an order that is none leads to no event error"
    )
    require(state.alive, "an order that is none ends the program")
