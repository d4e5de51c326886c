"""Runs of catalogue entries, several at once, each worker on a lent cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.catalogue.entries import Entry, expected_anomalies
from chaos.cluster.settings import ClusterSpec
from chaos.drive import stages
from chaos.history.recording import record
from chaos.lab.lab import DrivenRun, Lab
from chaos.lab.progress import ProgressListener
from chaos.run.directory import Run, new_folder, write_json
from chaos.run.result import EXIT_CODES, RunOutcome, merge
from chaos.scenario.resolve import read


@dataclass(frozen=True)
class EntryResult:
    """An entry with its outcome. expected: the anomalies that must appear. seconds: until its log was read back."""

    entry: Entry
    expected: str
    outcome: RunOutcome
    seconds: float
    run_dir: Path

    @property
    def _has_result(self) -> bool:
        return (self.run_dir / "result.json").exists()

    @property
    def shown(self) -> str:
        """The anomalies that appeared, or why there is no result."""
        return self.outcome.describe() if self._has_result else self.outcome.sentence

    def as_json(self) -> dict[str, Any]:
        """Return a row of `catalogue.json`."""
        return {
            "scenario": self.entry.scenario,
            "variant": self.entry.variant,
            "repetition": self.entry.repetition,
            "expected": self.expected,
            "seen": self.outcome.describe() if self._has_result else "",
            "verdict": self.outcome.verdict,
            "code": self.outcome.exit_code,
            "seconds": round(self.seconds, 1),
            "run_dir": str(self.run_dir),
            "sentence": self.outcome.sentence,
        }


@dataclass(frozen=True)
class CatalogueResult:
    """The results in the order of the entries, and the folder of their run directories."""

    folder: Path
    results: list[EntryResult]

    @property
    def exit_code(self) -> int:
        """The exit code of the worst verdict."""
        return EXIT_CODES[merge(result.outcome.verdict for result in self.results)]


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
    record((Run(result.run_dir) for result in results), runs_dir, listener.say)
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
            while (prepared := self._next(lab.cluster_of(worker))) is not None:
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
        finished = driven.finish()
        result = EntryResult(prepared.entry, prepared.expected, finished.outcome, finished.seconds, prepared.run.path)
        with self._lock:
            self._results.append(result)
        self.on_result(result)
