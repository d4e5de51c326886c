"""Run directories on any file system that Hadoop knows: `hdfs://host:port/runs/x`, `s3a://bucket/runs/x`, `file:///x`.

A `Mirror` is a run directory on this machine with what is small of one elsewhere: scenario, events, seal, the ledger's
small tables, earlier results. The large tables (sends, deliveries, commits, log) stay where they are, and Spark's
executors read them there. Stages work on a mirror as on any run directory. `publish` then puts the results beside the
ledger: each file or table whole or not at all, `result.json` last, so that who sees it sees what it stands on.

Everything goes through Hadoop's FileSystem in the session's JVM, so whatever Spark can read works. Settings are
Hadoop's own, in HADOOP_CONF_DIR; jars of a file system that PySpark does not ship are named by AFTERSHOCK_SPARK_JARS.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from chaos.errors import RunDirError
from chaos.ledger.schemas import TABLES
from chaos.run.directory import Run

LARGE = ("sends", "deliveries", "commits")
"""Tables of the ledger that are as large as the load, beside the log."""
GIVEN = (
    *("scenario.yaml", "resolved.json", "cluster.json", "events.jsonl"),
    *("ledger/seal.json", "ledger/log_range.parquet"),
    *(f"ledger/{table}.parquet" for table in TABLES if table not in LARGE),
)
RESULTS = ("audit", "gx", "validation.json", "events.jsonl", "report.html", "junit.xml", "result.json")
"""In the order in which they are put there."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_T = TypeVar("_T")


def is_uri(text: str) -> bool:
    """Whether it names a run directory by URI and not by a path."""
    return _URI.match(text) is not None


@dataclass(frozen=True)
class Mirror(Run):
    """The working copy at `path` of the run directory at `uri`."""

    uri: str
    spark: Any

    @property
    def where(self) -> str:
        """Where the run is, for a person."""
        return self.uri

    @classmethod
    def fetch(cls, spark: Any, uri: str, work: Path) -> Mirror:
        """Copy what is small to a folder in `work`. Raises `RunDirError` for what cannot be reached or is no run."""
        uri = uri.rstrip("/")
        run = cls(work.absolute() / uri.rsplit("/", 1)[-1], uri, spark)
        if not _told(uri, lambda: run._fs.exists(run._there("resolved.json"))):
            raise RunDirError(f"{uri} has no resolved.json, so it is not (or not completely) a run directory")
        run.ledger.mkdir(parents=True, exist_ok=True)
        run.logs.mkdir(exist_ok=True)
        for name in dict.fromkeys((*GIVEN, *RESULTS[:3])):
            run._get(name)
        if run.exists("ledger/log"):
            (run.ledger / "log").mkdir(exist_ok=True)  # says that it was read back; its files stay
        return run

    def parts(self, folder: str) -> list[str]:
        """The Parquet files in a folder of the run, in the order of their names; none where there is no folder."""
        if not self.exists(folder):
            return []
        statuses = _told(self.uri, lambda: self._fs.listStatus(self._there(folder)))
        return sorted(str(s.getPath().toString()) for s in statuses if s.getPath().getName().endswith(".parquet"))

    def exists(self, name: str) -> bool:
        """Whether the run has a file or folder of this name."""
        return bool(_told(self.uri, lambda: self._fs.exists(self._there(name))))

    def forget(self, names: Iterable[str]) -> None:
        """Remove results: the stages that now begin make them anew, and no verdict outlives what it was based on."""
        for name in names:
            _told(self.uri, partial(self._delete, name))

    def publish(self) -> None:
        """Put all results beside the ledger."""
        for name in RESULTS:
            if (self.path / name).exists():
                _told(self.uri, partial(self._put, name))

    def _get(self, name: str) -> None:
        if self.exists(name):
            here = self._path(f"file:{self.path / name}")
            _told(self.uri, lambda: self._fs.copyToLocalFile(False, self._there(name), here, True))

    def _delete(self, name: str) -> None:
        self._fs.delete(self._there(name), True)

    def _put(self, name: str) -> None:
        """Copy it to a name that nobody looks for, then give it its own."""
        half = self._there(f".{name}.{secrets.token_hex(4)}")
        fs = self._fs
        try:
            fs.copyFromLocalFile(False, True, self._path(f"file:{self.path / name}"), half)
            if (self.path / name).is_dir():
                fs.delete(self._there(name), True)
                if not fs.rename(half, self._there(name)):
                    raise RunDirError(f"{self.uri}/{name} could not be written: its file system refused to rename it")
            else:
                jvm, gateway = self.spark._jvm, self.spark.sparkContext._gateway
                options = gateway.new_array(jvm.org.apache.hadoop.fs.Options.Rename, 1)
                options[0] = jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE
                jvm.org.apache.hadoop.fs.FileContext.getFileContext(half.toUri(), self._conf).rename(
                    half, self._there(name), options
                )
        finally:
            fs.delete(half, True)

    @property
    def _conf(self) -> Any:
        return self.spark.sparkContext._jsc.hadoopConfiguration()

    @property
    def _fs(self) -> Any:
        fs = self._path(self.uri).getFileSystem(self._conf)
        fs.setWriteChecksum(False)  # a local file system would put a .crc beside each file
        return fs

    def _path(self, text: str) -> Any:
        return self.spark._jvm.org.apache.hadoop.fs.Path(text)

    def _there(self, name: str) -> Any:
        return self._path(f"{self.uri}/{name}")


def _told(uri: str, ask: Callable[[], _T]) -> _T:
    """Ask a file system; what it refuses in one line."""
    try:
        return ask()
    except RunDirError:
        raise
    except Exception as e:  # noqa: BLE001 - whatever a file system raises in the JVM arrives as one type
        java = getattr(e, "java_exception", None)
        words = str(java.toString() if java is not None else e).strip().splitlines()[0][:300]
        raise RunDirError(
            f"{uri} cannot be used ({words}); see that its file system is up and configured in HADOOP_CONF_DIR, and "
            "name the jars it needs in AFTERSHOCK_SPARK_JARS"
        ) from None
