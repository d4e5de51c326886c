"""Executors of a Spark cluster: waiting for them, sending them our packages, and noticing when all are gone.

Executors run the interpreter of `spark.pyspark.python` (the path of this one by default). It needs the packages in
requirements.txt except Airflow and Great Expectations; the session sends `chaos` and `checks` to it. Settings come from
AFTERSHOCK_SPARK_CONF (`checks.spark.master.user_settings`); other settings of a cluster (queues, security, shuffle
service) belong in SPARK_CONF_DIR and HADOOP_CONF_DIR.
"""

from __future__ import annotations

import atexit
import importlib
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import chaos
import checks
from chaos.errors import ClusterError, UsageError
from chaos.install.locations import PREFIX
from chaos.run.directory import Run
from checks.spark.master import CONF, user_settings

TIMEOUT = "spark.scheduler.maxRegisteredResourcesWaitingTime"
"""How long to wait for executors, in seconds, such as `300s`. Here, it also applies to the first one."""
TIMEOUT_S = 120.0
SETTLED_S = 1.0
"""Time without a new executor after which the session counts as complete."""
POLL_S = 0.2
WATCH_S = 5.0

_lost: list[str] = []
"""Why the watch ended the session, if it did."""


def python() -> str:
    """Return the path of the executors' interpreter."""
    return user_settings().get("spark.pyspark.python") or sys.executable


def prepare(spark: SparkSession, master: str, task_modules: Sequence[str]) -> None:
    """Send our packages, wait for an executor, and check that its Python can import the modules of the tasks.

    Raises `ClusterError` if no executor starts in time or a package is missing; Spark alone would wait for ever.
    """
    folder = tempfile.TemporaryDirectory(prefix="aftershock-")
    atexit.register(folder.cleanup)  # executors that start later fetch it from there
    packed = Path(folder.name) / "aftershock.zip"
    _pack(packed)
    spark.sparkContext.addPyFile(str(packed))
    _wait(spark, master)
    _probe(spark, master, task_modules)
    threading.Thread(target=_watch, args=(spark, master), daemon=True, name="executors").start()


def _count(spark: SparkSession) -> int:
    """Return the current number of executors, without the driver."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def trouble(run: Run, error: Exception) -> str:
    """Return why a job failed and what to do, if the cluster is the known cause; else an empty string."""
    if _lost:
        return _lost[0]
    text = str(error)
    if "FileNotFoundException" in text or "FILE_NOT_EXIST" in text:
        return (
            f"the executors do not see all files of {run.where}: put it on storage that driver and executors share (a "
            "shared disk, hdfs://...), or audit it here without --spark-master"
        )
    if "spark.driver.maxResultSize" in text:
        return "the summaries of this run exceed the limit of the driver (64 MB): report it with the size of the run"
    return ""


def _pack(path: Path) -> None:
    """Write our sources to a zip file of a few hundred kB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in (chaos, checks):
            root, name = Path(package.__path__[0]), package.__name__.replace(".", "/")
            for source in sorted(root.rglob("*.py")):
                archive.write(source, f"{name}/{source.relative_to(root)}")
        if PREFIX:
            archive.writestr(f"{PREFIX.rstrip('.')}/__init__.py", "")


def _timeout_s() -> float:
    given = user_settings().get(TIMEOUT, f"{TIMEOUT_S}s")
    try:
        return float(given.removesuffix("s"))
    except ValueError:
        raise UsageError(f"{CONF}: {TIMEOUT} is {given!r}; write seconds, such as 300s") from None


def _wait(spark: SparkSession, master: str) -> None:
    """Wait until executors have started and no more follow: the number of parts depends on their cores."""
    began = changed = time.monotonic()
    present = 0
    while not present or time.monotonic() - changed < SETTLED_S:
        if (now := _count(spark)) != present:
            present, changed = now, time.monotonic()
        if not present and time.monotonic() - began > _timeout_s():
            raise ClusterError(_no_executor(master, f"gave no executor within {_timeout_s():.0f} s"))
        time.sleep(POLL_S)


def _no_executor(master: str, what: str) -> str:
    memory = user_settings().get("spark.executor.memory", "1g")
    return (
        f"the Spark master {master} {what}: check in its web page that workers have a free core and {memory} of memory "
        f"(spark.executor.memory in {CONF} sets less) and can reach this machine, then try again"
    )


def _probe(spark: SparkSession, master: str, task_modules: Sequence[str]) -> None:
    """Run one task that imports the modules."""

    def imports(_: Any) -> str:
        try:
            for module in task_modules:
                importlib.import_module(module)
        except ImportError as e:
            return f"{e} ({sys.version.split()[0]} at {sys.executable})"
        return ""

    try:
        (missing,) = spark.sparkContext.parallelize([0], 1).map(imports).collect()
    except Exception as e:  # noqa: BLE001 - whichever error Spark raises, the task could not run
        missing = _cause(e)
    if missing:
        raise ClusterError(
            f"the executors of {master} cannot run our Python: {missing}; install requirements.txt there for Python "
            f"{sys.version_info.major}.{sys.version_info.minor}, and set spark.pyspark.python in "
            f"{CONF} to its interpreter"
        )


def _cause(error: Exception) -> str:
    """Return the last line of Spark's message that names an error."""
    lines = [line.strip() for line in str(error).splitlines() if "Error" in line or "Exception" in line]
    return (lines[-1] if lines else type(error).__name__)[:300]


def _watch(spark: SparkSession, master: str) -> None:
    """Stop the session once there has been no executor for the time-out: its jobs would wait for ever."""
    lost_since: float | None = None
    while True:
        time.sleep(WATCH_S)
        try:
            present = _count(spark)
        except Exception:  # noqa: BLE001 - the session has ended, so the watch ends too
            return
        lost_since = None if present else lost_since or time.monotonic()
        if lost_since and time.monotonic() - lost_since > _timeout_s():
            _lost.append(_no_executor(master, f"has had no executor for {_timeout_s():.0f} s"))
            spark.sparkContext._jsc.sc().stop()
            return
