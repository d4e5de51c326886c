"""`python -m tests.system.spark_audit RUN_DIR MASTER`: an audit in its own process, and Spark's figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from chaos.run.directory import Run
from chaos.scenario.resolve import read as read_resolved
from checks.audit import audit
from checks.spark.session import spark_session


def figures(sc: Any) -> dict[str, Any]:
    """Return the tasks by executor, and the bytes of all results that reached the driver."""
    store, jvm = sc._jsc.sc().statusStore(), sc._jvm
    nothing = sc._gateway.new_array(jvm.double, 0)
    stages = store.stageList(None, False, False, nothing, jvm.java.util.ArrayList())
    executors = store.executorList(True)
    tasks = {e.id(): e.completedTasks() for e in (executors.apply(i) for i in range(executors.size()))}
    sizes = [stages.apply(i).resultSize() for i in range(stages.size())]
    return {"tasks": tasks, "bytes": sum(sizes), "limit": sc.getConf().get("spark.driver.maxResultSize")}


def main(run_dir: str, master: str) -> None:
    run = Run.open(Path(run_dir))
    spark = spark_session(master)
    audit(spark, run, read_resolved(run))
    print(json.dumps(figures(spark.sparkContext)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
