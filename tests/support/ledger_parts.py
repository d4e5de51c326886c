"""A history of which each worker of a fleet has its own parts, put into a Hadoop file system by each worker."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chaos.run.directory import Run
from chaos.scenario.resolve import save
from tests.bench.histories import Plan, make, resolved
from tests.bench.written import Planted
from tests.support.spark_cluster import shell


def spread(folder: Path, plan: Plan, workers: Sequence[Path]) -> tuple[Run, Planted]:
    """Write a history: small tables into the run in `folder`, those of the load into the folders of the workers."""
    run = Run(folder)
    planted = make(folder, plan, workers)
    save(run, resolved(plan))
    return run, planted


def put_apart(run: Run, workers: Sequence[Path], uri: str, conf: Path) -> None:
    """Put the parts of each worker into the run at a URI, side by side, and remove them; then what the run has."""
    fs = shell(conf)
    tables = sorted({table.name for worker in workers for table in worker.iterdir()})
    fs("-mkdir", "-p", *(f"{uri}/ledger/{table}" for table in tables))

    def put(worker: Path) -> None:
        for table in sorted(worker.iterdir()):
            # one copy of a block, on the data node that is next in turn
            fs("-D", "dfs.replication=1", "-put", "-t", "4", *sorted(table.iterdir()), f"{uri}/ledger/{table.name}/")
        shutil.rmtree(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(put, workers))
    fs("-put", *sorted(run.ledger.iterdir()), f"{uri}/ledger/")
    fs("-put", run.resolved, f"{uri}/")
