"""The run directory: all files of one run (see `Run`), and the only link between driving and auditing."""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from chaos.errors import RunDirError
from chaos.kinds import kind_of, mistaken

Model = TypeVar("Model", bound=BaseModel)
LONGEST_NAME = 150
"""Characters of the name of a scenario in a run id."""


def new_run_id(scenario: str) -> str:
    """Return `<scenario>-<UTC time>-<4 hex>`: sorts by time, and is unique for runs that start at the same time.

    A file may have any name: only what names of containers and the form of a DAG take, too, is kept of it.
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "_", scenario)[:LONGEST_NAME].lstrip("._-") or "run"
    return f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


class _Entry:
    """A file or folder in the run directory; on a `Run` it is the path."""

    def __init__(self, name: str, purpose: str) -> None:
        self._name, self.__doc__ = name, purpose

    def __get__(self, run: Run, owner: type[Run] | None = None) -> Path:
        return run.path / self._name


@dataclass(frozen=True)
class Run:
    """The directory of one run. `create` makes it, `open` checks it; the constructor does neither."""

    path: Path

    @classmethod
    def create(cls, runs_dir: Path, run_id: str) -> Run:
        """Make the directory of a new run. Raises `RunDirError` if it exists: a run is never overwritten."""
        run = cls(runs_dir.absolute() / run_id)
        make_folder(run.path, run.logs, run.ledger)
        return run

    @classmethod
    def create_numbered(cls, folder: Path, prefix: str) -> Run:
        """Make `<prefix><number>` with the first free number; safe for several processes at the same time."""
        number = 1
        while True:
            try:
                return cls.create(folder, f"{prefix}{number}")
            except RunDirError:
                if not (folder / f"{prefix}{number}").exists():
                    raise
            number += 1

    @classmethod
    def open(cls, path: Path) -> Run:
        """Return the run in an existing directory. Raises `RunDirError` if it is no run directory."""
        run = cls(path.absolute())
        if not run.path.exists():
            raise RunDirError(f"there is no {path}; give a run directory, such as runs/<run_id>")
        if (kind := kind_of(path)) is not None and kind != "run":
            raise RunDirError(mistaken(path, kind, "the directory of a run"))
        if not run.path.is_dir():
            raise RunDirError(f"{path} is not a directory; give a run directory, such as runs/<run_id>")
        if not run.resolved.is_file():
            raise RunDirError(f"{path} has no resolved.json, so it is not (or not completely) a run directory")
        return run

    @property
    def run_id(self) -> str:
        """Name of the directory."""
        return self.path.name

    @property
    def where(self) -> str:
        """Path for messages to users."""
        return str(self.path)

    scenario = _Entry("scenario.yaml", "The scenario as the user wrote it.")
    resolved = _Entry("resolved.json", "`chaos.scenario.resolve.Resolved`: every default, seed, versions, timeline.")
    cluster = _Entry("cluster.json", "Driver, cluster id, brokers with pid, start time and ports.")
    events = _Entry("events.jsonl", "Events of the run, one JSON object per line.")
    logs = _Entry("logs", "One log file per broker and per client.")
    ledger = _Entry("ledger", "<table>/: append-only during the drive, and sealed to Parquet at its end.")
    wire = _Entry("wire", "What clients and brokers said (*.wire), and its tables: <table>.parquet/, written by Spark.")
    audit = _Entry("audit", "<table>/: Parquet written by Spark.")
    gx = _Entry("gx", "The Great Expectations project with its Data Docs.")
    validation = _Entry("validation.json", "The outcome of each expectation.")
    report = _Entry("report.html", "The report page.")
    junit = _Entry("junit.xml", "The verdict for a CI server.")
    summary = _Entry("summary.md", "The verdict for a pull request.")
    result = _Entry("result.json", "The verdict for scripts.")
    brokers = _Entry("brokers", "The data of the brokers; removed with the cluster.")
    clusters = _Entry("clusters", "A directory like this one for each cluster beside the first one, by its name.")

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers in `cluster.json`; empty without them. Raises `RunDirError` if it is damaged."""
        deployed = read_json(self.cluster, "description of the cluster") if self.cluster.exists() else None
        return str(deployed.get("bootstrap") or "") if isinstance(deployed, dict) else ""

    def rows(self, name: str) -> Path:
        """Return a file with rows that producers write in place of records: JSON lines."""
        return self.path / "rows" / f"{name}.jsonl"

    def beside(self, name: str) -> Run:
        """Return the directory of another cluster of the run. It may not exist yet."""
        return Run(self.clusters / name)


def make_folder(path: Path, *below: Path) -> None:
    """Make a new folder and folders below it. Raises `RunDirError` if it exists or cannot be created."""
    try:
        path.mkdir(parents=True)
        for folder in below:
            folder.mkdir()
    except FileExistsError:
        raise RunDirError(f"{path} exists already; choose another --into, --runs-dir or run id") from None
    except OSError as e:
        raise RunDirError(f"cannot create {path}: {e.strerror}; choose another --runs-dir") from None


def write_json(path: Path, data: object) -> None:
    """Write data as indented JSON, as `write_atomically`."""
    write_atomically(path, json.dumps(data, indent=1) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees either the old or the new text."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def json_object(text: Any) -> dict[str, Any]:
    """Parse a JSON object from a column of the ledger; anything else is an empty object."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def read_json(path: Path, what: str) -> Any:
    """Return the content of a JSON file in a run directory. `what` names it in the `RunDirError`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunDirError(f"{path} is missing: the {what} was never written") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as e:
        raise RunDirError(f"{path} is not readable JSON ({e}): the {what} is damaged") from None


def read_model(path: Path, model: type[Model], what: str, next_step: str) -> Model:
    """Read a JSON file of a run directory as a model.

    what: the content in errors; next_step: how to repair the file. Raises `RunDirError`.
    """
    raw = read_json(path, what)
    try:
        return model.model_validate(raw)
    except ValidationError as e:
        raise RunDirError(f"{path} is not a valid {what} ({e.error_count()} errors); {next_step}") from None
