"""Reading a log back and sealing a ledger: records per second, CPU per record, and the most memory that was held.

    python -m tests.bench.bench_readback [--records N] [--rows N] [--rounds N]

One broker holds a topic of N records of 150 bytes that carry identities, and one of 20,000. They are read back in one
Spark session, the small one first; the first round of the large one starts Spark's workers. CPU counts all
processes of the checks, the driver's JVM included and the broker's not, though it works on the same cores. The sealed
ledger is one of sends in batches of 8,192 rows and deliveries in batches of 500, both from two streams.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.ledger.record import run_token
from chaos.ledger.record_columns import ValueFactory
from chaos.ledger.schemas import TABLES
from chaos.ledger.seal import seal
from chaos.ledger.stream import TableWriter
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved

RECORDS, SMALL, ROWS, VALUE_SIZE = 4_000_000, 20_000, 6_000_000, 150
PARTITIONS, STREAMS, KEYS = 6, 2, 1000
BEGAN_US = 1_763_697_600_000_000
MOST_S = 200.0
"""After this time no round begins; a round takes seconds, but longer on a busy machine."""
LEAST_PER_S = 400_000


def measure(records: int = RECORDS, rows: int = ROWS, rounds: int = 3) -> dict[str, Any]:
    """The figures of all rounds, and the best of them."""
    until = time.monotonic() + MOST_S
    result: dict[str, Any] = {"cpus": os.cpu_count(), "load_before": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory() as directory:
        result["seal"] = [_sealed(Path(directory) / f"ledger-{i}", rows) for i in range(rounds)]
        result |= _read_back(Path(directory), records, rounds, until)
    for what in ("seal", "readback"):
        result[f"best_{what}_per_s"] = max(taken["per_s"] for taken in result[what])
    result |= {"least_per_s": LEAST_PER_S, "load_after": round(os.getloadavg()[0], 1)}
    return result | {"ok": min(result["best_seal_per_s"], result["best_readback_per_s"]) >= LEAST_PER_S}


def _read_back(directory: Path, records: int, rounds: int, until: float) -> dict[str, Any]:
    from checks.readback.stage import read_back
    from checks.spark.session import spark_session

    run = Run.create(directory, "bench")
    cluster = ProcessCluster.deploy(run, ClusterSpec(1), ProcessId.current(), 600)
    try:
        filled_s = _fill(cluster.bootstrap, {"small": SMALL, "large": records})
        spark = spark_session()

        def read(topic: str, expected: int) -> dict[str, Any]:
            taken = _taken(lambda: read_back(spark, run, _resolved(topic), cluster.bootstrap), expected)
            files = [pq.read_metadata(path) for path in (run.ledger / "log").iterdir()]
            assert sum(file.num_rows for file in files) == expected
            return taken | {"files": len(files)}

        small = [read("small", SMALL) for _ in range(2)]
        large = [read("large", records)]
        while len(large) < rounds and time.monotonic() < until:
            large.append(read("large", records))
        spark.stop()
    finally:
        cluster.destroy()
    return {"filled_s": round(filled_s, 1), "small_readback": small, "readback": large}


def _sealed(ledger: Path, rows: int) -> dict[str, Any]:
    """Seal a ledger in a separate process, so that the memory is the sealing's alone."""
    _write_ledger(ledger, rows)
    spawned = multiprocessing.get_context("spawn")
    receiver, sender = spawned.Pipe(duplex=False)
    process = spawned.Process(target=_seal_and_report, args=(ledger, rows, sender))
    process.start()
    taken: dict[str, Any] = receiver.recv()
    process.join()
    return taken


def _seal_and_report(ledger: Path, rows: int, sender: Any) -> None:
    taken = _taken(lambda: seal(ledger), rows)
    parts = {path.name: len(list(path.iterdir())) for path in ledger.glob("*.parquet")}
    sender.send(taken | {"files": sum(parts.values())})


def _taken(work: Callable[[], Any], count: int) -> dict[str, Any]:
    """What some work took: of this process and all below it, sampled while it lasts."""
    me = psutil.Process()
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.1):
            peak = max(peak, sum(_rss(p) for p in _family(me)))

    cpu, began = _cpu_s(me), time.monotonic()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
        seconds, cpu = time.monotonic() - began, _cpu_s(me) - cpu
    finally:
        done.set()
        watcher.join()
    return {
        "rows": count,
        "seconds": round(seconds, 2),
        "per_s": round(count / seconds),
        "cpu_us_per_row": round(cpu / count * 1e6, 2),
        "peak_rss_mib": peak >> 20,
    }


def _family(me: psutil.Process) -> list[psutil.Process]:
    """This process, and the JVM and Python workers below it: the cluster's are marked by their run, and not meant."""
    return [me, *(p for p in me.children(recursive=True) if not _is_broker(p))]


def _is_broker(process: psutil.Process) -> bool:
    try:
        return any("kafka.Kafka" in part or "chaos.cluster" in part for part in process.cmdline())
    except psutil.Error:
        return True


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _cpu_s(me: psutil.Process) -> float:
    total = 0.0
    for process in _family(me):
        try:
            total += sum(process.cpu_times()[:2])
        except psutil.Error:
            continue
    return total


def _fill(bootstrap: str, topics: dict[str, int]) -> float:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(t, PARTITIONS, 1) for t in topics]).values():
        future.result(30)
    began = time.monotonic()
    spawned = multiprocessing.get_context("spawn")
    processes = [
        spawned.Process(target=_produce, args=(bootstrap, topic, f"shop/{i + 1}", count // STREAMS))
        for topic, count in topics.items()
        for i in range(STREAMS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return time.monotonic() - began


def _produce(bootstrap: str, topic: str, name: str, count: int) -> None:
    keys = [b"key-%d" % i for i in range(KEYS)]
    factory = ValueFactory(run_token("bench"), name, 1, VALUE_SIZE, keys)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000})
    rng, seq = np.random.default_rng(1), 0
    while seq < count:
        size = min(factory.room(seq), count - seq)
        chosen = rng.integers(0, KEYS, size)
        values = factory.make(seq, size, time.time_ns() // 1000, chosen)
        producer.produce_batch(
            topic,
            [
                {"value": value, "key": keys[k], "partition": k % PARTITIONS}
                for value, k in zip(values, chosen.tolist(), strict=True)
            ],
        )
        seq += size
        while len(producer) > 300_000:
            producer.poll(0.02)
    assert producer.flush(60) == 0


def _resolved(topic: str) -> Resolved:
    scenario = Scenario.model_validate(
        {
            "title": "read back",
            "cluster": {"brokers": 1},
            "topics": [{"name": topic, "partitions": PARTITIONS, "replication_factor": 1}],
            "producers": [{"name": "shop", "topic": topic}],
        }
    )
    return Resolved(run_id="bench", name="bench", seed=1, scenario=scenario, versions={}, created_us=0)


def _write_ledger(ledger: Path, rows: int) -> None:
    rng = np.random.default_rng(1)
    keys = pa.array([f"key-{i}" for i in range(KEYS)])
    for stream in range(1, STREAMS + 1):
        for table, batch in (("sends", 8192), ("deliveries", 500)):
            with TableWriter(ledger, table, f"client/{stream}") as out:
                for first in range(0, rows // 2 // STREAMS, batch):
                    size = min(batch, rows // 2 // STREAMS - first)
                    out.append(_columns(table, stream, first, size, rng, keys))


def _columns(table: str, stream: int, first: int, size: int, rng: np.random.Generator, keys: pa.Array) -> list[Any]:
    seq = np.arange(first, first + size)
    sent = BEGAN_US + seq * 10 + rng.integers(0, 9, size)
    polled = BEGAN_US + first * 10 + int(rng.integers(2_000, 90_000))
    client, other = f"client/{stream}", f"shop/{stream}"
    one = {"sends": (client, "orders", "ok"), "deliveries": (client, "billing", "subscribe", "orders", other)}[table]
    names = {
        "sends": ("producer", "topic", "outcome"),
        "deliveries": ("consumer", "group", "mode", "topic", "producer"),
    }
    found: dict[str, Any] = {name: pa.repeat(text, size) for name, text in zip(names[table], one, strict=True)}
    found |= dict.fromkeys(("incarnation", "assignment", "producer_incarnation"), np.ones(size, np.int32))
    found |= {"partition": (first // 500 + np.zeros(size, np.int32)).astype(np.int32) % PARTITIONS}
    found |= {"leader_epoch": np.zeros(size, np.int32), "seq": seq, "ordinal": seq, "offset": seq // PARTITIONS}
    found |= {"key": keys.take(pa.array(rng.integers(0, KEYS, size))), "invoked_us": sent, "sent_us": sent}
    found |= {"completed_us": sent + rng.integers(2_000, 90_000, size), "polled_us": np.full(size, polled)}
    found |= {"processed_us": polled + np.arange(size) * 3}
    return [
        pa.nulls(size, field.type) if field.name not in found else pa.array(found[field.name]).cast(field.type)
        for field in TABLES[table]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found = measure(options.records, options.rows, options.rounds)
    table = Table("what", "rows", "s", "rows/s", "CPU us/row", "peak MiB", "files", box=None)
    for what in ("seal", "small_readback", "readback"):
        for taken in found[what]:
            figures = [taken[k] for k in ("rows", "seconds", "per_s", "cpu_us_per_row", "peak_rss_mib", "files")]
            table.add_row(what, *(f"{figure:,}" for figure in figures))
    Console().print(table)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
