"""A session of tests: one warm cluster for each description of brokers, one judge, and the verdict of each run."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from chaos.errors import INCONCLUSIVE, AftershockError
from chaos.lab.progress import ProgressListener
from chaos.run.directory import Run
from chaos.run.events import Event
from chaos.run.result import Result
from chaos.testing.description import Cluster
from chaos.testing.paths import placed
from chaos.testing.verdict import Verdict

log = logging.getLogger("aftershock")
"""What runs do, such as `proven leader: …`. pytest shows it with a failed test."""


def step_of(event: Event) -> str:
    """Return an event of a run as words; empty if it is no step for people."""
    if event["kind"] in ("note", "problem"):
        return str(event["words"])
    if event["kind"] == "fault":
        return f"{event['phase']} {event['fault']}: {event['words']}"
    return ""


class _Log(ProgressListener):
    """Writes progress to the log of the process."""

    def say(self, message: str) -> None:
        log.info(message)

    def run_event(self, name: str, event: Event) -> None:
        if words := step_of(event):
            log.info("%s: %s", name, words)


class Session:
    """A context manager over a lab: brokers stay warm between tests with equal clusters, and so does the judge.

    folder: an existing folder for scenarios and run directories. One test at a time; each worker of pytest-xdist has a
    session of its own. Leaving it ends everything that the session started.
    """

    def __init__(self, folder: Path, listener: ProgressListener | None = None) -> None:
        from chaos.lab.lab import Lab

        self.folder = folder
        self._lab = Lab(folder, listener or _Log())
        self._count = 0
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self._lab.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lab.__exit__(kind, error, at)

    def cluster(self, brokers: int = 3, **settings: Any) -> Cluster:
        """Return the description of a test on a cluster. settings: of `cluster` in a scenario: kafka, config, …"""
        return Cluster(self.run, {"brokers": brokers, **settings})

    def run(self, scenario: Mapping[str, Any], seed: int | None = None, folder: Path | None = None) -> Verdict:
        """Run a scenario, written as in YAML, and return its verdict.

        folder: what relative paths in the scenario begin at; the working directory if left out. Raises `ScenarioError`
        or `UsageError` for a scenario that cannot run, another `AftershockError` if the run ended without a result.
        """
        from chaos.drive import stages

        self._count += 1
        name = re.sub(r"[^a-z0-9]+", "-", str(scenario.get("title", "test")).lower()).strip("-")[:40] or "test"
        path = self.folder / f"{self._count:03}-{name}.yaml"
        path.write_text(
            yaml.safe_dump(placed(scenario, folder or Path()), sort_keys=False, allow_unicode=True), encoding="utf-8"
        )
        run = stages.prepare(stages.ScenarioRequest(str(path), seed), runs_dir=self.folder)
        finished = self._lab.drive(run, path.stem).finish()
        return self._read(run, path, finished.outcome.sentence)

    def _read(self, run: Run, path: Path, sentence: str) -> Verdict:
        if not run.result.exists():
            error = AftershockError(f"{sentence}; see {run.path}")
            error.exit_code = INCONCLUSIVE
            raise error
        return Verdict(Result.read(run), path, run.report)
