"""The folder of a proof: its plan, its stored runs, and its run directories."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ValidationError

from chaos.errors import RunDirError, UsageError
from chaos.run.directory import make_folder, write_atomically, write_json
from chaos.run.proof_result import ProofRun

PLAN, RUNS, RESULT = "plan.json", "runs.jsonl", "proof.json"


class Plan(BaseModel):
    """The content of `plan.json`. app: the application's file. digest: of that file and all that it names.
    select: what is chosen of a file with several applications.

    spent_s: seconds that the proof ran before it was continued.
    """

    app: str
    digest: str
    seed: int
    most: int
    sets: list[str]
    select: list[str] = []
    spent_s: float = 0


@dataclass
class ProofFolder:
    """An opened folder."""

    path: Path
    plan: Plan
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def create(cls, path: Path, plan: Plan) -> ProofFolder:
        """Make the folder of a new proof. Raises `RunDirError` if it exists."""
        make_folder(path)
        write_json(path / PLAN, plan.model_dump())
        return cls(path, plan)

    @classmethod
    def open(cls, path: Path) -> ProofFolder:
        """Open the folder of a proof. Raises `UsageError` if it is none, and `RunDirError` if its plan is damaged."""
        if not (path / PLAN).is_file():
            raise UsageError(f"{path} is not the folder of a proof: it has no {PLAN}; leave --resume out for a new one")
        try:
            return cls(path.absolute(), Plan.model_validate_json((path / PLAN).read_bytes()))
        except ValidationError:
            raise RunDirError(f"{path / PLAN} is damaged; begin a new proof, without --resume") from None

    def check(self, app: Path, digest: str, sets: Sequence[str]) -> None:
        """Raise `UsageError` if the application's file has changed since the proof began."""
        if digest != self.plan.digest:
            raise UsageError(
                f"{app} is not as it was when the proof in {self.path} began; undo its changes, or begin a new proof, "
                "without --resume"
            )
        if list(sets) != self.plan.sets:
            raise UsageError(
                f"{self.path} is of another version of Aftershock, with other sets of faults; begin a new proof"
            )

    def runs(self) -> list[ProofRun]:
        """Return the stored runs in their order. Raises `RunDirError` if they are damaged."""
        path = self.path / RUNS
        if not path.exists():
            return []
        try:
            return [ProofRun.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except (ValidationError, UnicodeDecodeError):
            raise RunDirError(
                f"{path} is damaged, or of another version; begin a new proof, without --resume"
            ) from None

    def store(self, run: ProofRun) -> None:
        """Add a run. Thread-safe."""
        with self._lock:
            lines = [*self.runs(), run]
            write_atomically(self.path / RUNS, "".join(line.model_dump_json() + "\n" for line in lines))

    def spend(self, seconds: float) -> None:
        """Add seconds to those that the proof has run."""
        self.plan.spent_s += seconds
        write_json(self.path / PLAN, self.plan.model_dump())


def digest_of(files: Iterable[Path]) -> str:
    """Return the digest of files: of their names and their bytes."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
