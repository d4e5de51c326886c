"""A run with its ledger never on one disk: clients on two workers, real brokers, HDFS on two disks, a Spark master.

    python -m tests.bench.bench_fleet [--records 20M] [--second DIR]

Each worker writes to a folder of its disk, and puts its ledger into HDFS, which has a data node on each disk and one
copy of each block. The audit runs on a master with two Spark workers of one core each, and again on local[2], which has
to find the same. `--second` names a folder on the second disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from chaos.drive import stages
from chaos.file_systems import open_url
from chaos.ledger.seal import read_seal
from chaos.ledger.store import VARIABLE
from chaos.processes.ports import free_ports
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.run.events import EventLog
from tests.bench.bench_audit import ROOT, _size
from tests.support.spark_cluster import data_node, hdfs, spark_cluster

SCENARIO = """
title: many records on two workers
cluster: {brokers: 1}
topics: [{name: orders, partitions: 4, replication_factor: 1}]
producers: [{name: shop, topic: orders, count: 2, records: RECORDS}]
consumers: [{mode: subscribe, name: billing, group: billing, members: 2, topics: [orders],
             config: {auto.offset.reset: earliest, session.timeout.ms: 6000}}]
faults: [{name: crash, kind: consumer.crash, target: {member: billing/2}, when: {acked: 50000},
          heal: {when: {after: crash.proven + 1s}}}]
limits: {drive: 40m, drain: 40m}
fleet: {workers: 2}
"""
PYTHON = (sys.executable, "-m")


@contextmanager
def workers(run: Run, disks: list[Path]) -> Iterator[None]:
    """Start each worker of a run with its temporary files on its own disk."""
    started = []
    for number, disk in enumerate(disks, start=1):
        argv = [*PYTHON, "chaos.workers", str(run.path), str(number)]
        started.append(subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "TMPDIR": str(disk)}))
    try:
        yield
        for process in started:
            process.wait(60)
    finally:
        for process in started:
            process.kill()


def judged(run: Run, master: str) -> dict[str, Any]:
    """Judge a run in a fresh process, and return seconds, verdict and counts."""
    began = time.monotonic()
    done = subprocess.run(
        [*PYTHON, "checks", str(run.path), "--spark-master", master], cwd=ROOT, stdout=subprocess.PIPE
    )
    result = json.loads(run.result.read_text())
    taken = {name: round(result["stages_s"][name], 1) for name in ("readback", "audit")}
    totals = {f"{t['check']} {t['split']}".strip(): t["count"] for t in result["totals"] if t["count"]}
    return {
        "master": master.partition(":")[0],
        "seconds": round(time.monotonic() - began, 1),
        **taken,
        "totals": totals,
        "exit": done.returncode,
        "verdict": result["verdict"],
        "sentence": result["sentence"],
        "sent": result["counts"]["sent"],
    }


def size(folder: Path, pattern: str) -> int:
    """Return the KiB of files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file()) >> 10


def in_store(run: Run) -> int:
    """Return the bytes of the ledger in HDFS."""
    fs, root = open_url(read_seal(run.ledger).store)
    return int(fs.du(root))


def measure(folder: Path, second: Path, records: int) -> Iterator[dict[str, Any]]:
    """Drive and judge; yield what each step took."""
    (port,) = free_ports(1)
    disks = [folder / "worker-1", second / "worker-2"]
    for disk in disks:
        disk.mkdir()
    with ExitStack() as stack:
        home = stack.enter_context(hdfs(folder / "hdfs", port))
        stack.enter_context(data_node(second / "hdfs", home))
        os.environ[VARIABLE] = f"webhdfs://root@localhost:{port}/ledgers"
        path = folder / "many.yaml"
        path.write_text(SCENARIO.replace("RECORDS", str(records // 2)))
        run = stages.prepare(stages.ScenarioRequest(str(path)), runs_dir=folder / "runs")
        events = EventLog(run)
        stack.callback(stages.destroy, run, events)
        stages.deploy(run, events, ProcessId.current())
        began = time.monotonic()
        with workers(run, disks):
            stages.drive(run, events, starts_workers=False)
        taken = {"drive_s": round(time.monotonic() - began, 1), "store_kib": in_store(run) >> 10}
        of_disk = [size(node, "blk_*") for node in (folder / "hdfs", second / "hdfs")]
        yield taken | {"kib_by_disk": of_disk, "kib_with_the_drive": size(run.ledger, "*")}
        with spark_cluster(folder / "spark") as cluster:
            yield judged(run, cluster.url)
        yield judged(run, "local[2]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=_size, default="20M")
    parser.add_argument("--second", type=Path, help="folder on the second disk")
    options = parser.parse_args()
    prefix = "bench-fleet-"
    with (
        tempfile.TemporaryDirectory(prefix=prefix) as folder,
        tempfile.TemporaryDirectory(prefix=prefix, dir=options.second) as second,
    ):
        for found in measure(Path(folder), Path(second), options.records):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
