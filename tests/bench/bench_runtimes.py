"""The client libraries beside librdkafka: start, cost of recording, and the time of a catalogue row.

    python -m tests.bench.bench_runtimes [--records N] [--rounds N] [--rows N] [RUNTIME ...]

Start is the time from the start of a consumer's process to its first row in the ledger, from a warm cache. The bare
loops are in `bare/`: they make a value for each record and count answers and records, with the library's defaults and
the same Java flags. Each round runs the bare loop and our program one after the other, each in a new process; `cost` is
1.25 if recording takes a quarter of the time of the bare loop, in the fastest rounds. `cpu_cost` compares the CPU times
in the same way, from the event `started` on; other load on the machine changes them less. A row is the scenario
`leader-kill`, from the command to the verdict, once with each library in a round. Of Flink and Spark, only the start is
measured.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.clients.choice import Client
from chaos.clients.java.traits import NEWEST as NEWEST_JAVA
from chaos.clients.protocol import AssignConsumerSpec, ClientSpec, CommitSpec, GroupConsumerSpec, ProducerSpec
from chaos.clients.runtime import Installed, prepare
from chaos.clients.sarama.runtime import GO as SARAMA
from chaos.clients.sarama.traits import NEWEST as NEWEST_SARAMA
from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.install.cache import silent
from chaos.install.go import find_go
from chaos.install.jars import CLIENTS, compile_java, compiler, kafka_jars
from chaos.install.java import find_java
from chaos.ledger.files import ledger_files, read_file
from chaos.ledger.record import HEADER_BYTES
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd
from chaos.processes.process import ProcessId
from chaos.run.directory import Run, new_run_id
from tests.bench.bench_clients import follow

ROOT = Path(__file__).parents[2]
BARE = Path(__file__).with_name("bare")
PARTITIONS, VALUE_SIZE = 6, HEADER_BYTES + 100
START_S = 60.0
ROW = "leader-kill"
RUNTIMES = ("java", "sarama", "flink", "spark")
EARLIEST = {"java": {"auto.offset.reset": "earliest"}, "sarama": {"Consumer.Offsets.Initial": "OffsetOldest"}}
"""Where a consumer without a commit begins, in the names of each library."""

Bare = Callable[..., list[str]]
"""Returns the command of a bare loop: bootstrap servers, topic, records, and the group of a consumer."""


def java_bare(folder: Path) -> Bare:
    """Compile the bare loops of kafka-clients."""
    java, jars = str(find_java().path), kafka_jars(NEWEST_JAVA, silent, CLIENTS)
    compile_java(compiler(silent), [BARE / "Bare.java"], sorted(jars.glob("*.jar")), folder).check_returncode()
    ours = prepare(Client(runtime="java"), silent).programs["producer"]
    flags = ours[1 : ours.index("-cp")]
    command = [java, *flags, f"-Dvalue.size={VALUE_SIZE}", "-cp", f"{folder}:{jars}/*", "Bare"]
    return lambda bootstrap, topic, records, *group: [*command, bootstrap, topic, str(records), *group]


def sarama_bare(folder: Path) -> Bare:
    """Compile the bare loops of sarama."""
    go, store = find_go(silent), folder / "go"
    source = folder / "src"
    source.mkdir()
    (source / "bare.go").write_text((BARE / "bare.go").read_text())
    (source / "go.mod").write_text("module bare\n\ngo 1.23\n")
    for arguments in (["get", f"{SARAMA.module}@v{NEWEST_SARAMA}"], ["build", "-o", str(folder / "bare"), "."]):
        done = go.run(arguments, source, store, 600)
        if done.returncode:
            raise RuntimeError(done.stderr)
    size = str(VALUE_SIZE)
    return lambda bootstrap, topic, records, *group: [
        *(str(folder / "bare"), bootstrap, topic, str(records), size),
        *group,
    ]


COMPILE = {"java": java_bare, "sarama": sarama_bare}


@dataclass(frozen=True)
class Taken:
    """Seconds from the first call or batch to the last, and seconds of CPU time."""

    wall_s: float
    cpu_s: float


def _ratio(seconds: dict[str, float]) -> float:
    return round(seconds["ledger"] / seconds["bare"], 2)


class Bench:
    """One broker, and the topic that all consumers read."""

    def __init__(self, bootstrap: str, records: int, folder: Path) -> None:
        self.bootstrap, self.records, self.folder = bootstrap, records, folder
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.filled = self._new_topic()
        self._ours(prepare(Client(), silent), self._producer(self.filled))

    def measure(self, name: str, rounds: int) -> dict[str, Any]:
        """Return the seconds to the first row, and rates and cost of the producer and the consumer of a library."""
        installed = prepare(Client(runtime=name), silent)
        starts = [self._start_s(installed, name) for _ in range(rounds)]
        result: dict[str, Any] = {"first_row_s": round(statistics.median(starts), 2)}
        if name not in COMPILE:
            return result
        (folder := self.folder / name).mkdir()
        bare = COMPILE[name](folder)
        for role in ("produce", "consume"):
            taken: dict[str, list[Taken]] = {"bare": [], "ledger": []}
            for _ in range(rounds):
                if role == "produce":
                    with self._topic() as topic:
                        taken["bare"].append(self._bare(bare(self.bootstrap, topic, self.records)))
                    with self._topic() as topic:
                        taken["ledger"].append(self._ours(installed, self._producer(topic)))
                else:
                    group = secrets.token_hex(4)
                    taken["bare"].append(self._bare(bare(self.bootstrap, self.filled, self.records, group)))
                    taken["ledger"].append(self._ours(installed, self._consumer(name)))
            wall = {kind: min(t.wall_s for t in each) for kind, each in taken.items()}
            cpu = {kind: min(t.cpu_s for t in each) for kind, each in taken.items()}
            result[role] = {f"{kind}_per_s": round(self.records / seconds) for kind, seconds in wall.items()}
            result[role] |= {"cost": _ratio(wall), "cpu_cost": _ratio(cpu), "rounds": rounds}
        return result

    def _new_topic(self) -> str:
        topic = f"bench-{secrets.token_hex(4)}"
        self.admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        return topic

    @contextmanager
    def _topic(self) -> Iterator[str]:
        topic = self._new_topic()
        try:
            yield topic
        finally:
            self.admin.delete_topics([topic])[topic].result(30)

    def _common(self) -> dict[str, Any]:
        ledger = self.folder / secrets.token_hex(4)
        names = {"run_id": "bench", "run_token": "00000000", "client": "bench/1"}
        return {**names, "ledger": ledger, "bootstrap": self.bootstrap}

    def _producer(self, topic: str) -> ProducerSpec:
        return ProducerSpec(**self._common(), topic=topic, records=self.records, value_size=VALUE_SIZE)

    def _consumer(self, name: str) -> GroupConsumerSpec:
        never = CommitSpec(when="never", kind="sync")
        group, config = secrets.token_hex(4), EARLIEST[name]
        return GroupConsumerSpec(**self._common(), topics=[self.filled], group=group, commit=never, config=config)

    def _reader(self, name: str) -> GroupConsumerSpec | AssignConsumerSpec:
        if not Client(runtime=name).missing("subscribe"):
            return self._consumer(name)
        never = CommitSpec(when="never", kind="sync")
        return AssignConsumerSpec(**self._common(), topics=[self.filled], commit=never)

    def _bare(self, argv: list[str]) -> Taken:
        cpu_s, last = follow(argv, self.records)
        return Taken(float(last["took_s"]), cpu_s)

    def _ours(self, installed: Installed, spec: ClientSpec) -> Taken:
        """Run a client, and take the time from its rows."""
        path = self.folder / f"{secrets.token_hex(4)}.json"
        path.write_text(spec.model_dump_json())
        cpu_s, _ = follow(installed.command(spec, path), self.records, installed.env)
        table, first, last = (
            ("sends", "invoked_us", "completed_us")
            if isinstance(spec, ProducerSpec)
            else ("deliveries", "polled_us", "processed_us")
        )
        files = ledger_files(spec.ledger / table)
        batches = [batch for path in files for batch in read_file(path, TABLES[table], StreamEnd())]
        rows = pa.Table.from_batches(batches, TABLES[table])
        assert len(rows) == self.records, f"{len(rows)} of {self.records} rows"
        return Taken(float(pc.max(rows[last]).as_py() - pc.min(rows[first]).as_py()) / 1e6, cpu_s)

    def _start_s(self, installed: Installed, name: str) -> float:
        spec = self._reader(name)
        path = self.folder / f"{secrets.token_hex(4)}.json"
        path.write_text(spec.model_dump_json())
        began = time.monotonic()
        with subprocess.Popen(
            installed.command(spec, path),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **installed.env},
        ) as process:
            rows = spec.ledger / "deliveries"
            while not (rows.is_dir() and any(p.stat().st_size > 100 for p in rows.iterdir())):
                if time.monotonic() > began + START_S:
                    raise RuntimeError(f"no row of {name} after {START_S:g} s")
                time.sleep(0.01)
            took = time.monotonic() - began
            process.kill()
        return took


def rows_of(names: tuple[str, ...], rounds: int) -> dict[str, Any]:
    """Return the seconds of a catalogue row with each library, and their ratio to librdkafka's."""
    taken: dict[str, list[float]] = {name: [] for name in ("confluent", *names)}
    for _ in range(rounds):
        for name, seconds in taken.items():
            with tempfile.TemporaryDirectory() as runs_dir:
                argv = [sys.executable, "-m", "chaos", "run", ROW, "--seed", "7", "--runs-dir", runs_dir]
                began = time.monotonic()
                done = subprocess.run([*argv, "--client", name], cwd=ROOT, capture_output=True, text=True, check=False)
                seconds.append(time.monotonic() - began)
                if done.returncode:
                    raise RuntimeError(f"{ROW} with {name} did not pass:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    fastest = {name: min(seconds) for name, seconds in taken.items()}
    return {name: round(s, 1) for name, s in fastest.items()} | {
        f"{name}_ratio": round(fastest[name] / fastest["confluent"], 2) for name in names
    }


def measure(
    names: tuple[str, ...] = RUNTIMES, records: int = 1_000_000, rounds: int = 3, rows: int = 1
) -> dict[str, Any]:
    """Return the measurements by library, and the measurements of the catalogue row."""
    with tempfile.TemporaryDirectory(prefix="aftershock-bench-") as folder:
        run = Run.create(Path(folder), new_run_id("bench-runtimes"))
        cluster = ProcessCluster.deploy(run, ClusterSpec(brokers=1), ProcessId.current(), deadline_s=3600)
        try:
            bench = Bench(cluster.bootstrap, records, Path(folder))
            result = {name: bench.measure(name, rounds) for name in names}
        finally:
            cluster.destroy()
    return result | ({ROW: rows_of(tuple(name for name in names if name in COMPILE), rows)} if rows else {})


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the client libraries beside librdkafka.")
    parser.add_argument("runtimes", nargs="*", metavar="RUNTIME", default=list(RUNTIMES))
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1, help="rounds of the catalogue row; 0 for none")
    args = parser.parse_args()
    print(json.dumps(measure(tuple(args.runtimes), args.records, args.rounds, args.rows), indent=1))


if __name__ == "__main__":
    main()
