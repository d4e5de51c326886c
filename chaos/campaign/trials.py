"""Trials: runs of subjects, one after another, in the lab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos.campaign.subject import Request, Subject, dump, raw_of
from chaos.drive import stages
from chaos.lab.lab import DrivenRun, FinishedRun, Lab
from chaos.lab.progress import ProgressListener
from chaos.run.directory import Run, new_folder, write_atomically


class TrialLab(Lab):
    """A lab that prepares the run directories of subjects.

    i_own_this_cluster: allow faults on brokers of an existing cluster. run_count: number of runs that began.
    """

    def __init__(
        self, folder: Path, listener: ProgressListener, i_own_this_cluster: bool = False, workers: int = 1
    ) -> None:
        super().__init__(folder, listener, workers)
        self.run_count, self._i_own_this_cluster = 0, i_own_this_cluster

    def start(self, subject: Subject, run_id: str, seed: int | None = None, worker: int = 0) -> DrivenRun:
        """Drive a run until its log was read back; its verdict may be pending. Raises as `Lab.drive`."""
        run = self.prepare(subject, run_id, seed)
        self.run_count += 1
        return self.drive(run, run_id, worker)

    def prepare(self, subject: Subject, run_id: str, seed: int | None = None) -> Run:
        """Make the run directory of a subject, and its scenario as a file beside it for the run's own command."""
        file = self.folder / f"{run_id}.yaml"
        write_atomically(file, dump(raw_of(subject.scenario)))
        seed = subject.seed if seed is None else seed
        given = stages.ScenarioRequest(str(file), seed=seed, i_own_this_cluster=self._i_own_this_cluster)
        return stages.prepare(given, runs_dir=self.folder, run_id=run_id)

    def run(self, subject: Subject, run_id: str) -> FinishedRun:
        """Drive a run and wait for its verdict. Raises as `Lab.drive`."""
        return self.start(subject, run_id).finish()

    def run_all(self, subject: Subject, seeds: Sequence[int]) -> Iterator[FinishedRun]:
        """Run a subject once with each seed. The judge works on a run while the next one is driven."""
        previous: DrivenRun | None = None
        for n, seed in enumerate(seeds, 1):
            driven = self.start(subject, f"{subject.name}-{n}", seed)
            if previous is not None:
                yield previous.finish()
            previous = driven
        if previous is not None:
            yield previous.finish()


def new_lab(command: str, subject: Subject, request: Request, listener: ProgressListener) -> TrialLab:
    """Return a lab in a new folder, `<command>-<subject>-<time>-<hex>`. Raises `RunDirError`."""
    folder = new_folder(request.runs_dir, f"{command}-{subject.name}")
    return TrialLab(folder, listener, request.i_own_this_cluster)
