"""Running the cells, and keeping each finished run at once: nothing that was run is lost, however it ends.

Every repetition is a round through all cells, so that what changes slowly on the machine falls on all of them alike. In
a round, cells that ask for the same cluster follow one another on one. The groups change places from round to round (A
B, B A), and a round begins with a cluster of its own, for a run on one that is warm is quicker: in each group it is the
same cell, the next one in each round, that finds its cluster cold. The n-th run has the same seed in every cell.

A run that was kept is a line of `runs.d/<cell>.jsonl`, and is not run again if the gate is continued.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from chaos.cluster.lifecycle.gc import end_all
from chaos.errors import USAGE, AftershockError, RunDirError
from chaos.gate.matrix import Planned
from chaos.gate.model import Gate
from chaos.history.entries import judged_entry
from chaos.history.trends import TREND_STATS
from chaos.incident.again import seeds
from chaos.incident.bundle import SUFFIX, pack
from chaos.incident.facts import versions
from chaos.incident.lab import Trial
from chaos.incident.subject import Subject
from chaos.run.directory import Run, write_atomically
from chaos.run.gate_result import CellRun
from chaos.run.result import Metric
from chaos.scenario.resolve import read

KEPT, BUNDLES = "runs.d", "bundles"
"""Folders beside the run directories: what is kept of each run, and bundles of those that failed."""


class Driven(Protocol):
    """A run whose verdict may still be made."""

    @property
    def ready(self) -> bool:
        """Whether that was made."""

    def trial(self) -> Trial:
        """Wait for it."""


class Laboratory(Protocol):
    """What runs a subject; see `chaos.incident.lab`."""

    def drive(self, subject: Subject, run_id: str, seed: int | None = None) -> Driven:
        """Run it up to the reading of its log."""

    def renew(self) -> None:
        """Let the next run begin with a cluster of its own."""


@dataclass(frozen=True)
class Due:
    """One run to come."""

    cell: Planned
    n: int
    seed: int


def order(cells: Sequence[Planned], gate: Gate, seed: int) -> list[Due]:
    """All runs of a gate, as they come: in each round group by group, and each cell of a group is its first in turn."""
    groups: dict[str, list[Planned]] = {}
    for cell in cells:
        groups.setdefault(cell.cluster, []).append(cell)
    found = []
    for n, one in enumerate(seeds(seed, gate.repeat), 1):
        for group in list(groups.values())[:: 1 if n % 2 else -1]:
            first = (n - 1) % len(group)
            found += [Due(cell, n, one) for cell in (*group[first:], *group[:first])]
    return found


class Kept:
    """The runs of a gate's folder that are finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def runs(self, cell: Planned) -> list[CellRun]:
        """Those of a cell, by their number. Raises `RunDirError` if they cannot be read."""
        path = self._file(cell)
        if not path.exists():
            return []
        try:
            found = [CellRun.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except (ValidationError, UnicodeDecodeError):
            raise RunDirError(f"{path} is damaged, or of another version; run the gate anew") from None
        return sorted(found, key=lambda run: run.n)

    def keep(self, cell: Planned, run: CellRun) -> CellRun:
        """Add one, or put it in the place of the one that has its number."""
        path = self._file(cell)
        path.parent.mkdir(exist_ok=True)
        others = [one for one in self.runs(cell) if one.n != run.n]
        write_atomically(path, "".join(one.model_dump_json() + "\n" for one in (*others, run)))
        return run

    def _file(self, cell: Planned) -> Path:
        return self.folder / KEPT / f"{cell.file}.jsonl"


def due(cells: Sequence[Planned], gate: Gate, seed: int, kept: Kept) -> list[Due]:
    """What is still to be run. What an interrupted run left is removed, to be run again; and what could not begin then
    may be able to now."""
    done = {(cell.number, run.n) for cell in cells for run in kept.runs(cell) if run.ran}
    found = [one for one in order(cells, gate, seed) if (one.cell.number, one.n) not in done]
    for one in found:
        left = kept.folder / one.cell.run_id(one.n)
        end_all(left)
        shutil.rmtree(left, ignore_errors=True)
    return found


def run(lab: Laboratory, due: Sequence[Due], kept: Kept) -> Iterator[tuple[Due, CellRun]]:
    """Run what is due, and keep it. A run is judged while the next one is driven.

    A cell that cannot be run at all is inconclusive with the reason, and not tried again; the others go on.
    """
    impossible: set[int] = set()
    several = len({one.cell.cluster for one in due}) > 1
    last = due[0].n if due else 0
    before: tuple[Due, Driven] | None = None
    try:
        for one in due:
            if one.cell.number in impossible:
                continue
            if several and one.n != last:
                lab.renew()
            last = one.n
            try:
                now = lab.drive(one.cell.subject, one.cell.run_id(one.n), one.seed)
            except AftershockError as e:
                if e.exit_code != USAGE:
                    raise
                impossible.add(one.cell.number)
                words = f"It cannot be run: {e}"
                nothing = CellRun(n=one.n, seed=one.seed, verdict="inconclusive", sentence=words, ran=False)
                yield one, kept.keep(one.cell, nothing)
                continue
            done, before = before, (one, now)
            if done is not None:
                yield done[0], _keep(*done, kept)
    except BaseException:
        if before is not None and before[1].ready:
            _keep(*before, kept)
        raise
    if before is not None:
        yield before[0], _keep(*before, kept)


def _keep(due: Due, driven: Driven, kept: Kept) -> CellRun:
    found = seen(due, driven.trial(), kept.folder)
    first = not any(run.bundle for run in kept.runs(due.cell))
    if found.verdict == "fail" and first:
        found = found.model_copy(update={"bundle": bundle(kept.folder, due.cell.run_id(due.n))})
    return kept.keep(due.cell, found)


def bundle(folder: Path, run_id: str) -> str:
    """Pack a run of the gate; the bundle's place in the folder, or nothing where it could not be written."""
    (folder / BUNDLES).mkdir(exist_ok=True)
    place = f"{BUNDLES}/{run_id}{SUFFIX}"
    try:
        pack(Run(folder / run_id), folder / place)
    except AftershockError:
        return ""
    return place


def seen(due: Due, trial: Trial, folder: Path) -> CellRun:
    """What is kept of a run. One whose clients or brokers were not those of its cell proves nothing of it."""
    found = CellRun(
        n=due.n,
        seed=trial.seed,
        verdict=trial.seen.verdict,
        sentence=trial.seen.sentence,
        anomalies=trial.seen.anomalies,
        seconds=round(trial.seconds, 1),
    )
    if not trial.run.result.exists():
        return found
    kept, told = judged_entry(trial.run), versions(trial.run, read(trial.run))
    found = found.model_copy(
        update={
            "times": [Metric(**vars(t)) for t in kept.times if t.stat in TREND_STATS.get(t.metric, ())],
            "kafka": told.get("kafka", ""),
            "client": told.get("confluent-kafka", ""),
            "report": os.path.relpath(trial.run.report, folder) if trial.run.report.exists() else "",
        }
    )
    key = due.cell.key
    if (found.kafka, found.client) != (key.kafka, key.client) and found.conclusive:
        words = f"It ran with Kafka {found.kafka} and clients {found.client}, which is not its cell: {found.sentence}"
        return found.model_copy(update={"verdict": "inconclusive", "sentence": words})
    return found
