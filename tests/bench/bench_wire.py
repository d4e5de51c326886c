"""One run judged twice: by the ledgers of its clients, and by what passed on the wire.

The run is driven once, or one that was driven before is given. Each way of judging is a process with its own session,
and the time begins when the session has started. For 10M records, decoding and audit by the wire are to take twice the
time of the audit by ledgers at most.

Run: python -m tests.bench.bench_wire [RECORDS [RUN]]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from chaos.run.directory import Run
from chaos.scenario.resolve import read
from chaos.tap.session import capture_size
from tests.bench.bench_audit import ROOT, Watched, report
from tests.checks.wire.test_agreement import differences, on_wire, summary

RECORDS, MOST_S = 10_000_000, 1800.0
SCENARIO = """
title: Many records, judged by the ledgers and by the wire
cluster: {{brokers: 1}}
capture: {{payloads: needed}}
topics: [{{name: orders, partitions: 6, replication_factor: 1}}]
producers:
  - {{name: a, topic: orders, rate: 60000/s, records: {half}}}
  - {{name: b, topic: orders, rate: 60000/s, records: {half}}}
consumers:
  - {{mode: subscribe, name: billing, group: billing, members: 2, topics: [orders],
     commit: {{when: after_batch, kind: sync}}, config: {{auto.offset.reset: earliest}}}}
limits: {{drive: 1500, drain: 600}}
"""


def measure(records: int = RECORDS, driven: str = "") -> dict[str, Any]:
    """Return time, CPU time and memory of each way, and the ratio of the times.

    driven: the folder of a run of the scenario, to measure on that one again.
    """
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(driven) if driven else _drive(Path(scratch), records)
        copy = Path(scratch) / "wire" / run.name
        shutil.copytree(run, copy, ignore=shutil.ignore_patterns("brokers", "gx", "*.sock"))
        found: dict[str, Any] = {"captured_mb": capture_size(Run(copy)) >> 20}
        for way, folder in (("ledger", run), ("wire", copy)):
            argv = ["tests.bench.bench_wire", "--judge", way, str(folder)]
            done = Watched(argv, MOST_S, 1 << 40, way).run()
            if done.stopped:
                raise SystemExit(f"judging by the {way}: {done.stopped}")
            found[way] = done.phases
        if differ := differences(summary(Run(run)), summary(Run(copy))):
            raise SystemExit(f"the wire and the ledgers differ, so the times mean nothing: {differ}")
    took = {way: sum(phase["seconds"] for name, phase in found[way].items() if name != "session") for way in WAYS}
    return found | {"seconds": took, "ratio": round(took["wire"] / took["ledger"], 2)}


def _drive(folder: Path, records: int) -> Path:
    file = folder / "many.yaml"
    file.write_text(SCENARIO.format(half=records // 2))
    argv = [sys.executable, "-m", "chaos", "run", str(file), "--runs-dir", str(folder / "runs"), "--json"]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit("the run did not pass, so its times mean nothing")
    return Path(json.loads(done.stdout)["run_dir"])


def _by_ledger(spark: Any, run: Run) -> None:
    from checks.audit import audit

    began = time.monotonic()
    audit(spark, run, read(run).audited())
    report("audit", began)


def _by_wire(spark: Any, run: Run) -> None:
    from checks.audit import audit
    from checks.wire import ledger, tables

    resolved, began = on_wire(run), time.monotonic()
    tables.write_tables(spark, run)
    report("decode", began)
    began = time.monotonic()
    ledger.write_ledger(run, resolved.scenario)
    report("ledger", began)
    began = time.monotonic()
    audit(spark, run, resolved.audited(ledger.seen(run)), ledger.folder_of(run))
    report("audit", began)


WAYS = {"ledger": _by_ledger, "wire": _by_wire}


def _judge(way: str, folder: str) -> None:
    """Start Spark and judge a run, a line of JSON after each part; what the process of a way does."""
    from checks.spark.parts import warm
    from checks.spark.session import spark_session

    began = time.monotonic()
    spark = spark_session()
    warm(spark)
    report("session", began)
    WAYS[way](spark, Run(Path(folder)))
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--judge"]:
        _judge(*sys.argv[2:])
    else:
        print(json.dumps(measure(*map(int, sys.argv[1:2]), *sys.argv[2:]), indent=1))
