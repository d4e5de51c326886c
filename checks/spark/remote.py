"""Run directories on any file system that Hadoop knows: `hdfs://host:port/runs/x`, `s3a://bucket/runs/x`, `file:///x`.

A `Mirror` is a run directory on this machine that holds the small files of a remote one: scenario, events, seal, the
small tables of the ledger, earlier results. The large tables (`LARGE` and the log) stay remote, and Spark's
executors read them there. Stages use a mirror like any other run directory. `publish` then copies the results to the
remote directory: each file or table completely or not at all, and `result.json` last, after everything it refers to.

All access goes through Hadoop's FileSystem in the JVM of the session, so every file system that Spark can read works.
Configure it in HADOOP_CONF_DIR; `spark.jars` in AFTERSHOCK_SPARK_CONF names jars of file systems that PySpark lacks.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.errors import RunDirError
from chaos.ledger.schemas import LARGE, TABLES
from chaos.run.directory import Run

INPUTS = (
    *("scenario.yaml", "resolved.json", "cluster.json", "events.jsonl"),
    *("ledger/seal.json", "ledger/log_range.parquet", "ledger/batches.parquet"),
    *("ledger/commit_log.parquet", "ledger/commit_log_range.parquet"),
    *("ledger/effect_reads.parquet", "ledger/effect_sights"),
    *(f"ledger/{table}.parquet" for table in TABLES if table not in LARGE),
)
RESULTS = ("audit", "gx", "validation.json", "events.jsonl", "report.html", "junit.xml", "summary.md", "result.json")
"""In the order of publication."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_uri(text: str) -> bool:
    """Return whether the text is a URI and not a path."""
    return _URI.match(text) is not None


@dataclass(frozen=True)
class Mirror(Run):
    """Working copy at `path` of the run directory at `uri`."""

    uri: str
    spark: Any

    @property
    def where(self) -> str:
        """Location of the run in messages."""
        return self.uri

    @classmethod
    def fetch(cls, spark: Any, uri: str, work: Path) -> Mirror:
        """Copy the small files to a folder in `work`. Raises `RunDirError` if `uri` is out of reach or not a run."""
        uri = uri.rstrip("/")
        run = cls(work.absolute() / uri.rsplit("/", 1)[-1], uri, spark)
        if not run.exists("resolved.json"):
            raise RunDirError(f"{uri} has no resolved.json, so it is not (or not completely) a run directory")
        run.ledger.mkdir(parents=True, exist_ok=True)
        run.logs.mkdir(exist_ok=True)
        for name in dict.fromkeys((*INPUTS, *RESULTS[:3])):
            run._get(name)
        if run.exists("ledger/log"):
            (run.ledger / "log").mkdir(exist_ok=True)  # marks the log as read back; its files stay remote
        return run

    def parts(self, folder: str) -> list[str]:
        """Return the URIs of the Parquet files in a folder of the run, by name; empty if there is no folder."""
        if not self.exists(folder):
            return []
        with _access(self.uri):
            statuses = self._fs.listStatus(self._remote(folder))
        return sorted(str(s.getPath().toString()) for s in statuses if s.getPath().getName().endswith(".parquet"))

    def exists(self, name: str) -> bool:
        """Return whether the run has a file or folder of this name."""
        with _access(self.uri):
            return bool(self._fs.exists(self._remote(name)))

    def forget(self, names: Iterable[str]) -> None:
        """Remove earlier results, so that no verdict outlives the tables it is based on."""
        with _access(self.uri):
            for name in names:
                self._fs.delete(self._remote(name), True)

    def publish(self) -> None:
        """Copy all results to the remote run directory."""
        with _access(self.uri):
            for name in RESULTS:
                if (self.path / name).exists():
                    self._put(name)

    def _get(self, name: str) -> None:
        if self.exists(name):
            with _access(self.uri):
                self._fs.copyToLocalFile(False, self._remote(name), self._path(f"file:{self.path / name}"), True)

    def _put(self, name: str) -> None:
        """Copy a result to a temporary name, then rename it."""
        half = self._remote(f".{name}.{secrets.token_hex(4)}")
        fs = self._fs
        try:
            fs.copyFromLocalFile(False, True, self._path(f"file:{self.path / name}"), half)
            if (self.path / name).is_dir():
                fs.delete(self._remote(name), True)
                if not fs.rename(half, self._remote(name)):
                    raise RunDirError(f"{self.uri}/{name} could not be written: its file system refused to rename it")
            else:
                hadoop = self.spark._jvm.org.apache.hadoop.fs
                options = self.spark.sparkContext._gateway.new_array(hadoop.Options.Rename, 1)
                options[0] = hadoop.Options.Rename.OVERWRITE
                hadoop.FileContext.getFileContext(half.toUri(), self._conf).rename(half, self._remote(name), options)
        finally:
            fs.delete(half, True)

    @property
    def _conf(self) -> Any:
        return self.spark.sparkContext._jsc.hadoopConfiguration()

    @property
    def _fs(self) -> Any:
        fs = self._path(self.uri).getFileSystem(self._conf)
        fs.setWriteChecksum(False)  # a local file system would put a .crc next to each file
        return fs

    def _path(self, text: str) -> Any:
        return self.spark._jvm.org.apache.hadoop.fs.Path(text)

    def _remote(self, name: str) -> Any:
        return self._path(f"{self.uri}/{name}")


@contextmanager
def _access(uri: str) -> Iterator[None]:
    """Raise the error of an operation on a file system as a `RunDirError` with its first line."""
    try:
        yield
    except RunDirError:
        raise
    except Exception as e:  # noqa: BLE001 - every error in the JVM arrives as the same type
        raise RunDirError(
            f"{uri} cannot be used ({reason_of(e)}); check that its file system is up and configured in "
            "HADOOP_CONF_DIR, and name the jars it needs as spark.jars in AFTERSHOCK_SPARK_CONF"
        ) from None


def reason_of(error: Exception) -> str:
    """Return the first line of an error, or of the one in the JVM that caused it."""
    java = getattr(error, "java_exception", None)
    text = str(error if java is None else java.toString()).strip() or type(error).__name__
    return text.splitlines()[0][:300]
