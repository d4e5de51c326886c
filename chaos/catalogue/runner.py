"""The entries of the catalogue, what each must show, and their runs: several at once, each worker on a lent cluster."""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chaos.cluster.settings import ClusterSpec
from chaos.contract import contract
from chaos.drive import stages
from chaos.errors import UsageError
from chaos.history.recording import record
from chaos.lab.lab import DrivenRun, FinishedRun, Lab
from chaos.lab.progress import ProgressListener
from chaos.run.directory import Run, new_folder, write_json
from chaos.run.result import EXIT_CODES, anomaly_name, merge
from chaos.scenario.load import load
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import read
from chaos.scenario.shipped import shipped

NOTHING = "none"


@dataclass(frozen=True)
class Entry:
    """One run of a scenario. variant: of an A/B scenario, else empty. repetition: counts from 1."""

    scenario: str
    variant: str
    repetition: int

    @property
    def name(self) -> str:
        """The name for people: `leader-kill`, `retry-duplicate/idempotent`."""
        return f"{self.scenario}/{self.variant}" if self.variant else self.scenario

    @property
    def run_id(self) -> str:
        """The name of the run directory."""
        return "-".join(filter(None, [self.scenario, self.variant, str(self.repetition)]))


def entries(patterns: Iterable[str] = (), repeat: int = 1) -> list[Entry]:
    """Return all shipped scenarios and variants, or those that match a pattern, `repeat` times.

    Raises `UsageError` if nothing matches.
    """
    globs = list(patterns) or ["*"]
    names = [
        (name, variant)
        for name, path in shipped().items()
        for variant in load(path).variants or [""]
        if any(fnmatch.fnmatchcase(text, glob) for glob in globs for text in (name, f"{name}/{variant}"))
    ]
    if not names:
        raise UsageError(f"no shipped scenario is named {' or '.join(globs)}; `python -m chaos list` shows them")
    return [Entry(name, variant, n) for n in range(1, repeat + 1) for name, variant in names]


def expected_anomalies(scenario: Scenario) -> str:
    """Return the anomalies that the contract demands: `lost_write at least 1`, or `none`."""
    bounds = contract(scenario).counts().items()
    demanded = [f"{anomaly_name(kind, split)} {bound.describe()}" for (kind, split), bound in bounds if bound.min > 0]
    return ", ".join(demanded) or NOTHING


@dataclass(frozen=True)
class EntryResult:
    """An entry with its finished run. expected: the anomalies that must appear."""

    entry: Entry
    expected: str
    finished: FinishedRun

    @property
    def seen(self) -> str:
        """The anomalies that appeared; empty if there is no result."""
        return self.finished.outcome.describe() if self.finished.run.result.exists() else ""

    def as_json(self) -> dict[str, Any]:
        """Return a row of `catalogue.json`."""
        return {
            **asdict(self.entry),
            "expected": self.expected,
            "seen": self.seen,
            "verdict": self.finished.outcome.verdict,
            "code": self.finished.outcome.exit_code,
            "seconds": round(self.finished.seconds, 1),
            "run_dir": str(self.finished.run.path),
            "sentence": self.finished.outcome.sentence,
        }


@dataclass(frozen=True)
class CatalogueResult:
    """The results in the order of the entries, and the folder of their run directories."""

    folder: Path
    results: list[EntryResult]

    @property
    def exit_code(self) -> int:
        """The exit code of the worst verdict."""
        return EXIT_CODES[merge(result.finished.outcome.verdict for result in self.results)]


def run_catalogue(
    entries: list[Entry],
    runs_dir: Path,
    listener: ProgressListener,
    on_result: Callable[[EntryResult], None],
    jobs: int = 1,
    seed: int | None = None,
) -> CatalogueResult:
    """Run each entry once, record the runs in the history, and write `catalogue.json`.

    on_result: called with each result, from several threads. jobs: runs at once, each on its own cluster. Raises as
    `Lab.drive`.
    """
    folder = new_folder(runs_dir, "catalogue")
    listener.say(f"{len(entries)} runs, in {folder}")
    results = _Catalogue(folder, entries, listener, on_result, jobs, seed).run()
    record((result.finished.run for result in results), runs_dir, listener.say)
    write_json(folder / "catalogue.json", [r.as_json() for r in results])
    return CatalogueResult(folder, results)


@dataclass(frozen=True)
class _Prepared:
    """An entry with its run directory and the cluster that it needs."""

    entry: Entry
    run: Run
    expected: str
    spec: ClusterSpec


@dataclass
class _Catalogue:
    folder: Path
    entries: list[Entry]
    listener: ProgressListener
    on_result: Callable[[EntryResult], None]
    jobs: int
    seed: int | None
    _results: list[EntryResult] = field(default_factory=list)
    _queue: list[_Prepared] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _errors: list[BaseException] = field(default_factory=list)

    def run(self) -> list[EntryResult]:
        """Run all entries. Raises the first error of a worker, after all processes have ended."""
        self._queue = self._prepared()
        with Lab(self.folder, self.listener, self.jobs) as lab:
            workers = [
                threading.Thread(target=self._work, args=(lab, n), name=f"worker-{n + 1}", daemon=True)
                for n in range(self.jobs)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                while worker.is_alive():
                    worker.join(0.2)
        if self._errors:
            raise self._errors[0]
        return sorted(self._results, key=lambda result: self.entries.index(result.entry))

    def _prepared(self) -> list[_Prepared]:
        """Make all run directories before anything starts, so that bad input shows at once; group them by cluster."""
        prepared = []
        for entry in self.entries:
            given = stages.ScenarioRequest(entry.scenario, seed=self.seed)
            run = stages.prepare(given, runs_dir=self.folder, variant=entry.variant, run_id=entry.run_id)
            resolved = read(run)
            expected = expected_anomalies(resolved.scenario)
            prepared.append(_Prepared(entry, run, expected, stages.cluster_spec(resolved)))
        specs = [p.spec for p in prepared]
        return sorted(prepared, key=lambda p: specs.index(p.spec))

    def _work(self, lab: Lab, worker: int) -> None:
        judging: list[threading.Thread] = []
        try:
            while (prepared := self._next(lab.lenders[worker].spec)) is not None:
                judging.append(self._drive(lab, worker, prepared))
            for thread in judging:
                thread.join()
        except BaseException as e:  # noqa: BLE001 - `run` raises it again in the main thread
            self._errors.append(e)

    def _next(self, spec: ClusterSpec | None) -> _Prepared | None:
        """Take an entry that fits the worker's cluster, else any; None if all are taken or a worker failed."""
        with self._lock:
            if not self._queue or self._errors:
                return None
            fitting = (i for i, prepared in enumerate(self._queue) if prepared.spec == spec)
            return self._queue.pop(next(fitting, 0))

    def _drive(self, lab: Lab, worker: int, prepared: _Prepared) -> threading.Thread:
        """Drive an entry and return the thread that waits for its verdict."""
        driven = lab.drive(prepared.run, prepared.entry.name, worker)
        thread = threading.Thread(target=self._finish, args=(prepared, driven), name=prepared.run.run_id, daemon=True)
        thread.start()
        return thread

    def _finish(self, prepared: _Prepared, driven: DrivenRun) -> None:
        result = EntryResult(prepared.entry, prepared.expected, driven.finish())
        with self._lock:
            self._results.append(result)
        self.on_result(result)
