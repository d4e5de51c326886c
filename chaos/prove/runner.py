"""The plan of a proof: the sets of faults in their order, and the runs that follow from the results of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.campaign.engine import Plan, Trial
from chaos.campaign.folder import Folder
from chaos.lab.lab import FinishedRun
from chaos.prove.follow_up import FollowUp
from chaos.prove.observed import observe
from chaos.prove.plan import BASELINE
from chaos.prove.task import Task
from chaos.run.campaign import ProofRun, TrialRun


def proven(runs: Sequence[TrialRun]) -> list[ProofRun]:
    """Return what the stored runs of a proof show."""
    return [run.proof for run in runs if run.proof is not None]


@dataclass
class Proving(Plan):
    """First the runs that follow from stored ones, then the planned sets. Each run that breaks a promise is packed."""

    bundles = False

    planned: Sequence[Task]
    follow_up: FollowUp
    _tasks: dict[str, Task] = field(default_factory=dict)

    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return the runs that are wanted after these."""
        following = self.follow_up.tasks(proven(runs))
        self._tasks |= {task.run_id: task for task in (*self.planned, *following)}
        urgent = [self._trial(task, ("urgent", task.run_id)) for task in following]
        known = {trial.run_id for trial in urgent}
        return [*urgent, *(self._trial(t, tier(t)) for t in self.planned if t.run_id not in known)]

    def is_over(self, runs: Sequence[TrialRun]) -> bool:
        """Return whether nothing works without faults, so that no other run can show anything."""
        own = [run for run in proven(runs) if run.set == BASELINE and run.purpose != "mended"]
        return sum(run.state == "unknown" for run in own) > 1

    def observe(self, trial: Trial, finished: FinishedRun, folder: Folder) -> TrialRun:
        """Return what is stored of a run: its anomalies beside the contract, and whether it proves anything."""
        proof = observe(self._tasks[trial.run_id], finished, folder)
        return super().observe(trial, finished, folder).model_copy(update={"proof": proof, "bundle": proof.bundle})

    def describe(self, run: TrialRun) -> str:
        """Return what a run shows of the promises."""
        return f"{run.proof.state}: {run.proof.sentence}" if run.proof is not None else run.sentence

    def _trial(self, task: Task, of_tier: tuple[object, ...]) -> Trial:
        title = f"{task.faults.id} with {task.change}" if task.change else task.faults.id
        return Trial(
            run_id=task.run_id,
            subject=task.subject,
            part=task.faults.id,
            n=task.n,
            title=title,
            listed=(f"prove {self.follow_up.application.title}", title),
            tier=of_tier,
            cluster=f"switched {task.cuts_links}",
        )


def tier(task: Task) -> tuple[object, ...]:
    """Return what is equal for runs that may change places: the number of faults, and whether they cut all supports."""
    return len(task.faults.faults), bool(task.faults.cuts_all)
