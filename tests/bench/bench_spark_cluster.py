"""The audit of a run directory in HDFS on a Spark master, against the same audit in one process.

    python -m tests.bench.bench_spark_cluster [--records 20M] [--rounds 3]

A generated history is put into HDFS (two data nodes, one copy of each block). Then `audit hdfs://...` runs in turn on a
master with two Spark workers of one core each, and on local[2]. Memory is the PSS of all processes of a side, at its
highest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from chaos.run.directory import Run
from chaos.scenario.resolve import save
from tests.bench.bench_audit import ROOT, SAMPLE_S, Result, _Peak, _size
from tests.bench.histories import Plan, make, resolved
from tests.support.spark_cluster import SparkCluster, hdfs, shell, spark_cluster


def audited(uri: str, master: str, cluster: SparkCluster, name: str) -> Result:
    """Audit a run in a fresh process, and return its seconds, the highest memory of each side, and the counts."""
    argv = [sys.executable, "-m", "chaos", "audit", uri, "--spark-master", master, "--json"]
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:  # a pipe would fill up while nobody reads it
        child = subprocess.Popen(argv, cwd=ROOT, stdout=output)
        sides = {"driver": psutil.Process(child.pid)}
        sides |= {f"spark_worker_{n}": psutil.Process(w.process.pid) for n, w in enumerate(cluster.workers, start=1)}
        peaks = {side: _Peak() for side in sides}
        while child.poll() is None:
            for side, process in sides.items():
                peaks[side].look(process)
            time.sleep(SAMPLE_S / 2)
        seconds = time.monotonic() - began
        output.seek(0)
        result = json.loads(output.read())
    found: Result = {"master": name, "seconds": round(seconds, 1), "verdict": result["verdict"]}
    found |= {"audit_s": round(stage_s(result, "audit"), 1), "sent": result["counts"]["sent"]}
    redelivered = (t["count"] for t in result["totals"] if (t["check"], t["split"]) == ("duplicate_delivery", "legal"))
    found["redelivered"] = sum(redelivered)
    return found | {f"{side}_mib": peak.in_mib()["peak_mib"] for side, peak in peaks.items()}


def stage_s(result: Result, stage: str) -> float:
    """Return the seconds of a stage of the checks."""
    return float(result["stages_s"][stage])


def measure(records: int, rounds: int) -> list[Result]:
    """Write, put and audit; return what each audit took."""
    found: list[Result] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-cluster-")))
        run, plan, began = Run(folder / "run"), Plan(records), time.monotonic()
        planted = make(run.path, plan)
        save(run, resolved(plan))
        _say(f"written in {time.monotonic() - began:.0f} s")
        home = stack.enter_context(hdfs(folder / "hdfs", data_nodes=2))
        cluster = stack.enter_context(spark_cluster(folder / "spark"))
        fs, began = shell(folder / "conf"), time.monotonic()
        fs("-D", "dfs.replication=1", "-put", "-t", "4", run.path, home)
        uri = f"{home}/{run.path.name}"
        _say(f"put in {time.monotonic() - began:.0f} s")
        for _ in range(rounds):
            for name, master in (("cluster", cluster.url), ("local", "local[2]")):
                found.append(audited(uri, master, cluster, name))
                _say(json.dumps(found[-1]))
                if (found[-1]["sent"], found[-1]["redelivered"]) != (records, planted.redelivered):
                    raise SystemExit("not what was planted, so the times mean nothing")
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=_size, default="20M")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rounds = measure(options.records, options.rounds)
    medians: dict[str, dict[str, Any]] = {}
    for name in ("cluster", "local"):
        of_name = [r for r in rounds if r["master"] == name]
        numbers = [key for key, value in of_name[0].items() if isinstance(value, int | float)]
        medians[name] = {key: statistics.median(r[key] for r in of_name) for key in numbers}
    ratio = round(medians["cluster"]["seconds"] / medians["local"]["seconds"], 2)
    print(json.dumps({"rounds": rounds, "medians": medians, "cluster_to_local": ratio}, indent=1))


if __name__ == "__main__":
    main()
