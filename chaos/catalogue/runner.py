"""Runs cases, `jobs` at a time, each worker with a cluster of its own that it lends to one case after another."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chaos.catalogue.cases import Case, Outcome, expected, outcome
from chaos.cluster.lifecycle.gc import end_all
from chaos.cluster.settings import ClusterSpec
from chaos.drive import stages
from chaos.lab import turn
from chaos.lab.judge import Judge
from chaos.lab.lender import Lender
from chaos.run.directory import Run
from chaos.run.events import Event, EventLog
from chaos.scenario.resolve import Resolved, read


class Told(Protocol):
    """Whoever is told what goes on; called from several threads."""

    def began(self, case: Case) -> None:
        """A case was begun."""

    def event(self, case: Case, event: Event) -> None:
        """Something happened in a case."""

    def driven(self, case: Case) -> None:
        """A case needs its cluster no more."""

    def ended(self, outcome: Outcome) -> None:
        """A case has its verdict."""


@dataclass(frozen=True)
class _Ready:
    """A case that is resolved and has its run directory, and the cluster that it needs."""

    case: Case
    run: Run
    resolved: Resolved
    spec: ClusterSpec


@dataclass
class _Worker:
    number: int
    lender: Lender
    run: Run | None = None
    """The case that is being driven."""


@dataclass
class Catalogue:
    """One pass over some cases; `run` is all there is to call."""

    folder: Path
    cases: list[Case]
    jobs: int
    seed: int | None
    told: Told
    outcomes: list[Outcome] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _broken: list[BaseException] = field(default_factory=list)

    def run(self) -> list[Outcome]:
        """Run every case once; however it ends, nothing of it is left running."""
        waiting = self._resolved()
        workers = [_Worker(n, Lender(self.folder, n)) for n in range(1, self.jobs + 1)]
        with Judge(self.folder) as judge:
            threads = [
                threading.Thread(target=self._guarded, args=(w, waiting, judge), name=f"worker-{w.number}", daemon=True)
                for w in workers
            ]
            try:
                for thread in threads:
                    thread.start()
                for thread in threads:
                    while thread.is_alive():
                        thread.join(0.2)
            finally:
                for worker in workers:
                    self._end(worker)
        if self._broken:
            raise self._broken[0]
        return sorted(self.outcomes, key=lambda o: self.cases.index(o.case))

    def _resolved(self) -> list[_Ready]:
        """Every case with its run directory, made before anything starts: a mistake shows at once.

        Those that can share a cluster follow one another.
        """
        found = []
        for case in self.cases:
            given = stages.ScenarioRequest(case.scenario, seed=self.seed)
            run = stages.prepare(given, runs_dir=self.folder, variant=case.variant, run_id=case.run_id)
            resolved = read(run)
            found.append(_Ready(case, run, resolved, stages.cluster_spec(resolved)))
        specs = [one.spec for one in found]
        return sorted(found, key=lambda one: specs.index(one.spec))

    def _guarded(self, worker: _Worker, waiting: list[_Ready], judge: Judge) -> None:
        judged: list[threading.Thread] = []
        try:
            judge.wait_ready()
            while (one := self._next(worker, waiting)) is not None:
                judged.append(self._one(worker, judge, one))
            for thread in judged:
                thread.join()
        except BaseException as e:  # noqa: BLE001 - raised again by `run`, in the thread that can be seen
            self._broken.append(e)

    def _next(self, worker: _Worker, waiting: list[_Ready]) -> _Ready | None:
        """The next case, if there is one that the worker's cluster suits, and any other else."""
        with self._lock:
            if not waiting or self._broken:
                return None
            suits = (i for i, one in enumerate(waiting) if one.spec == worker.lender.spec)
            return waiting.pop(next(suits, 0))

    def _one(self, worker: _Worker, judge: Judge, one: _Ready) -> threading.Thread:
        """Drive a case; its verdict comes later, in a thread that is returned."""
        case, run = one.case, one.run
        self.told.began(case)
        events = EventLog(run, lambda event: self.told.event(case, event))
        worker.run = run
        taken = turn.take(run, one.resolved, worker.lender, judge, events)
        worker.run = None
        self.told.driven(case)
        thread = threading.Thread(target=self._judged, args=(one, taken), name=case.run_id, daemon=True)
        thread.start()
        return thread

    def _judged(self, one: _Ready, taken: turn.Turn) -> None:
        judging = taken.judging
        judging.done.wait()
        expects = expected(one.resolved.scenario)
        found = outcome(one.case, expects, judging.run, judging.code, taken.seconds, taken.trouble)
        with self._lock:
            self.outcomes.append(found)
        self.told.ended(found)

    def _end(self, worker: _Worker) -> None:
        """End what a worker has running."""
        if worker.run is not None:
            end_all(worker.run.path)
        worker.run = None
        worker.lender.end()
