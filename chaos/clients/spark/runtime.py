"""Spark Structured Streaming as a client library: the Spark of pyspark, with the Kafka source of its release."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from chaos.clients.choice import Client
from chaos.clients.jvm import SOURCES, JavaPrograms
from chaos.clients.runtime import Installed, Runtime
from chaos.clients.spark.traits import RELEASE, TRAITS
from chaos.errors import MachineError
from chaos.install.cache import Progress
from chaos.install.jars import resolve
from chaos.install.java import JAVA_ENVIRONMENT

HEAP = 512 * 2**20
MAIN, TRAINING = "aftershock.SparkMain", "aftershock.SparkTraining"
QUERY_SOURCES = Path(__file__).with_name("src") / "aftershock"
_SOURCE_JARS = (
    "spark-sql-kafka-*.jar",
    "spark-token-provider-kafka-*.jar",
    "kafka-clients-*.jar",
    "commons-pool2-*.jar",
)
"""The jars that pyspark does not have."""
_OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
        *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
        *("sun.security.action", "sun.util.calendar"),
    )
)
"""Packages of Java that Spark needs (its JavaModuleOptions)."""


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Fetch the Kafka source, and compile the program; see `Runtime`."""
    folder = resolve("org.apache.spark", "spark-sql-kafka-0-10_2.13", RELEASE, on_progress)
    source = [path for pattern in _SOURCE_JARS for path in sorted(folder.glob(pattern))]
    roots = (SOURCES, QUERY_SOURCES)
    programs = JavaPrograms(TRAITS.library, RELEASE, _spark_jars(), MAIN, roots, source, TRAINING)
    classes = programs.compiled(on_progress)
    archived = programs.archived(classes, _OPENED, on_progress)
    command = programs.command(classes, client.heap or HEAP, *_OPENED, *archived)
    return Installed(TRAITS.library, {"assign_consumer": command}, {**JAVA_ENVIRONMENT, "SPARK_LOCAL_IP": "127.0.0.1"})


def _spark_jars() -> Path:
    """Return the folder with the jars of Spark in pyspark. Raises `MachineError` if it is not there."""
    spec = importlib.util.find_spec("pyspark")  # located, not imported
    for directory in (spec.submodule_search_locations or []) if spec else []:
        if (jars := Path(directory) / "jars").is_dir():
            return jars
    raise MachineError(
        "the jars of PySpark are not there; install the project's requirements: pip install -r requirements.txt"
    )


RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: RELEASE,
    prepare=prepare,
    consumer_defaults=lambda release: {},
)
