"""The Spark session of the checks: local by default, or on a cluster if a master is given.

AFTERSHOCK_SPARK_CONF has settings of Spark, such as `spark.driver.memory=2g spark.jars=a.jar,b.jar`. All times are UTC.
"""

from __future__ import annotations

import atexit
import contextlib
import locale
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from chaos.errors import ClusterError, MachineError, UsageError
from chaos.install.java import ExitArchive, exit_archive, find_java
from chaos.install.locations import python_path
from chaos.run.events import Event
from checks.spark import executors
from checks.spark.master import CONF, LOCAL, check, is_here, is_local, user_settings
from checks.spark.remote import reason_of

MEMORY_MB, MEMORY_PER_CORE_MB = 512, 256
"""Heap of the driver's JVM, which buffers the bytes of one part for each core: 1 GiB on two cores."""
RESULT_SIZE = "64m"
"""Limit of what one job returns to the driver: ample for summaries and capped evidence, too small for rows."""
SHUFFLE_PARTITIONS = 4
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
"""The JVM moves bytes and Python does the work: full optimisation never pays, even for 100M records, nor do threads
that collect garbage beside it (measured)."""
PAGE_SIZE = "1m"
"""What a sort, a join or an aggregation takes of the heap at first: 16 MiB by default, which are cleared each time."""
LAUNCHER_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Flags of the JVM that only makes the command of Spark's JVM."""
ARCHIVE_S = 120.0
"""How long the end of the JVM may take when it archives its classes."""
UTF8_LOCALE = "C.UTF-8"
PROGRESS_S = 1.0


def spark_session(master: str | None = None, task_modules: Sequence[str] = ()) -> SparkSession:
    """Return the active session, or start one.

    master: URL of a Spark master, `local[*]` if None. task_modules: modules that tasks import; on a cluster, an
    executor imports them once before the session is returned. Raises `UsageError`, `MachineError` or `ClusterError` if
    the master cannot be used.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    master = master or LOCAL
    check(master)
    # Otherwise Spark's workers run the first `python3` on the PATH, which lacks this environment.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = sys.executable if is_local(master) else executors.python()
    if is_local(master):
        os.environ["PYTHONPATH"] = python_path()
    if is_here(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings, archive = _settings(master), _archive(master)
    settings[JAVA_OPTIONS] = shlex.join([*shlex.split(settings[JAVA_OPTIONS]), *archive.flags])
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", shlex.join(LAUNCHER_FLAGS))
    builder = SparkSession.builder.appName("aftershock").master(master).config(map=settings)
    with _utf8_locale():
        spark = _start(builder, master)
    spark.sparkContext.setLogLevel("ERROR")
    _resolve_once(spark)
    if archive.makes:
        atexit.register(_keep, archive, spark)
        _making.append(archive)
    if not is_local(master):
        try:
            executors.prepare(spark, master, task_modules)
        except BaseException:
            spark.stop()
            raise
    return spark


def keeps_classes() -> bool:
    """Return whether the end of this process takes longer, because Spark's JVM archives its classes."""
    return bool(_making)


_making: list[ExitArchive] = []


def _archive(master: str) -> ExitArchive:
    """Return the archive of the classes of Spark's JVM, with which it takes half of the CPU time to start."""
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    given = {JAVA_OPTIONS, "spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"} & user_settings().keys()
    if not is_local(master) or given or not jars or "SPARK_HOME" in os.environ:
        return ExitArchive(())
    try:
        return exit_archive(f"spark-{pyspark.__version__}", find_java(), JVM_FLAGS, jars)
    except MachineError:
        return ExitArchive(())  # Spark says what is wrong with Java


def _keep(archive: ExitArchive, spark: SparkSession) -> None:
    """Let the JVM end, which makes the archive, and keep that."""
    spark.stop()
    gateway: Any = SparkContext._gateway
    jvm = getattr(gateway, "proc", None)
    if jvm is None:
        return
    command = psutil.Process(jvm.pid).cmdline()
    gateway.shutdown()
    jvm.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        jvm.wait(ARCHIVE_S)
        archive.keep(command[command.index("-cp") + 1])


def is_started() -> bool:
    """Return whether this thread has a session."""
    return SparkSession.getActiveSession() is not None


def _start(builder: SparkSession.Builder, master: str) -> SparkSession:
    try:
        return builder.getOrCreate()
    except Exception as e:
        if is_local(master):
            raise
        raise ClusterError(
            f"Spark did not start on {master} ({reason_of(e)}): check that it is a master of Spark "
            f"{pyspark.__version__}, and that its workers can start executors (see their logs) and reach this machine "
            "(SPARK_LOCAL_IP sets its address)"
        ) from e


def _resolve_once(spark: SparkSession) -> None:
    """Keep the classes that PySpark asks for by their short names each time that it makes a column.

    Each time, Py4J tries all packages that were imported, and the JVM looks for such classes in each jar: 8 % of the
    JVM's time in a judgement of effects (measured).
    """
    jvm: Any = spark._jvm
    for name in ("functions", "PythonUtils"):
        setattr(jvm, name, getattr(jvm, name))


@contextmanager
def _utf8_locale() -> Iterator[None]:
    """Start the JVM with a UTF-8 locale: under LANG=C it replaces each letter outside ASCII in a path by `?`."""
    before = os.environ.get("LC_ALL")
    if locale.getlocale(locale.LC_CTYPE)[1] != "UTF-8" or before in ("C", "POSIX"):
        os.environ["LC_ALL"] = UTF8_LOCALE
    try:
        yield
    finally:
        os.environ.pop("LC_ALL", None)
        if before is not None:
            os.environ["LC_ALL"] = before


def tuned(spark: SparkSession) -> AbstractContextManager[None]:
    """Apply settings for a few rows of any size while the context lasts: compiling them takes longer than the work."""
    chosen = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    return configured(spark, chosen)


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


def _settings(master: str) -> dict[str, str]:
    folder = process_folder()
    java_options = (
        f"-Djava.io.tmpdir={folder}",
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
        *JVM_FLAGS,
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.maxResultSize": RESULT_SIZE,
        JAVA_OPTIONS: shlex.join(java_options),  # Spark splits them as a shell does
        "spark.buffer.pageSize": PAGE_SIZE,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Recording the call site of each column expression costs round trips to the JVM, and nothing shows it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if is_here(master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if is_local(master):
        settings["spark.local.dir"] = str(folder)
    given = user_settings()
    if fixed := sorted(given.keys() & settings.keys()):
        raise UsageError(f"{CONF}: the session itself sets {', '.join(fixed)}; leave it out")
    memory = {"spark.driver.memory": f"{MEMORY_MB + MEMORY_PER_CORE_MB * (os.cpu_count() or 1)}m"}
    return settings | memory | given


def process_folder() -> Path:
    """Return the scratch folder of this process, after removing the scratch folders of processes that have ended.

    A JVM removes its scratch files when it exits. A killed JVM leaves `blockmgr-*`, `spark-*` and `artifacts-*` behind,
    about 100 kB each time, which would pile up under a schedule of runs. Raises `MachineError` where Spark could not
    load the native code that it unpacks there (of Snappy, for Parquet).
    """
    root = Path(tempfile.gettempdir()) / f"aftershock-spark-{os.getuid()}"
    folder = root / _folder_name(psutil.Process())
    folder.mkdir(parents=True, exist_ok=True)
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise MachineError(f"{root.parent} is mounted noexec, and Spark loads native code from there; set TMPDIR")
    for other in root.iterdir():
        if other != folder and not _is_in_use(other.name):
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _folder_name(process: psutil.Process) -> str:
    # a pid alone may belong to another process later
    return f"{process.pid}-{round(process.create_time() * 1000)}"


def _is_in_use(name: str) -> bool:
    try:
        return _folder_name(psutil.Process(int(name.partition("-")[0]))) == name
    except (ValueError, psutil.NoSuchProcess):
        return False


@contextmanager
def reported(spark: SparkSession, stage: str, listener: Callable[[Event], None] | None) -> Iterator[None]:
    """While the context lasts, pass an event `work` with the finished and total tasks to the listener every second."""
    if listener is None:
        yield
        return
    ended, tracker = threading.Event(), spark.sparkContext.statusTracker()

    def report() -> None:
        while not ended.wait(PROGRESS_S):
            stages = [info for number in tracker.getActiveStageIds() if (info := tracker.getStageInfo(number))]
            if stages:
                done, total = sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)
                listener({"kind": "work", "stage": stage, "done": done, "total": total})

    thread = threading.Thread(target=report, daemon=True, name="progress")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(PROGRESS_S)
