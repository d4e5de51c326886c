"""Runs of the cells of a gate. Each finished run is stored at once, so an interruption loses no finished run.

Each repetition is a round through all cells, so that slow changes of the machine affect all of them alike. Within a
round, cells that need the same cluster follow one another on one cluster. The groups swap places from round to round
(A B, B A), and each round starts on a new cluster. A run on a warm cluster is faster, so the first cell of a group
rotates with each round. The n-th run has the same seed in every cell.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from chaos.campaign.clients import clients_of
from chaos.campaign.trials import TrialLab
from chaos.errors import USAGE, AftershockError
from chaos.gate.folder import GateFolder
from chaos.gate.matrix import PlannedCell
from chaos.gate.model import Gate
from chaos.history.entries import judged_entry
from chaos.history.trends import TREND_STATS
from chaos.incident.bundle import recorded_versions
from chaos.lab.lab import DrivenRun, FinishedRun
from chaos.run.gate_result import CellRun
from chaos.run.result import RunSummary
from chaos.scenario.resolve import read, seeds


@dataclass(frozen=True)
class PlannedRun:
    """The n-th run of a cell."""

    cell: PlannedCell
    n: int
    seed: int


def order(cells: Sequence[PlannedCell], gate: Gate, seed: int) -> list[PlannedRun]:
    """Return all runs of a gate in the order of the module's description."""
    groups: dict[str, list[PlannedCell]] = {}
    for cell in cells:
        groups.setdefault(cell.cluster, []).append(cell)
    planned = []
    for n, run_seed in enumerate(seeds(seed, gate.repeat), 1):
        for group in list(groups.values())[:: 1 if n % 2 else -1]:
            first = (n - 1) % len(group)
            planned += [PlannedRun(cell, n, run_seed) for cell in (*group[first:], *group[:first])]
    return planned


def remaining(cells: Sequence[PlannedCell], gate: Gate, seed: int, folder: GateFolder) -> list[PlannedRun]:
    """Return the runs that are not stored yet, and delete what interrupted ones left.

    A run that could not start is tried again: the obstacle may be gone.
    """
    done = {(cell.number, run.n) for cell in cells for run in folder.runs(cell) if run.ran}
    planned = [p for p in order(cells, gate, seed) if (p.cell.number, p.n) not in done]
    for run in planned:
        folder.remove_run(run.cell.run_id(run.n))
    return planned


def run_all(
    lab: TrialLab, planned: Sequence[PlannedRun], folder: GateFolder, jobs: int = 1
) -> Iterator[tuple[PlannedRun, CellRun]]:
    """Drive and store the runs, and yield each when it is stored. The judge works while the next run is driven.

    A cell that cannot run at all is inconclusive and is not tried again; the other cells go on. jobs: runs at once, by
    as many workers of the lab.
    """
    queue = _Queue(planned)
    if jobs == 1:
        yield from _work(lab, 0, queue, folder)
        return
    done: SimpleQueue[tuple[PlannedRun, CellRun] | BaseException | None] = SimpleQueue()

    def work(worker: int) -> None:
        try:
            for finished in _work(lab, worker, queue, folder):
                done.put(finished)
            done.put(None)
        except BaseException as e:  # noqa: BLE001 - raised again below, in the caller's thread
            done.put(e)

    for worker in range(jobs):
        threading.Thread(target=work, args=(worker,), name=f"worker-{worker + 1}", daemon=True).start()
    try:
        for _ in range(jobs):
            while (finished := done.get()) is not None:
                if isinstance(finished, BaseException):
                    raise finished
                yield finished
    finally:
        queue.close()


class _Queue:
    """The runs that are to do, for several workers."""

    def __init__(self, planned: Sequence[PlannedRun]) -> None:
        self._runs = list(planned)
        self._lock = threading.Lock()
        self.several_clusters = len({run.cell.cluster for run in planned}) > 1

    def take(self) -> PlannedRun | None:
        """Return the next run; None if there is none."""
        with self._lock:
            return self._runs.pop(0) if self._runs else None

    def drop(self, cell: PlannedCell) -> None:
        """Remove the runs of a cell."""
        with self._lock:
            self._runs = [run for run in self._runs if run.cell.number != cell.number]

    def close(self) -> None:
        """Remove all runs."""
        with self._lock:
            self._runs.clear()


def _work(lab: TrialLab, worker: int, queue: _Queue, folder: GateFolder) -> Iterator[tuple[PlannedRun, CellRun]]:
    """Drive and store runs of the queue with one worker of the lab, and yield each when it is stored."""
    round_ = 0
    pending: tuple[PlannedRun, DrivenRun] | None = None
    try:
        while (run := queue.take()) is not None:
            if queue.several_clusters and round_ and run.n != round_:
                lab.renew(worker)
            round_ = run.n
            try:
                driven = lab.start(run.cell.subject, run.cell.run_id(run.n), run.seed, worker)
            except AftershockError as e:
                if e.exit_code != USAGE:
                    raise
                queue.drop(run.cell)
                reason = f"It cannot be run: {e}"
                refused = CellRun(n=run.n, seed=run.seed, verdict="inconclusive", sentence=reason, ran=False)
                yield run, folder.store(run.cell, refused)
                continue
            previous, pending = pending, (run, driven)
            if previous is not None:
                yield previous[0], _store(*previous, folder)
    except BaseException:
        if pending is not None and pending[1].ready:
            _store(*pending, folder)
        raise
    if pending is not None:
        yield pending[0], _store(*pending, folder)


def _store(planned: PlannedRun, pending: DrivenRun, folder: GateFolder) -> CellRun:
    run = cell_run(planned, pending.finish(), folder)
    if run.verdict == "fail" and not any(earlier.bundle for earlier in folder.runs(planned.cell)):
        run = run.model_copy(update={"bundle": folder.pack_run(planned.cell.run_id(planned.n))})
    return folder.store(planned.cell, run)


def cell_run(planned: PlannedRun, finished: FinishedRun, folder: GateFolder) -> CellRun:
    """Return what is stored of a run. A run with other releases than those of its cell is inconclusive."""
    outcome, run, key = finished.outcome, finished.run, planned.cell.key
    stored = CellRun(
        **outcome.model_dump(exclude={"exceeded"}), n=planned.n, seed=finished.seed, seconds=round(finished.seconds, 1)
    )
    if not run.result.exists():
        return stored
    resolved = read(run)
    versions = recorded_versions(run, resolved)
    kafka, client = versions.get("kafka", ""), clients_of(resolved.scenario, versions)
    update = {
        "times": [t for t in judged_entry(run).times if t.stat in TREND_STATS.get(t.metric, ())],
        "load": RunSummary.read(run).load,
        "kafka": kafka,
        "client": client,
        "report": os.path.relpath(run.report, folder.path) if run.report.exists() else "",
    }
    if (kafka, client) != (key.kafka, key.client) and stored.conclusive:
        reason = f"It ran with Kafka {kafka} and clients {client}, which is not its cell: {stored.sentence}"
        update |= {"verdict": "inconclusive", "sentence": reason}
    return stored.model_copy(update=update)
