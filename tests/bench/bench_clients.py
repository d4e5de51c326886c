"""What a ledger costs: clients with one against bare loops of the same library, on the same cluster, in the same run.

    python tests/bench/bench_clients.py [--records N] [--rounds N]

A bare producer calls `produce` without a delivery callback; a bare consumer calls `consume(500)` and looks at
nothing. Both sides have the same settings and 128-byte values. Each round runs both, in alternating order; the ratio
of a round is its own, and the median over the rounds is the result. A rate counts from the first call to the last
answer or record.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.clients.specs import CONSUMER_DEFAULTS
from chaos.cluster.process import ProcessCluster
from chaos.cluster.processes import Identity
from chaos.cluster.settings import ClusterSpec
from chaos.ledger import TABLES
from chaos.ledger.reader import StreamEnd, read_stream
from chaos.rundir import RunDir, new_run_id

PARTITIONS, VALUE_SIZE = 6, 128


def measure(bootstrap: str, records: int = 500_000, rounds: int = 5) -> dict[str, Any]:
    """Rates in records per second and their ratios, by comparison."""
    topic = f"bench-{secrets.token_hex(4)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        made.result(30)

    def produce_bare() -> float:
        return bare_producer(bootstrap, topic, records)

    def produce_ledger() -> float:
        return ledger_producer(bootstrap, topic, records)

    found = {"produce": compare(produce_bare, produce_ledger, rounds)}
    for name, batch, commit in (
        ("consume", 500, "never"),
        ("consume, batches of 5,000", 5000, "never"),
        ("consume, sync commit of each batch", 500, "sync"),
        ("consume, async commit of each batch", 500, "async"),
    ):
        found[name] = compare(
            lambda b=batch, k=commit: bare_consumer(bootstrap, topic, records, b, k),
            lambda b=batch, k=commit: ledger_consumer(bootstrap, topic, records, b, k),
            rounds,
        )
    admin.delete_topics([topic])
    return {"records": records, "rounds": rounds, "value_size": VALUE_SIZE, "comparisons": found}


def compare(bare: Callable[[], float], ledger: Callable[[], float], rounds: int) -> dict[str, Any]:
    """Run both in each round, the first one alternating."""
    bares, ledgers = [], []
    for i in range(rounds):
        for is_bare in (True, False) if i % 2 == 0 else (False, True):
            (bares if is_bare else ledgers).append(bare() if is_bare else ledger())
    ratios = [mine / other for mine, other in zip(ledgers, bares, strict=True)]
    return {
        "bare_per_s": round(statistics.median(bares)),
        "ledger_per_s": round(statistics.median(ledgers)),
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(r, 2) for r in ratios],
    }


def bare_producer(bootstrap: str, topic: str, records: int) -> float:
    producer = Producer({"bootstrap.servers": bootstrap})
    value = b"x" * VALUE_SIZE
    began = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    return records / (time.perf_counter() - began)


def ledger_producer(bootstrap: str, topic: str, records: int) -> float:
    spec = {"topic": topic, "records": records, "value_size": VALUE_SIZE}
    sends = run_client("producer", bootstrap, spec, "sends", lambda event: bool(event["done"]))
    assert sends.num_rows == records
    return records / span_s(sends, "invoked_us", "completed_us")


def bare_consumer(bootstrap: str, topic: str, records: int, size: int, commit: str) -> float:
    own = {"bootstrap.servers": bootstrap, "group.id": secrets.token_hex(4), "auto.offset.reset": "earliest"}
    consumer = Consumer({**own, "enable.auto.commit": False, **CONSUMER_DEFAULTS})
    consumer.subscribe([topic])
    seen = 0
    while not seen:
        seen = len(consumer.consume(size, 0.1))
    began = time.perf_counter()
    while seen < records:
        batch = consumer.consume(size, 0.1)
        seen += len(batch)
        if batch and commit != "never":
            consumer.commit(asynchronous=commit == "async")
    rate = seen / (time.perf_counter() - began)
    consumer.close()
    return rate


def ledger_consumer(bootstrap: str, topic: str, records: int, size: int, commit: str) -> float:
    when = {"when": "never", "kind": "sync"} if commit == "never" else {"when": "after_batch", "kind": commit}
    spec = {
        "topics": [topic],
        "group": secrets.token_hex(4),
        "max_poll_records": size,
        "commit": when,
        "config": {"auto.offset.reset": "earliest", **CONSUMER_DEFAULTS},
    }
    rows = run_client("group_consumer", bootstrap, spec, "deliveries", lambda e: bool(e["delivered"] >= records))
    return records / span_s(rows.slice(0, records), "polled_us", "processed_us")


def span_s(rows: pa.Table, first: str, last: str) -> float:
    return float(pc.max(rows[last]).as_py() - pc.min(rows[first]).as_py()) / 1e6


def run_client(
    module: str, bootstrap: str, spec: dict[str, Any], table: str, done: Callable[[dict[str, Any]], bool]
) -> pa.Table:
    """Run a client until `done` with its progress, and read what it wrote."""
    with tempfile.TemporaryDirectory(prefix="aftershock-bench-") as folder:
        ledger, path = Path(folder) / "ledger", Path(folder) / "spec.json"
        common = {"run_id": "bench", "run_token": "00000000", "ledger": str(ledger), "client": "bench/1"}
        path.write_text(json.dumps({**common, "bootstrap": bootstrap, **spec}))
        argv = [sys.executable, "-m", f"chaos.clients.{module}", str(path)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None and process.stdout is not None
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "progress" and done(event):
                    process.stdin.write('{"do": "stop"}\n')
                    process.stdin.flush()
        if process.returncode:
            raise RuntimeError(f"{module} ended with {process.returncode}")
        (stream,) = (ledger / table).glob("*.arrows")
        return pa.Table.from_batches(list(read_stream(stream, TABLES[table], StreamEnd())), TABLES[table])


def measure_here(records: int = 500_000, rounds: int = 5) -> dict[str, Any]:
    """`measure` on a broker of its own."""
    with tempfile.TemporaryDirectory(prefix="aftershock-bench-") as folder:
        run = RunDir.create(Path(folder), new_run_id("bench-clients"))
        cluster = ProcessCluster.deploy(run, ClusterSpec(brokers=1), Identity.current(), deadline_s=3600)
        try:
            return measure(cluster.bootstrap, records, rounds)
        finally:
            cluster.destroy()


def main() -> None:
    parser = argparse.ArgumentParser(description="What a ledger costs the clients.")
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    result = measure_here(args.records, args.rounds)
    print(f"{'':38}{'bare/s':>12}{'ledger/s':>12}{'ratio':>8}")
    for name, c in result["comparisons"].items():
        print(f"{name:38}{c['bare_per_s']:>12,}{c['ledger_per_s']:>12,}{c['ratio']:>8}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
