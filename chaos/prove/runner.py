"""The runs of a proof, on lent clusters: planned ones in their order, and those that follow from their results.

Runs that need the same cluster follow one another where their order allows it. Each finished run is stored at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.campaign.kept_runs import remove_run
from chaos.campaign.trials import TrialLab
from chaos.history.recording import record
from chaos.lab.lab import DrivenRun
from chaos.lab.progress import ProgressListener
from chaos.prove.folder import ProofFolder
from chaos.prove.follow_up import FollowUp
from chaos.prove.observed import observe
from chaos.prove.plan import BASELINE
from chaos.prove.task import Task
from chaos.run.proof_result import ProofRun


class Queue:
    """The runs that are to do. A worker waits while the results of others may lead to more."""

    def __init__(self, planned: list[Task], deadline: float | None) -> None:
        self._planned, self._urgent = list(planned), list[Task]()
        self._taken: set[str] = set()
        self._pending = 0
        self._stopped = False
        self._deadline = deadline
        self._changed = threading.Condition()

    def take(self, switched: bool | None) -> Task | None:
        """Return the next run; None if none is left, or the time is over. switched: of the worker's cluster, if any."""
        with self._changed:
            while not self._over():
                if chosen := self._choose(switched):
                    self._pending += 1
                    self._taken.add(chosen.run_id)
                    return chosen
                if not self._pending:
                    break
                self._changed.wait(0.5)
            return None

    def _over(self) -> bool:
        return self._stopped or (self._deadline is not None and time.monotonic() >= self._deadline)

    def _choose(self, switched: bool | None) -> Task | None:
        if self._urgent:
            return self._urgent.pop(0)
        if not self._planned:
            return None
        first = self._planned[0]
        same = [t for t in self._planned if _tier(t) == _tier(first)]
        chosen = next((t for t in same if switched is not None and t.cuts_links == switched), first)
        self._planned.remove(chosen)
        return chosen

    def finish(self, following: list[Task]) -> None:
        """Count a run as finished, and add those that follow."""
        with self._changed:
            self._pending -= 1
            waiting = self._taken | {t.run_id for t in self._urgent}
            self._urgent += [t for t in following if t.run_id not in waiting]
            self._changed.notify_all()

    def stop(self) -> None:
        """Let no other run begin."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def _tier(task: Task) -> tuple[int, bool]:
    return len(task.faults.faults), bool(task.faults.cuts_all)


@dataclass
class Crew:
    """The workers of a proof, each with its cluster.

    report: called with each finished run, from several threads; no other run begins after it has returned True.
    """

    folder: ProofFolder
    follow_up: FollowUp
    listener: ProgressListener
    report: Callable[[ProofRun], bool | None]
    jobs: int
    _errors: list[BaseException] = field(default_factory=list)
    _interrupted: bool = False
    _finishing: threading.Lock = field(default_factory=threading.Lock)

    def run(self, planned: list[Task], deadline: float | None) -> None:
        """Do the runs until they are done or the time is over. Raises the first error of a worker."""
        queue = Queue(self._remaining(planned), deadline)
        with TrialLab(self.folder.path, self.listener, workers=self.jobs) as lab:
            workers = [
                threading.Thread(target=self._work, args=(lab, n, queue), name=f"worker-{n + 1}", daemon=True)
                for n in range(self.jobs)
            ]
            try:
                for worker in workers:
                    worker.start()
                for worker in workers:
                    while worker.is_alive():
                        worker.join(0.2)
            except BaseException:
                self._interrupted = True
                queue.stop()
                raise
        if self._errors:
            raise self._errors[0]

    def _remaining(self, planned: list[Task]) -> list[Task]:
        """Return the runs that are not stored yet: first those that follow from stored ones."""
        runs = self.folder.runs()
        done = {run.run_id for run in runs}
        return [*self.follow_up.tasks(runs), *(t for t in planned if t.run_id not in done)]

    def _work(self, lab: TrialLab, worker: int, queue: Queue) -> None:
        judging: list[threading.Thread] = []
        try:
            while not self._errors:
                spec = lab.lenders[worker].spec
                if (one := queue.take(None if spec is None else spec.switch)) is None:
                    break
                judging.append(self._drive(lab, worker, one, queue))
            for thread in judging:
                thread.join()
        except BaseException as e:  # noqa: BLE001 - `run` raises it again in the main thread
            self._errors.append(e)
            queue.stop()

    def _drive(self, lab: TrialLab, worker: int, one: Task, queue: Queue) -> threading.Thread:
        """Drive a run and return the thread that waits for its verdict."""
        remove_run(self.folder.path, one.run_id)  # of a run that was interrupted
        driven = lab.start(one.subject, one.run_id, worker=worker)
        thread = threading.Thread(target=self._finish, args=(one, driven, queue), name=one.run_id, daemon=True)
        thread.start()
        return thread

    def _finish(self, one: Task, driven: DrivenRun, queue: Queue) -> None:
        try:
            finished = driven.finish()
            if self._interrupted:
                return  # its brokers or its judge ended; it runs again when the proof goes on
            with self._finishing:
                stored = observe(one, finished, self.folder.path)
                self.folder.store(stored)
                runs = self.folder.runs()
                following = self.follow_up.tasks(runs)
            variant = f"{one.faults.id} with {one.change}" if one.change else one.faults.id
            title = f"prove {self.follow_up.application.title}"
            record([finished.run], self.folder.path.parent, self.listener.say, named=(title, variant))
            if self.report(stored):
                queue.stop()
            if one.faults.id == BASELINE and len(_unknown(runs)) > 1:
                queue.stop()  # without faults nothing works, so no other run can show anything
            queue.finish(following)
        except BaseException as e:  # noqa: BLE001 - as in `_work`
            self._errors.append(e)
            queue.stop()


def _unknown(runs: list[ProofRun]) -> list[ProofRun]:
    return [run for run in runs if run.set == BASELINE and run.purpose != "mended" and run.state == "unknown"]
