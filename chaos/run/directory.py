"""The run directory: where everything of one run lives, and the only link between driving and auditing.

runs/<run_id>/
  scenario.yaml    as given
  resolved.json    every default filled in, seed, versions, timeline   (chaos.scenario.Resolved)
  cluster.json     driver, brokers with pid and start time, ports, cluster id
  events.jsonl     what the run is doing, one JSON object a line, for people and `watch`
  logs/            one file per broker and per client
  ledger/<table>/  written while driving, append-only; sealed to Parquet at the end of the drive
  audit/<table>/   Parquet written by Spark
  gx/              Great Expectations project with Data Docs
  report.html  junit.xml  result.json
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from chaos.errors import RunDirError

Model = TypeVar("Model", bound=BaseModel)


def new_run_id(scenario: str) -> str:
    """`<scenario>-<UTC time>-<4 hex>`: sorts by time within a scenario and is unique when two runs start at once."""
    return f"{scenario}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


@dataclass(frozen=True)
class Run:
    """Paths of one run. Creating the object touches nothing; `create` and `open` do."""

    path: Path

    @classmethod
    def create(cls, runs_dir: Path, run_id: str) -> Run:
        """Make the directory of a new run; an existing one is refused, a run is never overwritten."""
        run = cls(runs_dir.absolute() / run_id)
        make_folder(run.path, run.logs, run.ledger)
        return run

    @classmethod
    def create_numbered(cls, folder: Path, prefix: str) -> Run:
        """Make `<prefix><number>`, the first that is free: the folder may be used again, or by several at once."""
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
        """Open the directory of an earlier run, refusing what is not one."""
        run = cls(path.absolute())
        if not run.path.is_dir():
            raise RunDirError(f"{path} is not a directory; give a run directory, such as runs/<run_id>")
        if not run.resolved.is_file():
            raise RunDirError(f"{path} has no resolved.json, so it is not (or not completely) a run directory")
        return run

    @property
    def run_id(self) -> str:
        """The name of the directory."""
        return self.path.name

    @property
    def where(self) -> str:
        """Where the run is, for a person."""
        return str(self.path)

    @property
    def scenario(self) -> Path:
        """The scenario as the user gave it."""
        return self.path / "scenario.yaml"

    @property
    def resolved(self) -> Path:
        """Every default filled in, seed, versions and timeline."""
        return self.path / "resolved.json"

    @property
    def cluster(self) -> Path:
        """Driver, brokers and how to reach them."""
        return self.path / "cluster.json"

    @property
    def events(self) -> Path:
        """What the run is doing, one JSON object a line."""
        return self.path / "events.jsonl"

    @property
    def logs(self) -> Path:
        """One file per broker and per client."""
        return self.path / "logs"

    @property
    def ledger(self) -> Path:
        """The tables written while driving."""
        return self.path / "ledger"

    @property
    def audit(self) -> Path:
        """The tables written by Spark."""
        return self.path / "audit"

    @property
    def gx(self) -> Path:
        """The Great Expectations project with its Data Docs."""
        return self.path / "gx"

    @property
    def report(self) -> Path:
        """The page a person reads."""
        return self.path / "report.html"

    @property
    def junit(self) -> Path:
        """The verdict for a CI server."""
        return self.path / "junit.xml"

    @property
    def result(self) -> Path:
        """The verdict for a script."""
        return self.path / "result.json"

    @property
    def comparison(self) -> Path:
        """Of an A/B run: the variants and their run directories, which are next to it."""
        return self.path / "comparison.json"

    @property
    def brokers(self) -> Path:
        """The brokers' data; removed with the cluster."""
        return self.path / "brokers"


def make_folder(path: Path, *below: Path) -> None:
    """Make a new folder among the runs, with folders below it. Raises `RunDirError` where it exists, or cannot be."""
    try:
        path.mkdir(parents=True)
        for folder in below:
            folder.mkdir()
    except FileExistsError:
        raise RunDirError(f"{path} exists already; choose another --runs-dir or run id") from None
    except OSError as e:
        raise RunDirError(f"cannot create {path}: {e.strerror}; choose another --runs-dir") from None


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new text, never a half."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json(path: Path, what: str) -> Any:
    """Read a JSON file of a run directory; `what` names it in the error."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunDirError(f"{path} is missing: the {what} was never written") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as e:
        raise RunDirError(f"{path} is not readable JSON ({e}): the {what} is damaged") from None


def read_model(path: Path, model: type[Model], what: str, next_step: str) -> Model:
    """Read a JSON file of a run directory as a model.

    what: names the content in the error; next_step: tells the user how to repair the file. Raises `RunDirError`.
    """
    raw = read_json(path, what)
    try:
        return model.model_validate(raw)
    except ValidationError as e:
        raise RunDirError(f"{path} is not a valid {what} ({e.error_count()} errors); {next_step}") from None
