"""The folder of a gate: its plan, and each finished run as a line of `runs.d/<cell>.jsonl`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from chaos.cluster.lifecycle.gc import end_all
from chaos.errors import AftershockError, RunDirError, UsageError
from chaos.gate.matrix import PlannedCell
from chaos.incident.bundle import SUFFIX, pack
from chaos.run.directory import Run, make_folder, write_atomically, write_json
from chaos.run.gate_result import CellRun

PLAN, RUNS, BUNDLES = "plan.json", "runs.d", "bundles"


class Plan(BaseModel):
    """The content of `plan.json`. cells: the key and the setup of each planned cell."""

    gate: str
    seed: int
    repeat: int
    cells: list[dict[str, str]]


@dataclass(frozen=True)
class GateFolder:
    """A folder with the plan, the stored runs, the run directories and the results of a gate."""

    path: Path

    @classmethod
    def open_or_make(cls, path: Path) -> GateFolder:
        """Open the folder of an earlier gate or make a new one. Raises `UsageError` if the folder has other content."""
        folder = cls(path.absolute())
        if path.is_dir():
            if not folder.has_plan and any(path.iterdir()):
                raise UsageError(f"{path} is not the folder of a gate; name a new one")
        else:
            make_folder(folder.path)
        return folder

    @property
    def has_plan(self) -> bool:
        """Whether a gate was planned here."""
        return (self.path / PLAN).is_file()

    def plan(self) -> Plan:
        """Return the plan. Raises `RunDirError` if it is damaged."""
        try:
            return Plan.model_validate_json((self.path / PLAN).read_bytes())
        except ValidationError:
            raise RunDirError(f"{self.path / PLAN} is damaged; run the gate in a new folder") from None

    def write_plan(self, name: str, seed: int, repeat: int, cells: Sequence[PlannedCell]) -> None:
        """Write the plan. Raises `UsageError` if the folder has the plan of another gate or seed."""
        keys = [{**cell.key.model_dump(), "setup": cell.setup} for cell in cells]
        if self.has_plan and ((before := self.plan()).cells != keys or before.seed != seed):
            raise UsageError(f"{self.path} is of another gate, or of another seed; name another folder with --into")
        write_json(self.path / PLAN, Plan(gate=name, seed=seed, repeat=repeat, cells=keys).model_dump())

    def runs(self, cell: PlannedCell) -> list[CellRun]:
        """Return the stored runs of a cell by their number. Raises `RunDirError` if they are damaged."""
        path = self._file(cell)
        if not path.exists():
            return []
        try:
            runs = [CellRun.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except (ValidationError, UnicodeDecodeError):
            raise RunDirError(f"{path} is damaged, or of another version; run the gate again in a new folder") from None
        return sorted(runs, key=lambda run: run.n)

    def store(self, cell: PlannedCell, run: CellRun) -> CellRun:
        """Add a run, or replace the one with the same number."""
        path = self._file(cell)
        path.parent.mkdir(exist_ok=True)
        others = [other for other in self.runs(cell) if other.n != run.n]
        write_atomically(path, "".join(line.model_dump_json() + "\n" for line in (*others, run)))
        return run

    def _file(self, cell: PlannedCell) -> Path:
        return self.path / RUNS / f"{cell.file}.jsonl"

    def remove_run(self, run_id: str) -> None:
        """End the processes of an interrupted run and delete its directory."""
        left = self.path / run_id
        end_all(left)
        shutil.rmtree(left, ignore_errors=True)

    def pack_run(self, run_id: str) -> str:
        """Pack a run; return the path of the bundle relative to the folder, or an empty string if that fails."""
        (self.path / BUNDLES).mkdir(exist_ok=True)
        bundle = f"{BUNDLES}/{run_id}{SUFFIX}"
        try:
            pack(Run(self.path / run_id), self.path / bundle)
        except AftershockError:
            return ""
        return bundle
