"""The folder of a gate: its plan, and each finished run as a line of `runs.d/<cell>.jsonl`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from chaos.campaign.kept_runs import pack_run, remove_run
from chaos.errors import RunDirError, UsageError
from chaos.gate.matrix import PlannedCell
from chaos.run.directory import make_folder, write_atomically, write_json
from chaos.run.gate_result import CellRun

PLAN, RUNS = "plan.json", "runs.d"
_STORING = threading.Lock()


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
    def planned(cls, path: Path, name: str, seed: int, repeat: int, cells: Sequence[PlannedCell]) -> GateFolder:
        """Make a folder, or open that of an earlier gate, and write the plan.

        Raises `UsageError` if the folder has other content, or the plan of another gate or seed.
        """
        folder = cls(path.absolute())
        plan = Plan(
            gate=name, seed=seed, repeat=repeat, cells=[{**c.key.model_dump(), "setup": c.setup} for c in cells]
        )
        if not path.is_dir():
            make_folder(folder.path)
        elif folder.has_plan:
            if ((before := folder.plan()).cells, before.seed) != (plan.cells, seed):
                where = f"{folder.path} has other scenarios, releases or settings, or another seed"
                raise UsageError(f"{where}; name another folder")
        elif any(path.iterdir()):
            raise UsageError(f"{path} is not the folder of a gate or a comparison; name a new one")
        write_json(folder.path / PLAN, plan.model_dump())
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
        """Add a run, or replace the one with the same number. Thread-safe."""
        path = self._file(cell)
        with _STORING:
            path.parent.mkdir(exist_ok=True)
            others = [other for other in self.runs(cell) if other.n != run.n]
            write_atomically(path, "".join(line.model_dump_json() + "\n" for line in (*others, run)))
        return run

    def _file(self, cell: PlannedCell) -> Path:
        return self.path / RUNS / f"{cell.file}.jsonl"

    def remove_run(self, run_id: str) -> None:
        """End the processes of an interrupted run and delete its directory."""
        remove_run(self.path, run_id)

    def pack_run(self, run_id: str) -> str:
        """Pack a run; return the path of the bundle relative to the folder, or an empty string if that fails."""
        return pack_run(self.path, run_id)
