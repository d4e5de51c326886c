"""Benchmark of proxy and switch without rules or cuts: bare clients at full speed, directly and through each, in turns.

The rates depend on the load of the machine; the CPU time per record depends on it less.

Run: python -m tests.bench.bench_proxy [RECORDS [ROUNDS]]
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.kafka import messages
from chaos.kafka.connection import BrokerConnection
from chaos.processes.process import ProcessId, end_run, find_marked
from chaos.relay import control
from chaos.run.directory import Run

VALUE_BYTES, CAPTURED_BYTES, RATE = 100, 1000, 50_000
PARTITIONS = 3


def measure(records: int = 1_500_000, rounds: int = 3) -> dict[str, Any]:
    """Return the records per second of a producer and a consumer in each round, and the ratios of the medians."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        runs = {name: Run.create(Path(directory), name) for name in ("plain", "switched")}
        clusters = {}
        for name, run in runs.items():
            spec = ClusterSpec(1, switch=name == "switched")
            clusters[name] = ProcessCluster.deploy(run, spec, ProcessId.current(), 900)
            stack.callback(clusters[name].destroy)
        plain = clusters["plain"]
        control.start_proxy(runs["plain"], {b: plain.address(b) for b in plain.broker_ids}, ProcessId.current())
        proxy = stack.enter_context(control.Proxy(runs["plain"]))
        ways = {"direct": plain.bootstrap, "proxy": proxy.bootstrap, "switch": clusters["switched"].bootstrap}
        relays = {m.role: psutil.Process(m.identity.pid) for m in find_marked() if m.run_dir.parent == Path(directory)}
        return _compare(ways, {way: relays[way] for way in ("proxy", "switch")}, Path(directory), records, rounds)


def measure_capture(records: int = 300_000, rounds: int = 3) -> dict[str, Any]:
    """Return the same for a proxy with capture, against one without, with records of 1 kB.

    both_ways: the same with a producer of 50,000 records/s and a consumer at once, and the ratio of the medians, which
    is to be 0.9 at least. round_trip_ms: the medians; the capture is to add 1 at most.
    """
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        folder, owner = Path(directory), ProcessId.current()
        runs = {name: Run.create(folder, name) for name in ("direct", "capture")}
        cluster = ProcessCluster.deploy(runs["direct"], ClusterSpec(1), owner, 900)
        stack.callback(cluster.destroy)
        stack.callback(end_run, runs["capture"].path)
        addresses = {b: cluster.address(b) for b in cluster.broker_ids}
        for run, payloads in ((runs["direct"], None), (runs["capture"], "needed")):
            control.start_proxy(run, addresses, owner, payloads=payloads)
        proxies = {name: stack.enter_context(control.Proxy(run)) for name, run in runs.items()}
        ways = {name: proxy.front("bench") for name, proxy in proxies.items()}
        marked = {m.run_dir: psutil.Process(m.identity.pid) for m in find_marked() if m.role == "proxy"}
        relays = {name: marked[run.path] for name, run in runs.items()}
        found = _compare(ways, relays, folder, records, rounds, CAPTURED_BYTES)
        both = _together(ways, folder, records, rounds)
        links = {name: BrokerConnection(*_first(bootstrap)) for name, bootstrap in ways.items()}
        trips: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(2000):
            for name, link in links.items():
                began = time.perf_counter()
                link.ask(messages.metadata(), 10)
                trips[name].append(1000 * (time.perf_counter() - began))
        sealed = proxies["capture"].seal()
        written = sum(path.stat().st_size for path in (runs["capture"].path / "wire").iterdir())
        passed = records * (rounds + 1) * 4  # produced and consumed, one after the other and both at once
        return {
            **found,
            "both_ways": both,
            "round_trip_ms": {name: round(statistics.median(of), 3) for name, of in trips.items()},
            "captured_bytes_per_record": round(written / passed, 1),
            "entries": sealed["entries"],
        }


def _together(ways: dict[str, str], folder: Path, records: int, rounds: int) -> dict[str, Any]:
    """Return the records/s of a producer and a consumer of one topic at once, by way, and the ratio of the medians."""
    rates: dict[str, list[int]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way in list(ways) if number % 2 else list(reversed(ways)):
            topic, admin = f"both-{number}-{way}", AdminClient({"bootstrap.servers": ways[way]})
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
            common = {"bootstrap": ways[way], "records": records, "gc": False}
            with ThreadPoolExecutor() as pool:
                reading = pool.submit(_run, folder, {**_consumer(topic), **common})
                writing = pool.submit(_run, folder, {**_producer(topic, CAPTURED_BYTES), **common, "rate": RATE})
                took = max(reading.result(), writing.result())
            if number:  # the first round is the warm-up
                rates[way].append(round(records / took))
            admin.delete_topics([topic])[topic].result(30)
    ratio = statistics.median(rates["capture"]) / statistics.median(rates["direct"])
    return {"records_per_s": rates, "ratio": round(ratio, 3)}


def _first(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    return host, int(port)


def _compare(
    ways: dict[str, str],
    relays: dict[str, psutil.Process],
    folder: Path,
    records: int,
    rounds: int,
    value_bytes: int = VALUE_BYTES,
) -> dict[str, Any]:
    spent: dict[str, dict[str, float]] = {way: dict.fromkeys(("produce", "consume"), 0.0) for way in relays}
    rates: dict[str, dict[str, list[float]]] = {"produce": {}, "consume": {}}
    admins = {way: AdminClient({"bootstrap.servers": bootstrap}) for way, bootstrap in ways.items()}
    for number in range(rounds + 1):
        for way in list(ways) if number % 2 else list(reversed(ways)):
            topic, admin = f"bench-{number}-{way}", admins[way]
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
            for what, spec in (("produce", _producer(topic, value_bytes)), ("consume", _consumer(topic))):
                before = _cpu_s(relays.get(way))
                took = _run(folder, {**spec, "bootstrap": ways[way], "records": records, "gc": False})
                if number == 0:  # the first round is the warm-up
                    continue
                rates[what].setdefault(way, []).append(round(records / took))
                if way in relays:
                    spent[way][what] += _cpu_s(relays[way]) - before
            admin.delete_topics([topic])[topic].result(30)
    middle: Callable[[str, str], float] = lambda what, way: statistics.median(rates[what][way])  # noqa: E731
    return {
        "records": records,
        "value_bytes": value_bytes,
        "records_per_s": rates,
        "relay_cpu_us_per_record": {
            way: {what: round(1e6 * cpu_s / records / rounds, 3) for what, cpu_s in of.items()}
            for way, of in spent.items()
        },
        "ratio": {
            way: {what: round(middle(what, way) / middle(what, "direct"), 3) for what in rates}
            for way in ways
            if way != "direct"
        },
    }


def _cpu_s(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    times = process.cpu_times()
    return float(times.user + times.system)


def _producer(topic: str, value_bytes: int) -> dict[str, Any]:
    config = {"acks": "all", "enable.idempotence": True, "linger.ms": 20}
    return {"topic": topic, "value_size": value_bytes, "config": config}


def _consumer(topic: str) -> dict[str, Any]:
    return {
        "group": topic,
        "topics": [topic],
        "max_poll_records": 5000,
        "read_messages": False,
        "commit": {"when": "never", "kind": "sync"},
        "config": {"auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 10},
    }


def _run(folder: Path, spec: dict[str, Any]) -> float:
    """Return the seconds that the client's loop took."""
    path = folder / f"{'producer' if 'topic' in spec else 'consumer'}.json"
    path.write_text(json.dumps(spec))
    argv = [sys.executable, "-m", "tests.bench.bare_clients", str(path)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    return next(float(line["took_s"]) for line in lines if "took_s" in line)


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:])), indent=2))
