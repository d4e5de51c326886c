"""The Spark session of the checks: local by default, or on a cluster if a master is given."""

from __future__ import annotations

import locale
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from chaos.errors import ClusterError
from checks.spark import executors
from checks.spark.master import LOCAL, check, is_here, is_local
from checks.spark.scratch import process_folder

MEMORY_MB, MEMORY_PER_CORE_MB = 512, 256
"""Heap of the driver's JVM, which buffers the bytes of one part for each core: 1 GiB on two cores."""
RESULT_SIZE = "64m"
"""Limit of what one job returns to the driver: ample for summaries and capped evidence, too small for rows."""
SHUFFLE_PARTITIONS = 4
UTF8_LOCALE = "C.UTF-8"


def spark_session(master: str | None = None, task_modules: Sequence[str] = ()) -> SparkSession:
    """Return the active session, or start one.

    master: URL of a Spark master, `local[*]` if None. task_modules: modules that tasks import; on a cluster, an
    executor imports them once before the session is returned. All times are UTC. Scratch files go to a folder of this
    process (`scratch`). AFTERSHOCK_SPARK_JARS names additional jars, separated by commas, such as those of a file
    system. Raises `UsageError`, `MachineError` or `ClusterError` if the master cannot be used.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    master = master or LOCAL
    check(master)
    # Otherwise Spark's workers run the first `python3` on the PATH, which lacks this environment.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        _add_project_to_pythonpath()
    os.environ["PYSPARK_PYTHON"] = sys.executable if is_local(master) else executors.python()
    if is_here(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("aftershock").master(master)
    folder = process_folder()
    for key, value in (_settings(folder) | _settings_of(master, folder)).items():
        builder = builder.config(key, value)
    with _utf8_locale():
        spark = _start(builder, master)
    spark.sparkContext.setLogLevel("ERROR")
    if not is_local(master):
        try:
            executors.prepare(spark, master, task_modules)
        except BaseException:
            spark.stop()
            raise
    return spark


def _start(builder: SparkSession.Builder, master: str) -> SparkSession:
    try:
        return builder.getOrCreate()
    except Exception as e:
        if is_local(master):
            raise
        java = getattr(e, "java_exception", None)
        reason = (str(java.toString() if java is not None else e).strip() or type(e).__name__).splitlines()[0][:300]
        raise ClusterError(
            f"Spark did not start on {master} ({reason}): check that it is a master of Spark {pyspark.__version__}, "
            "and that its workers can start executors (see their logs) and reach this machine (SPARK_LOCAL_IP sets "
            "its address)"
        ) from e


@contextmanager
def _utf8_locale() -> Iterator[None]:
    """Start the JVM with a UTF-8 locale: under LANG=C it replaces each letter outside ASCII in a path by `?`."""
    if locale.getlocale(locale.LC_CTYPE)[1] == "UTF-8" and os.environ.get("LC_ALL") not in ("C", "POSIX"):
        yield
        return
    before = os.environ.get("LC_ALL")
    os.environ["LC_ALL"] = UTF8_LOCALE
    try:
        yield
    finally:
        if before is None:
            del os.environ["LC_ALL"]
        else:
            os.environ["LC_ALL"] = before


@contextmanager
def tuned(spark: SparkSession) -> Iterator[None]:
    """Apply settings for a few rows of any size while the context lasts: compiling them takes longer than the work."""
    chosen = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    with configured(spark, chosen):
        yield


@contextmanager
def configured(spark: SparkSession, chosen: dict[str, str]) -> Iterator[None]:
    """Apply settings of Spark SQL while the context lasts."""
    before = {key: spark.conf.get(key, None) for key in chosen}
    for key, value in chosen.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def _settings(folder: Path) -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties")
    java_options = (
        f"-Djava.io.tmpdir={folder}",
        f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        # The JVM moves bytes and Python does the work: full optimisation never pays, even for 100M records (measured).
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=240m",
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": os.environ.get("AFTERSHOCK_SPARK_MEMORY")
        or f"{MEMORY_MB + MEMORY_PER_CORE_MB * (os.cpu_count() or 1)}m",
        "spark.driver.maxResultSize": RESULT_SIZE,
        "spark.driver.extraJavaOptions": shlex.join(java_options),  # Spark splits them as a shell does
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Recording the call site of each column expression costs round trips to the JVM, and nothing shows it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if jars := os.environ.get("AFTERSHOCK_SPARK_JARS"):
        settings["spark.jars"] = jars
    return settings


def _settings_of(master: str, folder: Path) -> dict[str, str]:
    """Return the settings that depend on the location of the executors."""
    if not is_local(master):
        return executors.settings(is_here(master))
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
    }


def _add_project_to_pythonpath() -> None:
    """Let Spark's local Python workers import this project, from whichever directory Airflow started this process."""
    root, path = str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")
    if root not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, path]))
