"""The cost of the ledger: our clients, bare loops of the same library, and Kafka's own tools, on one cluster.

    python -m tests.bench.bench_clients [--records N] [--rounds N]

The bare loops are in `bare_clients`: the producer counts delivery reports, the consumer reads the error and value of
each message; "counting" does not read its messages. Kafka's tools are ProducerPerformance and ConsumerPerformance,
with settings as close to librdkafka's as possible. Values have 100 bytes after their identity. Each round runs all of
them in a rotating order, each in a new process. Ratios compare the fastest runs; in brackets are minimum, median and
maximum of one round, because other load on the machine slows single runs, more so if they use more memory. A rate
counts from the first call to the last report, or from the first batch to the last. CPU is the time of the client
process until its last record, without the start of Python; for a Java tool it includes the start of the JVM.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from chaos.clients.confluent.runtime import CONSUMER_DEFAULTS
from chaos.clients.python.start import ENTRY
from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.install.jars import resolve
from chaos.install.java import find_java
from chaos.ledger.record import HEADER_BYTES
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd, read_stream
from chaos.processes.process import ProcessId
from chaos.run.directory import Run, new_run_id

LIMIT_S = 150.0
"""Time after which no round starts, divided among the comparisons."""
PARTITIONS, VALUE_SIZE = 6, HEADER_BYTES + 100
KAFKA = "4.3.1"
BARE = (sys.executable, "-m", "tests.bench.bare_clients")
LEDGER = (*ENTRY, "confluent")
# librdkafka's defaults, as far as the Java producer has the same settings
JAVA_PRODUCER = ("acks=all", "linger.ms=5", "batch.size=1000000", "buffer.memory=268435456", "enable.idempotence=false")
SYNC, ASYNC, NEVER = "sync", "async", "never"


@dataclass(frozen=True)
class Measurement:
    """Records per second, and microseconds of CPU time per record."""

    per_s: float
    cpu_us: float


Attempt = Callable[[], Measurement]


class Bench:
    """One cluster, and the topic that all consumers read."""

    def __init__(self, bootstrap: str, records: int) -> None:
        self.bootstrap, self.records = bootstrap, records
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.topic = self.new_topic()

    def new_topic(self) -> str:
        topic = f"bench-{secrets.token_hex(4)}"
        self.admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        return topic

    def fill(self) -> None:
        """Write the records that consumers read."""
        self._produce(LEDGER, self.topic)

    def producers(self) -> dict[str, Attempt]:
        """Return the producer runs by name. Each run writes a new topic and deletes it."""
        return {
            "bare": lambda: self._produced(lambda t: self._produce(BARE, t, gc=True)),
            "bare_no_gc": lambda: self._produced(lambda t: self._produce(BARE, t, gc=False)),
            "ledger": lambda: self._produced(lambda t: self._produce(LEDGER, t)),
            "java": lambda: self._produced(self._java_producer),
        }

    def consumers(self, size: int, commit: str) -> dict[str, Attempt]:
        """Return the consumer runs by name, for a batch size and a commit setting."""
        runs: dict[str, Attempt] = {
            "bare": lambda: self._consume(BARE, size, commit, gc=True, read_messages=True, records=self.records),
            "ledger": lambda: self._consume(LEDGER, size, commit),
        }
        if commit == NEVER:
            runs["counting"] = lambda: self._consume(
                BARE, size, commit, gc=True, read_messages=False, records=self.records
            )
            runs["java"] = lambda: self._java_consumer(size)
        return runs

    def _produced(self, run: Callable[[str], Measurement]) -> Measurement:
        topic = self.new_topic()
        try:
            return run(topic)
        finally:
            self.admin.delete_topics([topic])[topic].result(30)

    def _produce(self, command: tuple[str, ...], topic: str, **more: Any) -> Measurement:
        spec = {
            "program": "producer",
            "topic": topic,
            "records": self.records,
            "value_size": VALUE_SIZE,
            "config": {},
            **more,
        }
        return self._run(command, spec, "sends", ("invoked_us", "completed_us"))

    def _consume(self, command: tuple[str, ...], size: int, commit: str, **more: Any) -> Measurement:
        never = {"when": "never", "kind": "sync"}
        spec = {
            "program": "group_consumer",
            "topics": [self.topic],
            "group": secrets.token_hex(4),
            "max_poll_records": size,
            "commit": never if commit == NEVER else {"when": "after_batch", "kind": commit},
            "config": {"auto.offset.reset": "earliest", **CONSUMER_DEFAULTS},
            **more,
        }
        return self._run(command, spec, "deliveries", ("polled_us", "processed_us"))

    def _run(self, command: tuple[str, ...], spec: dict[str, Any], table: str, span: tuple[str, str]) -> Measurement:
        """Run a client until it has sent or read all records."""
        with tempfile.TemporaryDirectory(prefix="aftershock-bench-") as folder:
            ledger, path = Path(folder) / "ledger", Path(folder) / "spec.json"
            common = {"run_id": "bench", "run_token": "00000000", "ledger": str(ledger), "client": "bench/1"}
            path.write_text(json.dumps({**common, "bootstrap": self.bootstrap, **spec}))
            cpu_s, last = follow([*command, str(path)], self.records)
            took_s = last.get("took_s")
            if took_s is None:
                (stream,) = (ledger / table).glob("*.arrows")
                rows = pa.Table.from_batches(list(read_stream(stream, TABLES[table], StreamEnd())), TABLES[table])
                assert rows.num_rows == self.records
                took_s = (pc.max(rows[span[1]]).as_py() - pc.min(rows[span[0]]).as_py()) / 1e6
            return Measurement(self.records / took_s, cpu_s / self.records * 1e6)

    def _java_producer(self, topic: str) -> Measurement:
        size = ("--num-records", str(self.records), "--record-size", str(VALUE_SIZE), "--throughput", "-1")
        props = (f"bootstrap.servers={self.bootstrap}", *JAVA_PRODUCER)
        output, cpu_s = _java("ProducerPerformance", "--topic", topic, *size, "--command-property", *props)
        return Measurement(float(re.findall(r"([\d.]+) records/sec", output)[-1]), cpu_s / self.records * 1e6)

    def _java_consumer(self, size: int) -> Measurement:
        where = ("--bootstrap-server", self.bootstrap, "--topic", self.topic, "--group", secrets.token_hex(4))
        props = ("--command-property", f"max.poll.records={size}", "--command-property", "enable.auto.commit=false")
        output, cpu_s = _java(
            "ConsumerPerformance", *where, "--num-records", str(self.records), "--hide-header", *props
        )
        # the last column: records per second of the time after the group was joined
        return Measurement(float(output.strip().splitlines()[-1].rpartition(",")[2]), cpu_s / self.records * 1e6)


def follow(argv: list[str], records: int, env: Mapping[str, str] | None = None) -> tuple[float, dict[str, Any]]:
    """Return the CPU time of a client until it is done, and its last progress event. env: additional variables."""
    began_s, done = 0.0, None
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(argv, stderr=log, env={**os.environ, **(env or {})}, **pipes) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        own = psutil.Process(process.pid)
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "started":
                began_s = _cpu_s(own)
            elif done is None and (event.get("done") or event.get("delivered", 0) >= records):
                done = (_cpu_s(own) - began_s, event)
                with suppress(BrokenPipeError):  # a bare loop ends by itself; a buffer would fail again at its close
                    os.write(process.stdin.fileno(), b'{"do": "stop"}\n')
        if process.wait() or done is None:
            log.seek(0)
            last = log.read()[-1000:].decode(errors="replace")
            raise RuntimeError(f"{' '.join(argv)} ended with {process.returncode}: {last}")
    return done


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _java(tool: str, *args: str) -> tuple[str, float]:
    """Run one of Kafka's tools. Returns its output and its CPU time."""
    jars = resolve("org.apache.kafka", "kafka-tools", KAFKA)
    argv = [str(find_java().path), "-Xmx1g", "-cp", f"{jars}/*", f"org.apache.kafka.tools.{tool}", *args]
    before = os.times()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    after = os.times()
    if done.returncode:
        raise RuntimeError(f"{tool} ended with {done.returncode}: {done.stdout}{done.stderr}")
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return done.stdout, cpu_s


def compare(runs: dict[str, Attempt], rounds: int, within_s: float) -> dict[str, Any]:
    """Run all in each round, in a rotating order, until `rounds` or `within_s`. Returns rates and ratios."""
    until = time.monotonic() + within_s
    measured: dict[str, list[Measurement]] = {name: [] for name in runs}
    names = list(runs)
    for i in range(rounds):
        if i and time.monotonic() > until:
            break
        for name in names[i % len(names) :] + names[: i % len(names)]:
            measured[name].append(runs[name]())
    result: dict[str, Any] = {"rounds": len(measured["ledger"])} | {
        f"{name}_per_s": round(statistics.median(t.per_s for t in each)) for name, each in measured.items()
    }
    result |= {f"{name}_cpu_us": _median(t.cpu_us for t in each) for name, each in measured.items()}
    result["ledger_cost_us"] = round(result["ledger_cpu_us"] - result["bare_cpu_us"], 2)
    for other in names:
        if other != "ledger":
            ratios = [a.per_s / b.per_s for a, b in zip(measured["ledger"], measured[other], strict=True)]
            fastest = max(a.per_s for a in measured["ledger"]) / max(b.per_s for b in measured[other])
            spread = {"min": min(ratios), "median": statistics.median(ratios), "max": max(ratios)}
            result[f"of_{other}"] = {"fastest": fastest, **spread}
            result[f"of_{other}"] = {k: round(v, 2) for k, v in result[f"of_{other}"].items()}
    return result


def _median(numbers: Iterable[float]) -> float:
    return round(statistics.median(numbers), 2)


def measure(bootstrap: str, records: int = 500_000, rounds: int = 5, within_s: float = LIMIT_S) -> dict[str, Any]:
    """Return rates, CPU times and ratios by comparison."""
    bench = Bench(bootstrap, records)
    bench.fill()
    comparisons = {
        "produce": compare(bench.producers(), rounds, 0.35 * within_s),
        "consume": compare(bench.consumers(500, NEVER), rounds, 0.35 * within_s),
        "consume, batches of 5,000": compare(bench.consumers(5000, NEVER), rounds, 0.2 * within_s),
        "consume, sync commit of each batch": compare(bench.consumers(500, SYNC), rounds, 0.05 * within_s),
        "consume, async commit of each batch": compare(bench.consumers(500, ASYNC), rounds, 0.05 * within_s),
    }
    bench.admin.delete_topics([bench.topic])[bench.topic].result(30)
    return {"records": records, "value_size": VALUE_SIZE, "comparisons": comparisons}


def measure_here(records: int = 500_000, rounds: int = 5) -> dict[str, Any]:
    """Call `measure` with a new broker."""
    with tempfile.TemporaryDirectory(prefix="aftershock-bench-") as folder:
        run = Run.create(Path(folder), new_run_id("bench-clients"))
        cluster = ProcessCluster.deploy(run, ClusterSpec(brokers=1), ProcessId.current(), deadline_s=3600)
        try:
            return measure(cluster.bootstrap, records, rounds)
        finally:
            cluster.destroy()


def table_of(result: dict[str, Any]) -> Table:
    """Return the result as a table."""
    columns = (
        "bare/s",
        "ledger/s",
        "Java/s",
        "ledger : bare",
        "ledger : bare, no gc",
        "ledger : counting",
        "ledger : Java",
        "CPU us: bare",
        "ledger",
        "cost",
        "Java",
    )
    table = Table("", *columns, box=None)
    for name, c in result["comparisons"].items():
        ratios = [c.get(f"of_{other}") for other in ("bare", "bare_no_gc", "counting", "java")]
        table.add_row(
            name,
            *(f"{c[k]:,}" if k in c else "" for k in ("bare_per_s", "ledger_per_s", "java_per_s")),
            *("{fastest} ({min} {median} {max})".format(**r) if r else "" for r in ratios),
            *(str(c.get(k, "")) for k in ("bare_cpu_us", "ledger_cpu_us", "ledger_cost_us", "java_cpu_us")),
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the cost of the ledger for the clients.")
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    result = measure_here(args.records, args.rounds)
    Console(width=160).print(table_of(result))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
