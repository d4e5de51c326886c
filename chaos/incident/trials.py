"""Trials: runs of subjects, one after another, in the lab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from chaos.drive import stages
from chaos.incident.subject import Subject, dump, raw_of
from chaos.lab.lab import DrivenRun, FinishedRun, Lab
from chaos.lab.progress import ProgressListener
from chaos.run.directory import Run, make_folder, new_run_id, write_atomically


class TrialLab:
    """A lab that prepares the run directories of subjects. A context manager; leaving it ends every process."""

    def __init__(self, folder: Path, listener: ProgressListener, i_own_this_cluster: bool = False) -> None:
        """folder: an existing folder for run directories and their scenarios.

        i_own_this_cluster: allow faults on brokers of an existing cluster.
        """
        self.folder, self.listener, self.run_count = folder, listener, 0
        self._lab, self._i_own_this_cluster = Lab(folder), i_own_this_cluster

    def __enter__(self) -> TrialLab:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._lab.__exit__(kind, error, tb)

    def renew(self) -> None:
        """End the lent cluster, so that the next run starts on a new one."""
        self._lab.renew()

    def drive(self, subject: Subject, run_id: str, seed: int | None = None) -> DrivenRun:
        """Drive a run until its log was read back. Raises as `Lab.drive`."""
        self._lab.ready_judge()
        run = prepare_run(self.folder, subject, run_id, seed, self._i_own_this_cluster)
        self.run_count += 1
        self.listener.run_started(run_id)
        driven = self._lab.drive(run, lambda event: self.listener.run_event(run_id, event))
        self.listener.run_driven(run_id)
        return driven

    def run(self, subject: Subject, run_id: str, seed: int | None = None) -> FinishedRun:
        """Drive a run and wait for its verdict. Raises as `Lab.drive`."""
        return self.drive(subject, run_id, seed).finish()

    def run_all(self, subject: Subject, seeds: Sequence[int]) -> Iterator[FinishedRun]:
        """Run a subject once with each seed. The judge works on a run while the next one is driven."""
        previous: DrivenRun | None = None
        for n, seed in enumerate(seeds, 1):
            driven = self.drive(subject, f"{subject.name}-{n}", seed)
            if previous is not None:
                yield previous.finish()
            previous = driven
        if previous is not None:
            yield previous.finish()


def prepare_run(
    folder: Path, subject: Subject, run_id: str, seed: int | None = None, i_own_this_cluster: bool = False
) -> Run:
    """Make the run directory of a subject, and its scenario as a file beside it for the run's own command."""
    file = folder / f"{run_id}.yaml"
    write_atomically(file, dump(raw_of(subject.scenario)))
    given = stages.ScenarioRequest(
        str(file), seed=subject.seed if seed is None else seed, i_own_this_cluster=i_own_this_cluster
    )
    return stages.prepare(given, runs_dir=folder, run_id=run_id)


def new_folder(runs_dir: Path, prefix: str) -> Path:
    """Make the folder of one command, `<prefix>-<time>-<hex>`. Raises `RunDirError`."""
    folder = runs_dir.absolute() / new_run_id(prefix)
    make_folder(folder)
    return folder
