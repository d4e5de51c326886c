"""The engine of all campaigns: it runs the trials of a plan in the lab, and stores each run when its verdict is known.

A plan is a function from the stored runs to the trials that are still wanted. A list of trials ignores the runs; a
search asks for the next candidate, and a proof for what follows from a break. To continue a campaign is to call the
same function with the runs that are stored.

The workers take trials in the order of the plan, each on its own lent cluster; among trials of one tier a worker
prefers one that fits its cluster. The judge works on a run while the worker drives the next one.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from chaos.campaign.clients import clients_of
from chaos.campaign.folder import Asked, Folder
from chaos.campaign.subject import Subject, dump, raw_of
from chaos.drive import stages
from chaos.errors import USAGE, AftershockError, UsageError
from chaos.history.recording import record
from chaos.history.runs import judged_entry
from chaos.history.trends import TREND_STATS
from chaos.incident.bundle import recorded_versions
from chaos.lab.lab import DrivenRun, FinishedRun, Lab
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import Campaign, TrialRun
from chaos.run.directory import Run, write_atomically
from chaos.run.events import now_us
from chaos.run.result import Metric, RunOutcome, RunSummary
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import read, resolve
from chaos.units import parse_duration

C = TypeVar("C", bound=Campaign)
Report = Callable[[C, Path], None]
IN_RUN = re.compile(r"(?<![\w./-])logs/")
"""A file of a run in a sentence about it. In the folder of a campaign, it is in the directory of the run."""
UNJUDGED = 4
"""Driven runs that may wait for their verdicts. More would only make the end late: one judge takes them in turn."""
LEAST_S = 60.0
"""The smallest budget of time: about the time in which brokers and judge start, and one run with a fault ends."""


@dataclass(frozen=True)
class Trial:
    """A run that a plan wants.

    run_id: the name of its directory, unique in the campaign. part: what it counts for. n: the repetition, from 1.
    title: the name for people. seed: the subject's if None. given: the scenario as a user gives it, so that the run's
    own command names it; the subject is written to a file if None. listed: scenario and variant in the history; None to
    leave it out. tier: trials of one tier may change places. cluster: trials with the same text can share a cluster.
    round: with each round, a worker begins on a new cluster; 0 to keep it. optional: whether the campaign goes on if
    the machine cannot run it. alone: whether it has its own brokers, and the worker waits for its verdict.
    """

    run_id: str
    subject: Subject
    part: str
    n: int = 1
    title: str = ""
    seed: int | None = None
    given: stages.ScenarioRequest | None = None
    variant: str = ""
    listed: tuple[str, str] | None = None
    tier: tuple[object, ...] = ()
    cluster: str = ""
    round: int = 0
    optional: bool = False
    alone: bool = False

    def repeated(self, n: int, run_id: str) -> Trial:
        """Return the n-th run of the same."""
        return replace(self, n=n, run_id=run_id)


class Plan(ABC):
    """What a campaign runs."""

    bundles = True
    """Whether the first run of a part that breaks its contract is packed."""

    @abstractmethod
    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return the trials that are wanted after these runs, in their order. Trials that have run are ignored."""

    def is_over(self, runs: Sequence[TrialRun]) -> bool:
        """Return whether no other run begins after these."""
        return False

    def at_once(self, runs: Sequence[TrialRun]) -> int | None:
        """Return how many runs may drive at once after these; None for as many as there are workers."""
        return None

    def observe(self, trial: Trial, finished: FinishedRun, folder: Folder) -> TrialRun:
        """Return what is stored of a run."""
        return observed(trial, finished, folder.path)

    def describe(self, run: TrialRun) -> str:
        """Return what a run shows, as a phrase."""
        return run.shown


@dataclass
class Listed(Plan):
    """A plan that is known at the start."""

    planned: Sequence[Trial]

    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return all trials."""
        return self.planned


class Wanted(Exception):
    """A search lacks the results of trials."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        super().__init__()
        self.trials = trials


@dataclass(frozen=True)
class Budget:
    """The number of runs and of seconds that may be spent; None is no limit."""

    runs: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str | None) -> Budget:
        """Parse `30m` (time), `40` (runs) or `40,30m` (whichever comes first). Raises `UsageError`."""
        budget = cls()
        for part in filter(None, map(str.strip, (text or "").split(","))):
            try:
                values = {"runs": int(part)} if part.isdigit() else {"seconds": parse_duration(part)}
            except ValueError:
                raise UsageError(f"--for {text} is not understood; write 30m, 40 (runs), or 40,30m") from None
            budget = replace(budget, **values)
        if text is not None and (budget == cls() or budget.runs == 0):
            raise UsageError(f"--for {text!r} allows no run; write 30m, 40 (runs), or 40,30m")
        if budget.seconds is not None and budget.seconds < LEAST_S:
            raise UsageError(
                f"--for {text} is too small for one run: brokers and judge have to start, and a run with a fault takes "
                "its time; give at least 1m, better 30m"
            )
        return budget


class TrialLab(Lab):
    """A lab that prepares the run directories of trials.

    i_own_this_cluster: allow faults on brokers of an existing cluster.
    """

    def __init__(
        self,
        folder: Path,
        listener: ProgressListener,
        i_own_this_cluster: bool = False,
        workers: int = 1,
        spark_master: str | None = None,
    ) -> None:
        super().__init__(folder, listener, workers, spark_master)
        self._i_own_this_cluster = i_own_this_cluster

    def start(self, trial: Trial, worker: int = 0) -> DrivenRun:
        """Drive a trial until its log was read back; its verdict may be pending. Raises as `Lab.drive`."""
        return self.drive(self.prepare(trial), trial.title or trial.run_id, worker, lent=not trial.alone)

    def prepare(self, trial: Trial) -> Run:
        """Make the run directory of a trial, and its scenario as a file next to it unless the user gives it."""
        given = trial.given
        if given is None:
            file = self.folder / f"{trial.run_id}.yaml"
            write_atomically(file, dump(raw_of(trial.subject.scenario)))
            seed = trial.subject.seed if trial.seed is None else trial.seed
            given = stages.ScenarioRequest(str(file), seed=seed, i_own_this_cluster=self._i_own_this_cluster)
        return stages.prepare(given, runs_dir=self.folder, variant=trial.variant, run_id=trial.run_id)


class Queue:
    """The trials that are to do. A worker waits while the results of others may lead to more."""

    def __init__(self, plan: Plan, runs: Sequence[TrialRun], budget: Budget) -> None:
        self._plan, self._budget = plan, budget
        self._deadline = None if budget.seconds is None else time.monotonic() + budget.seconds
        self._taken = {run.run_id for run in runs if run.ran}
        self._refused: set[str] = set()
        self._begun = self._pending = self._driving = 0
        self._stopped = False
        self._wanted, self._most = list(plan.trials(runs)), plan.at_once(runs)
        self._changed = threading.Condition()

    def left(self) -> list[Trial]:
        """Return the trials that are known and not taken."""
        return [t for t in self._wanted if t.run_id not in self._taken and t.part not in self._refused]

    @property
    def open(self) -> int:
        """Number of trials that are known and not finished."""
        return self._pending + len(self.left())

    def take(self, cluster: str) -> Trial | None:
        """Return the next trial; None if none is left, or the budget is spent. cluster: what the worker's one fits."""
        with self._changed:
            while not self._over():
                left = self.left()
                if left and self._has_room():
                    chosen = next((t for t in left if t.tier == left[0].tier and t.cluster == cluster), left[0])
                    self._taken.add(chosen.run_id)
                    self._pending += 1
                    self._driving += 1
                    self._begun += 1
                    return chosen
                if not left and not self._pending:
                    break
                self._changed.wait(0.5)
            return None

    def _has_room(self) -> bool:
        return self._pending - self._driving < UNJUDGED and (self._most is None or self._driving < self._most)

    def _over(self) -> bool:
        spent = self._budget.runs is not None and self._begun >= self._budget.runs
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return self._stopped or spent or late

    def driven(self) -> None:
        """Note that a trial that was taken does not drive any more."""
        with self._changed:
            self._driving -= 1
            self._changed.notify_all()

    def finish(self, run: TrialRun, runs: Sequence[TrialRun]) -> None:
        """Count a run as finished, and ask the plan what follows. runs: all that are stored."""
        with self._changed:
            self._pending -= 1
            if not run.ran:
                self._refused.add(run.part)
            self._wanted, self._most = list(self._plan.trials(runs)), self._plan.at_once(runs)
            self._stopped = self._stopped or self._plan.is_over(runs)
            self._changed.notify_all()

    def stop(self) -> None:
        """Let no other run begin."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def run_campaign(
    plan: Plan,
    folder: Folder,
    listener: ProgressListener,
    jobs: int = 1,
    budget: Budget | None = None,
    *,
    whole: bool = True,
    spark_master: str | None = None,
) -> list[TrialRun]:
    """Run what a plan wants and the folder lacks, and return all stored runs.

    whole: see `Folder.claimed`. Raises `UsageError` if another process runs the campaign, else as `Lab.drive`.
    """
    with folder.claimed(whole):
        return _run(plan, folder, listener, jobs, budget or Budget(), spark_master=spark_master)


def _run(
    plan: Plan,
    folder: Folder,
    listener: ProgressListener,
    jobs: int,
    budget: Budget,
    i_own_this_cluster: bool = False,
    spark_master: str | None = None,
) -> list[TrialRun]:
    started = time.monotonic()
    queue = Queue(plan, folder.runs(), budget)
    count = len(queue.left())
    listener.say(f"{count} run{'' if count == 1 else 's'} to do, in {folder.path}")
    try:
        if count:
            with TrialLab(folder.path, listener, i_own_this_cluster, jobs, spark_master) as lab:
                _Crew(plan, folder, listener, lab, queue).run(jobs)
                listener.doing("ending the clusters and the judge")
    except BaseException:
        stored = sum(run.ran for run in folder.runs())
        kept = f"{stored} finished run{' is' if stored == 1 else 's are'} stored" if stored else "no run has finished"
        listener.say(f"{kept}; continue with --resume {folder.path}")
        raise
    finally:
        folder.spend(time.monotonic() - started)
    return folder.runs()


def conduct(
    plan: Plan,
    folder: Folder,
    asked: Asked,
    listener: ProgressListener,
    judge: Callable[[list[TrialRun]], C],
    report: Report[C] | None = None,
    *,
    i_own_this_cluster: bool = False,
) -> C:
    """Run a campaign, judge all stored runs, write the result with its pages, and return it.

    report: called with the result and the folder, also if the campaign breaks off after at least one run. Raises as
    `run_campaign`.
    """
    budget = Budget.parse(asked.budget)
    with folder.claimed():
        try:
            _run(plan, folder, listener, asked.jobs, budget, i_own_this_cluster)
        finally:
            if (runs := folder.runs()) or not sys.exc_info()[0]:
                listener.doing("writing the result")
                result = folder.write(judge(runs))
                if report is not None:
                    report(result, folder.path)
    return result


def cluster_of(scenario: Scenario) -> str:
    """Return a text that is equal for scenarios that can share a cluster."""
    resolved = resolve(scenario, run_id="plan", name="plan", created_us=now_us(), seed=1, overrides=[])
    return repr(stages.cluster_spec(resolved))


def digest_of(scenario: Scenario) -> str:
    """Return a digest of a scenario, for `plan.json`."""
    return hashlib.sha256(scenario.model_dump_json().encode()).hexdigest()[:16]


@dataclass
class _Crew:
    """The workers of a campaign. Each finished run is stored by its own thread, which waits for the verdict."""

    plan: Plan
    folder: Folder
    listener: ProgressListener
    lab: TrialLab
    queue: Queue
    _done: int = 0
    _errors: list[BaseException] = field(default_factory=list)
    _interrupted: bool = False
    _finishing: threading.Lock = field(default_factory=threading.Lock)

    def run(self, jobs: int) -> None:
        """Work until the queue is empty. Raises the first error of a worker."""
        workers = [
            threading.Thread(target=self._guard, args=(lambda n=n: self._work(n),), name=f"worker-{n + 1}", daemon=True)
            for n in range(jobs)
        ]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                while worker.is_alive():
                    worker.join(0.2)
        except BaseException:
            self._interrupted = True
            self.queue.stop()
            raise
        if self._errors:
            raise self._errors[0]

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as e:  # noqa: BLE001 - `run` raises it again in the main thread
            self._errors.append(e)
            self.queue.stop()

    def _work(self, worker: int) -> None:
        """Drive trials until none is left, and wait for their verdicts."""
        judging: list[threading.Thread] = []
        cluster, round_ = "", 0
        try:
            while not self._errors and (trial := self.queue.take(cluster)) is not None:
                if round_ and trial.round != round_:
                    self.lab.renew(worker)
                cluster, round_ = trial.cluster, trial.round
                try:
                    driven = self._drive(trial, worker)
                finally:
                    self.queue.driven()
                if driven is not None:
                    finish = (lambda trial=trial, driven=driven: self._finish(trial, driven),)
                    judging.append(threading.Thread(target=self._guard, args=finish, name=trial.run_id, daemon=True))
                    judging[-1].start()
                    if trial.alone:
                        judging[-1].join()
        finally:
            for thread in judging:
                thread.join()

    def _drive(self, trial: Trial, worker: int) -> DrivenRun | None:
        """Drive a trial; store and return None if it cannot run and the campaign goes on without it."""
        self.folder.remove_run(trial.run_id)  # of a run that was interrupted
        try:
            return self.lab.start(trial, worker)
        except AftershockError as e:
            if e.exit_code != USAGE or not trial.optional:
                raise
            reason = f"It cannot be run: {' '.join(str(e).split())}"
            seed = trial.subject.seed if trial.seed is None else trial.seed
            values = {"run_id": trial.run_id, "part": trial.part, "n": trial.n, "seed": seed, "ran": False}
            self._store(trial, TrialRun.model_validate(RunOutcome.missing(reason).model_dump() | values))
            return None

    def _finish(self, trial: Trial, driven: DrivenRun) -> None:
        finished = driven.finish()
        if self._interrupted:
            return  # its brokers or its judge ended; it runs again when the campaign goes on
        stored = self.plan.observe(trial, finished, self.folder)
        if self._store(trial, stored) and trial.listed is not None:
            record([finished.run], self.folder.path.parent, self.listener.say, named=trial.listed)

    def _store(self, trial: Trial, run: TrialRun) -> bool:
        with self._finishing:
            if self.plan.bundles and run.verdict == "fail" and not self._is_packed(run.part):
                run = run.model_copy(update={"bundle": self.folder.pack_run(run.run_id)})
            self.folder.store(run)
            self._done += 1
            self.queue.finish(run, self.folder.runs())
            text = f"{trial.title or trial.run_id}: {self.plan.describe(run)} ({run.seconds:.0f} s)"
            self.listener.run_judged(run.verdict, f"{self._done} of {self._done + self.queue.open}, {text}")
        return run.ran

    def _is_packed(self, part: str) -> bool:
        return any(run.bundle for run in self.folder.runs() if run.part == part)


def observed(trial: Trial, finished: FinishedRun, folder: Path) -> TrialRun:
    """Return a finished run as a line of `runs.jsonl`: outcome, times, load, releases and the path of its report."""
    run = finished.run
    outcome = finished.outcome.model_dump()
    outcome["sentence"] = IN_RUN.sub(f"{trial.run_id}/logs/", finished.outcome.sentence)
    stored = TrialRun(
        **outcome,
        run_id=trial.run_id,
        part=trial.part,
        n=trial.n,
        seed=finished.seed,
        seconds=round(finished.seconds, 1),
    )
    if not run.result.exists():
        return stored
    resolved = read(run)
    versions = recorded_versions(run, resolved)
    times = [time for time in judged_entry(run).times if time.stat in TREND_STATS.get(time.metric, ())]
    return stored.model_copy(
        update={
            "times": [Metric(**time._asdict()) for time in times],
            "load": RunSummary.read(run).load,
            "kafka": versions.get("kafka", ""),
            "client": clients_of(resolved.scenario, versions),
            "report": os.path.relpath(run.report, folder) if run.report.exists() else "",
        }
    )
