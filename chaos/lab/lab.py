"""The driving and judging of runs: many on lent clusters, or one on a separate cluster.

In a `Lab`, each worker lends its cluster to run after run, and one judge judges them all: while it works on a run, the
worker may already drive the next one. A single run (`drive_and_judge`) has its own cluster and its own judge.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from chaos.cluster import lending
from chaos.cluster.drivers import driver as driver_of
from chaos.cluster.reaper import end_all
from chaos.cluster.settings import ClusterSpec
from chaos.drive import stages
from chaos.errors import INCONCLUSIVE, USAGE, AftershockError, ClusterError
from chaos.history.recording import record
from chaos.lab.judge import Judge, Judgement
from chaos.lab.progress import ProgressListener
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.run.events import Event, EventLog
from chaos.run.result import RunOutcome
from chaos.scenario.resolve import Resolved, read

CLUSTER_DEADLINE_S = 12 * 3600.0
"""Seconds after which a lent cluster ends by itself; it ends earlier if this process ends."""

NO_RESULT = "The run has no result: the judge ended first; see judge-N/logs/checks.log."


@dataclass(frozen=True)
class FinishedRun:
    """A run with its outcome. seconds: from its start until its log was read back."""

    run: Run
    seed: int
    outcome: RunOutcome
    seconds: float


@dataclass(frozen=True)
class DrivenRun:
    """A run that was driven; its verdict may be pending. error: why the drive broke off, or empty."""

    run: Run
    seed: int
    judgement: Judgement
    seconds: float
    error: str

    def finish(self) -> FinishedRun:
        """Wait for the verdict."""
        self.judgement.done.wait()
        if not self.run.result.exists():
            outcome = RunOutcome.missing(self.error or NO_RESULT)
        else:
            outcome = RunOutcome.read(self.run)
            if self.error and not outcome.conclusive:
                outcome = outcome.model_copy(update={"sentence": self.error})
        return FinishedRun(self.run, self.seed, outcome, self.seconds)


class Lender:
    """Owner of at most one cluster, in a directory `cluster-<number>-<count>` below `folder`."""

    def __init__(self, folder: Path, number: int = 1) -> None:
        self._folder, self._number = folder, number
        self._cluster: Run | None = None
        self.spec: ClusterSpec | None = None
        """The specification of the running cluster; None without one."""

    def cluster(self, resolved: Resolved, say: Callable[[str], None]) -> Run | None:
        """Return the directory of a cluster for this scenario; None if the scenario cannot use a lent one.

        Starts a new cluster if the running one has another specification. Raises `ClusterError`.
        """
        spec, driver = stages.cluster_spec(resolved), resolved.scenario.cluster.driver
        if driver != "process":
            return None
        if self._cluster is None or self.spec != spec:
            self.end()
            self._cluster = Run.create_numbered(self._folder, f"cluster-{self._number}-")
            self.spec = spec
            try:
                driver_of(driver).deploy(self._cluster, spec, ProcessId.current(), CLUSTER_DEADLINE_S, say)
            except BaseException:
                self._cluster = self.spec = None
                raise
        return self._cluster

    def take_back(self) -> None:
        """Delete topics and groups for the next run. A cluster that is not healthy ends."""
        if self._cluster is None:
            return
        try:
            lending.give_back(stages.attach(self._cluster))
        except ClusterError:
            self.end()

    def end(self) -> None:
        """End the cluster if one runs."""
        if self._cluster is not None:
            end_all(self._cluster.path)
        self._cluster = self.spec = None


class Lab:
    """A context manager over the judge and the lent clusters; leaving it ends every process of the lab."""

    def __init__(
        self, folder: Path, listener: ProgressListener, workers: int = 1, spark_master: str | None = None
    ) -> None:
        """folder: an existing folder for the directories of judge, clusters and runs."""
        self._spark_master = spark_master
        self.folder, self.listener = folder, listener
        self.lenders = [Lender(folder, number) for number in range(1, workers + 1)]
        self._driving: dict[int, Run] = {}
        self._judge: Judge | None = None
        self._leaving = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._leaving = True
        for worker, lender in enumerate(self.lenders):
            if run := self._driving.get(worker):
                end_all(run.path)
            lender.end()
        if self._judge is not None:
            self._judge.__exit__(kind, error, tb)

    def renew(self, worker: int = 0) -> None:
        """End the lent cluster, so that the next run starts on a new one."""
        self.lenders[worker].end()

    def drive(self, run: Run, name: str, worker: int = 0, lent: bool = True) -> DrivenRun:
        """Drive a prepared run until its log was read back. A run that broke off is judged by what it recorded.

        name: the run's name for the listener. lent: whether it may use the worker's cluster. Raises an
        `AftershockError` with exit code 2 if input or machine do not allow the run at all.
        """
        judge, resolved, lender = self._ready_judge(), read(run), self.lenders[worker]
        self.listener.run_started(name)
        events = EventLog(run, lambda event: self.listener.run_event(name, event))
        self._driving[worker] = run
        started = time.monotonic()
        error = self._drive(run, resolved, lender if lent else None, events)
        judgement = judge.submit(run)
        judgement.log_read.wait()
        seconds = time.monotonic() - started
        stages.destroy(run, events)
        self.listener.run_driven(name)
        self.listener.doing(f"taking back the cluster of {name}")
        lender.take_back()
        self.listener.doing(f"auditing {name}")
        del self._driving[worker]
        return DrivenRun(run, resolved.seed, judgement, seconds, error)

    def _ready_judge(self) -> Judge:
        """Return the judge once Spark is up; the first call starts it."""
        with self._lock:
            if self._judge is None:
                self.listener.doing("starting Spark")
                self._judge = Judge(Run.create_numbered(self.folder, "judge-"), self._heard, self._spark_master)
        self._judge.wait_ready()
        return self._judge

    def _heard(self, event: Event) -> None:
        """Show why the judge takes longer to end. What it says before is of runs, which have it in their events."""
        if self._leaving and event["kind"] == "note":
            self.listener.doing(event["words"])

    def _drive(self, run: Run, resolved: Resolved, lender: Lender | None, events: EventLog) -> str:
        """Return why the drive broke off, or an empty string."""
        try:
            cluster = lender.cluster(resolved, events.note) if lender is not None else None
            stages.deploy(run, events, ProcessId.current(), cluster)
        except AftershockError as e:
            if e.exit_code == USAGE:
                raise
            return str(e)
        try:
            stages.drive(run, events)
        except AftershockError as e:
            return str(e)
        return ""


def drive_and_judge(
    run: Run,
    listener: Callable[[Event], None],
    spark_master: str | None = None,
    on_verdict: Callable[[], None] | None = None,
) -> int:
    """Drive and judge a prepared run, and return the exit code of its verdict. Raises `AftershockError`.

    on_verdict: called as soon as there is one. Spark ends after that, and now and then it archives its classes then.
    """
    events = EventLog(run, listener)
    try:
        stages.deploy(run, events, ProcessId.current())
        with Judge(run, listener, spark_master) as judge:
            # a drive that broke off is judged too: what it recorded may show a loss, and is never a pass
            with contextlib.suppress(AftershockError):
                stages.drive(run, events, before_load=partial(judge.wait_before_load, events))
            judgement = judge.submit(run)
            judgement.log_read.wait()
            if judgement.read_back:
                stages.end_brokers(run, events)
            code = judge.wait(judgement)
            if on_verdict is not None:
                on_verdict()
            with events.stage("spark"):
                judge.close()
            return code
    finally:
        stages.destroy(run, events)


@contextlib.contextmanager
def recorded(
    runs: Iterable[Run], runs_dir: Path, on_problem: Callable[[str], None], metrics: Sequence[str] | None = None
) -> Iterator[None]:
    """Add runs to the history when the block ends, also if a run broke off; not if it could not start (exit code 2).

    metrics: where the metrics of the history are published then; see `chaos.history.recording`.
    """
    try:
        yield
    except AftershockError as e:
        if e.exit_code == INCONCLUSIVE:
            record(runs, runs_dir, on_problem, metrics)
        raise
    record(runs, runs_dir, on_problem, metrics)
