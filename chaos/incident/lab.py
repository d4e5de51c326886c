"""The lab: runs one candidate after another, on a cluster that they share as long as they ask for the same.

Spark is started once. While a run is judged the next one may already be driven, if the caller does not need the verdict
to choose it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from chaos.cluster.lifecycle.gc import end_all
from chaos.drive import stages
from chaos.incident.subject import Subject, dump, raw_of
from chaos.lab import turn
from chaos.lab.judge import Judge
from chaos.lab.lender import Lender
from chaos.run.directory import Run, make_folder, new_run_id, write_atomically
from chaos.run.events import Event, EventLog
from chaos.run.result import RunOutcome
from chaos.scenario.resolve import read


class Told(Protocol):
    """Whoever is told what goes on."""

    def say(self, words: str) -> None:
        """Something to keep on the screen."""

    def began(self, name: str) -> None:
        """A run was begun."""

    def event(self, event: Event) -> None:
        """Something happened in it."""


@dataclass(frozen=True)
class Trial:
    """One run and what it showed; `seconds` until its log was read."""

    run: Run
    seed: int
    seen: RunOutcome
    seconds: float


@dataclass
class Pending:
    """A run that was driven; its verdict comes when the judge is there."""

    run: Run
    seed: int
    turn: turn.Turn

    @property
    def ready(self) -> bool:
        """Whether the verdict is there."""
        return self.turn.judging.done.is_set()

    def trial(self) -> Trial:
        """Wait for the verdict."""
        self.turn.judging.done.wait()
        trouble = self.turn.trouble
        ended = "It has no result: what judges it ended before it could; see judge-N/logs/checks.log."
        seen = RunOutcome.read(self.run) if self.run.result.exists() else RunOutcome.missing(trouble or ended)
        if trouble and not seen.conclusive:
            seen = seen.model_copy(update={"sentence": trouble})
        return Trial(self.run, self.seed, seen, self.turn.seconds)


class Lab:
    """A context manager; nothing of it is left running when it is left."""

    def __init__(self, folder: Path, told: Told, owned: bool = False) -> None:
        """`folder` exists, and is where run directories and their scenarios are made.

        owned: whether brokers of a cluster that exists may be broken (`--i-own-this-cluster`).
        """
        self.folder, self.told, self.runs, self._owned = folder, told, 0, owned
        self._lender = Lender(folder)
        self._judge: Judge | None = None
        self._now: Run | None = None

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._now is not None:
            end_all(self._now.path)
        self._lender.end()
        if self._judge is not None:
            self._judge.__exit__(kind, error, tb)

    def trial(self, subject: Subject, run_id: str, seed: int | None = None) -> Trial:
        """Run it, and wait for its verdict. Raises as `drive`."""
        return self.drive(subject, run_id, seed).trial()

    def renew(self) -> None:
        """End the cluster that is lent, so that the next run begins with a new one."""
        self._lender.end()

    def drive(self, subject: Subject, run_id: str, seed: int | None = None) -> Pending:
        """Run it, up to the reading of its log. A run that broke off is judged by what it recorded.

        Raises an `AftershockError` with exit code 2 where input or machine do not allow the run at all.
        """
        if self._judge is None:
            self._judge = Judge(self.folder)
        self._judge.wait_ready()
        run = make(self.folder, subject, run_id, seed, self._owned)
        resolved = read(run)
        self._now = run
        self.runs += 1
        self.told.began(run_id)
        taken = turn.take(run, resolved, self._lender, self._judge, EventLog(run, self.told.event))
        self._now = None
        return Pending(run, resolved.seed, taken)


def make(folder: Path, subject: Subject, run_id: str, seed: int | None = None, owned: bool = False) -> Run:
    """The run directory of a subject, with its scenario as a file beside it, so that its own command makes it again."""
    file = folder / f"{run_id}.yaml"
    write_atomically(file, dump(raw_of(subject.scenario)))
    given = stages.ScenarioRequest(str(file), seed=subject.seed if seed is None else seed, i_own_this_cluster=owned)
    return stages.prepare(given, runs_dir=folder, run_id=run_id)


def new_folder(runs_dir: Path, what: str) -> Path:
    """A folder for all that one command makes. Raises `RunDirError`."""
    folder = runs_dir.absolute() / new_run_id(what)
    make_folder(folder)
    return folder
