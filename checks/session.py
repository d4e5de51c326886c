"""The one Spark session of the checks: local by default, quiet, quick to start, on a cluster when a master is given."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

DRIVER_MEMORY = "2g"
SHUFFLE_PARTITIONS = 4


def spark_session(master: str | None = None, jars: Sequence[Path] = (), large: bool = False) -> SparkSession:
    """The session; an existing one is returned as it is. master: as Spark writes it, `local[*]` when None.

    jars: local files for the class path, such as Spark's Kafka source; they count only for the first session of a
    process. large: for millions of rows, let the JVM optimise fully; it costs seconds at the start. All times are UTC;
    scratch files go to the machine's temporary directory, never into the project.
    """
    # Spark's workers would otherwise take whatever `python3` is on the PATH, which lacks this environment.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("aftershock").master(master or "local[*]")
    for key, value in _settings(master is None or master.startswith("local"), large).items():
        builder = builder.config(key, value)
    if jars:
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def tuned(spark: SparkSession) -> Iterator[None]:
    """Settings that suit few rows of any size, as long as the context lasts: compiling takes longer than the work."""
    chosen = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {key: spark.conf.get(key) for key in chosen}
    for key, value in chosen.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def _settings(local: bool, large: bool) -> dict[str, str]:
    temp = tempfile.gettempdir()
    scratch = str(Path(temp) / f"aftershock-spark-{os.getuid()}")
    log4j = Path(__file__).with_name("log4j2.properties")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": os.environ.get("AFTERSHOCK_SPARK_MEMORY", DRIVER_MEMORY),
        "spark.driver.extraJavaOptions": " ".join(
            [f"-Djava.io.tmpdir={temp}", f"-Dlog4j2.configurationFile=file:{log4j}"]
            + ([] if large else ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"])
        ),
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # The call site of each column expression costs round trips to the JVM and is never shown.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if local:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings
