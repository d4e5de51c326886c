"""What a session on a Spark cluster needs beyond a local one: executors that are there, and know our packages.

Executors run the interpreter named by AFTERSHOCK_SPARK_PYTHON (this one's path when unset) and need what is in
requirements.txt but Airflow and Great Expectations; `chaos` and `checks` themselves are sent to them. Whatever else a
cluster wants (queues, security, shuffle service) stands in its own settings: SPARK_CONF_DIR, HADOOP_CONF_DIR.

    AFTERSHOCK_SPARK_EXECUTOR_MEMORY   of an executor's JVM, 1g when unset; Python takes some 500 MB a core beside it
    AFTERSHOCK_SPARK_CORES             at most so many cores of the cluster; all that it gives when unset
    AFTERSHOCK_SPARK_TIMEOUT_S         how long to wait for the first executor, 120
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import chaos
import checks
from chaos.errors import ClusterError
from chaos.run.directory import Run

TIMEOUT_S = 120.0
SETTLED_S = 1.0
LOOK_EVERY_S = 0.2
WATCH_EVERY_S = 5.0

_lost: list[str] = []
"""Why the session was ended, when it was for want of executors."""


def settings(here: bool) -> dict[str, str]:
    """Spark's settings for a master that is not local. here: executors are on this machine."""
    chosen = {}
    if memory := os.environ.get("AFTERSHOCK_SPARK_EXECUTOR_MEMORY"):
        chosen["spark.executor.memory"] = memory
    if cores := os.environ.get("AFTERSHOCK_SPARK_CORES"):
        chosen["spark.cores.max"] = cores
    if here:
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return chosen


def python() -> str:
    """The interpreter of the executors."""
    return os.environ.get("AFTERSHOCK_SPARK_PYTHON") or sys.executable


def make_ready(spark: SparkSession, master: str) -> None:
    """Send our packages, wait for an executor, and see that its Python can run them.

    Raises `ClusterError` if none comes in time, or if its Python lacks something: by itself Spark would wait for ever.
    """
    folder = tempfile.TemporaryDirectory(prefix="aftershock-")
    atexit.register(folder.cleanup)  # executors that come late fetch it from there
    packed = Path(folder.name) / "aftershock.zip"
    _pack(packed)
    spark.sparkContext.addPyFile(str(packed))
    _wait(spark, master)
    _try(spark, master)
    threading.Thread(target=_watch, args=(spark, master), daemon=True, name="executors").start()


def count(spark: SparkSession) -> int:
    """How many executors there are at the moment; the driver is none."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def trouble(run: Run, error: Exception) -> str:
    """Why a job broke off on a cluster, where it is the cluster's doing and what to do is known; else empty."""
    if _lost:
        return _lost[0]
    words = str(error)
    if "FileNotFoundException" in words or "FILE_NOT_EXIST" in words:
        return (
            f"the executors do not see all files of {run.where}: put it where driver and executors both do (a shared "
            "disk, hdfs://...), or audit it here without --spark-master"
        )
    if "spark.driver.maxResultSize" in words:
        return "the summaries of this run exceed what the driver takes (64 MB): please report it, with the run's size"
    return ""


def _pack(path: Path) -> None:
    """Our sources as a zip of a few hundred kB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in (chaos, checks):
            root = Path(package.__path__[0])
            for source in sorted(root.rglob("*.py")):
                archive.write(source, f"{package.__name__}/{source.relative_to(root)}")


def _timeout_s() -> float:
    return float(os.environ.get("AFTERSHOCK_SPARK_TIMEOUT_S", TIMEOUT_S))


def _wait(spark: SparkSession, master: str) -> None:
    """Until executors are there and no more come: what they are many of is decided by their cores."""
    began = changed = time.monotonic()
    known = 0
    while not known or time.monotonic() - changed < SETTLED_S:
        if (found := count(spark)) != known:
            known, changed = found, time.monotonic()
        if not known and time.monotonic() - began > _timeout_s():
            raise ClusterError(_nobody(master, f"gave no executor within {_timeout_s():.0f} s"))
        time.sleep(LOOK_EVERY_S)


def _nobody(master: str, what: str) -> str:
    memory = os.environ.get("AFTERSHOCK_SPARK_EXECUTOR_MEMORY", "1g")
    return (
        f"the Spark master {master} {what}: see in its web page whether workers have a free core and {memory} of "
        "memory (AFTERSHOCK_SPARK_EXECUTOR_MEMORY asks for less) and can reach this machine, then try again"
    )


def _try(spark: SparkSession, master: str) -> None:
    """One task that imports what the audit's tasks do."""

    def imports(_: Any) -> str:
        try:
            import checks.audit.large.scan  # noqa: F401
        except ImportError as e:
            return f"{e} ({sys.version.split()[0]} at {sys.executable})"
        return ""

    try:
        (missing,) = spark.sparkContext.parallelize([0], 1).map(imports).collect()
    except Exception as e:  # noqa: BLE001 - whatever Spark raises, the task could not run
        missing = _cause(e)
    if missing:
        raise ClusterError(
            f"the executors of {master} cannot run our Python: {missing}; install requirements.txt there for Python "
            f"{sys.version_info.major}.{sys.version_info.minor}, and set AFTERSHOCK_SPARK_PYTHON to its interpreter"
        )


def _cause(error: Exception) -> str:
    """The last line that names an error, of the many in which Spark tells it."""
    lines = [line.strip() for line in str(error).splitlines() if "Error" in line or "Exception" in line]
    return (lines[-1] if lines else type(error).__name__)[:300]


def _watch(spark: SparkSession, master: str) -> None:
    """End the session when all executors stay away: its jobs would wait for ever."""
    lost_since: float | None = None
    while True:
        time.sleep(WATCH_EVERY_S)
        try:
            present = count(spark)
        except Exception:  # noqa: BLE001 - the session has ended, and with it the watch
            return
        lost_since = None if present else lost_since or time.monotonic()
        if lost_since and time.monotonic() - lost_since > _timeout_s():
            _lost.append(_nobody(master, f"has had no executor for {_timeout_s():.0f} s"))
            spark.sparkContext._jsc.sc().stop()
            return
