"""The one Spark session of the checks: local by default, quiet, quick to start, on a cluster when a master is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from chaos.errors import ClusterError
from checks.spark import executors
from checks.spark.master import LOCAL, check, is_here, is_local
from checks.spark.scratch import own_folder

MEMORY_MB, MEMORY_PER_CORE_MB = 512, 256
"""Of the driver's JVM, which hands on the bytes of a part for each core at once: 1 GiB on two cores."""
RESULT_SIZE = "64m"
"""Of all that one job may tell the driver: summaries and capped evidence fit many times over, rows would not."""
SHUFFLE_PARTITIONS = 4


def spark_session(master: str | None = None) -> SparkSession:
    """The session; an existing one is returned as it is. master: as Spark writes it, `local[*]` when None.

    All times are UTC. Scratch files go to a folder of this process (`scratch`), never into the project.
    AFTERSHOCK_SPARK_JARS names jars to add, such as a file system's, with commas between. Raises `UsageError`,
    `MachineError` or `ClusterError` for a master that cannot be had.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    master = master or LOCAL
    check(master)
    # Spark's workers would otherwise take whatever `python3` is on the PATH, which lacks this environment.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        _let_workers_find_us()
    os.environ["PYSPARK_PYTHON"] = sys.executable if is_local(master) else executors.python()
    if is_here(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("aftershock").master(master)
    folder = own_folder()
    for key, value in (_settings(folder) | _settings_of(master, folder)).items():
        builder = builder.config(key, value)
    spark = _begun(builder, master)
    spark.sparkContext.setLogLevel("ERROR")
    if not is_local(master):
        try:
            executors.make_ready(spark, master)
        except BaseException:
            spark.stop()
            raise
    return spark


def _begun(builder: SparkSession.Builder, master: str) -> SparkSession:
    try:
        return builder.getOrCreate()
    except Exception as e:
        if is_local(master):
            raise
        java = getattr(e, "java_exception", None)
        words = (str(java.toString() if java is not None else e).strip() or type(e).__name__).splitlines()[0][:300]
        raise ClusterError(
            f"Spark did not start on {master} ({words}): see that it is a master of Spark {pyspark.__version__}, whose "
            "workers can start executors (their logs tell) and reach this machine (SPARK_LOCAL_IP names its address)"
        ) from e


@contextmanager
def tuned(spark: SparkSession) -> Iterator[None]:
    """Settings that suit few rows of any size, as long as the context lasts: compiling takes longer than the work."""
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
    """These settings, for as long as the context lasts."""
    before = {key: spark.conf.get(key, None) for key in chosen}
    for key, value in chosen.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, was in before.items():
            spark.conf.unset(key) if was is None else spark.conf.set(key, was)


def _settings(folder: Path) -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": os.environ.get("AFTERSHOCK_SPARK_MEMORY")
        or f"{MEMORY_MB + MEMORY_PER_CORE_MB * (os.cpu_count() or 1)}m",
        "spark.driver.maxResultSize": RESULT_SIZE,
        # The JVM hands bytes on, Python does the work: optimising fully never pays, even for 100M records (measured).
        "spark.driver.extraJavaOptions": (
            f"-Djava.io.tmpdir={folder} -Dlog4j2.configurationFile=file:{log4j} "
            "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
        ),
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # The call site of each column expression costs round trips to the JVM and is never shown.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if jars := os.environ.get("AFTERSHOCK_SPARK_JARS"):
        settings["spark.jars"] = jars
    return settings


def _settings_of(master: str, folder: Path) -> dict[str, str]:
    """What hangs on where executors are."""
    if not is_local(master):
        return executors.settings(is_here(master))
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
    }


def _let_workers_find_us() -> None:
    """Put the project on the path of Spark's local Python workers, wherever this process was started by Airflow."""
    root, known = str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")
    if root not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, known]))
