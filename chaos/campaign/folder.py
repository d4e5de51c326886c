"""The folder of a campaign: its plan, each finished run as a line of `runs.jsonl`, the run directories, the result.

A line is appended and synced when the verdict is known, so a kill loses no finished run. What a kill left of the last
line is cut off by the next line. Several processes may append to one file, as the tasks of a DAG do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from chaos.cluster.reaper import end_all
from chaos.errors import AftershockError, RunDirError, UsageError
from chaos.incident.bundle import SUFFIX, pack
from chaos.run.campaign import RESULT, Campaign, TrialRun
from chaos.run.directory import Run, make_folder, new_run_id, write_atomically, write_json

PLAN, RUNS, BUNDLES, LOCK = "plan.json", "runs.jsonl", "bundles", ".lock"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The request to a campaign: what every campaign has.

    into: the folder of a new campaign; a new one below `runs_dir` if None. resume: the folder of a campaign that goes
    on. repeat: runs of each part. jobs: runs at once, each on its own cluster; 0 if the campaign chooses. budget: when
    no other run begins, see `chaos.campaign.engine.Budget`.
    """

    runs_dir: Path
    into: Path | None = None
    resume: Path | None = None
    repeat: int | None = None
    jobs: int = 1
    budget: str | None = None
    seed: int | None = None


R = TypeVar("R", bound=Asked)
C = TypeVar("C", bound=Campaign)
OF_THIS_CALL = ("runs_dir", "into", "resume", "jobs", "budget", "cells")
"""The options that a campaign does not keep."""


class PlanFile(BaseModel):
    """The content of `plan.json`.

    asked: the request, with the seed that was drawn. parts: what runs, and what must not change when it goes on.
    spent_s: seconds that the campaign ran.
    """

    kind: str
    asked: dict[str, Any]
    parts: list[dict[str, str]]
    spent_s: float = 0


@dataclass
class Folder:
    """An opened folder."""

    path: Path
    plan: PlanFile

    @classmethod
    def open(cls, path: Path, kind: str) -> Folder:
        """Open the folder of a campaign. Raises `UsageError` if it is none of this kind, `RunDirError` for damage."""
        file = path / PLAN
        if not file.is_file():
            raise UsageError(f"{path} is no campaign of kind {kind}: it has no {PLAN}; leave --resume out")
        try:
            plan = PlanFile.model_validate_json(file.read_bytes())
        except ValidationError:
            raise RunDirError(f"{file} is damaged; begin a new one, without --resume") from None
        if plan.kind != kind:
            raise UsageError(f"{path} is a campaign of kind {plan.kind}, not {kind}")
        return cls(path.absolute(), plan)

    @classmethod
    def planned(cls, asked: Asked, kind: str, name: str, parts: list[dict[str, str]]) -> Folder:
        """Make the folder of a new campaign, or open an earlier folder to go on, and write the plan.

        asked: with its seed. Raises `UsageError` if the folder has other content or another plan, `RunDirError` if it
        cannot be made.
        """
        plan = PlanFile(kind=kind, asked=_kept(asked), parts=parts)
        if asked.resume is not None:
            folder = cls.open(asked.resume, kind)
            before = folder.plan
            if before.parts != parts or before.asked.get("seed") != plan.asked.get("seed"):
                raise UsageError(
                    f"{asked.resume} was begun with other content, by another release, or with another seed; undo the "
                    "changes, or begin a new one, without --resume"
                )
            folder.plan = plan.model_copy(update={"spent_s": before.spent_s})
        else:
            path = (asked.into or asked.runs_dir / new_run_id(name)).absolute()
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
            if (path / PLAN).is_file():
                raise UsageError(f"{path} has a campaign already; continue it with --resume, or name a new folder")
            if path.exists():
                raise UsageError(f"{path} exists and is not empty; name a new folder with --into")
            make_folder(path)
            folder = cls(path, plan)
        folder._save()
        return folder

    def _save(self) -> None:
        write_json(self.path / PLAN, self.plan.model_dump())

    def spend(self, seconds: float) -> None:
        """Add seconds to the running time of the campaign."""
        self.plan.spent_s += seconds
        self._save()

    def runs(self) -> list[TrialRun]:
        """Return the stored runs in their order; of one run id, the last line. Raises `RunDirError` for damage."""
        path = self.path / RUNS
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")[:-1]  # a line without an end is what a kill left
        runs: dict[str, TrialRun] = {}
        for number, line in enumerate(lines, start=1):
            try:
                run = TrialRun.model_validate_json(line)
            except ValidationError:
                what = f"line {number} of {path} is damaged, or of another version"
                raise RunDirError(f"{what}; remove the line, or begin a new campaign, without --resume") from None
            runs[run.run_id] = run
        return list(runs.values())

    def store(self, run: TrialRun) -> None:
        """Add a run."""
        with (self.path / RUNS).open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            before = file.read()
            file.truncate(before.rfind(b"\n") + 1)
            file.write(run.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def claimed(self, whole: bool = True) -> Iterator[None]:
        """Keep other processes from running the same campaign. whole: False for one of several shares of it.

        Raises `UsageError` if another process runs it.
        """
        with (self.path / LOCK).open("w") as file:
            try:
                fcntl.flock(file, (fcntl.LOCK_EX if whole else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(f"another process runs the campaign in {self.path}; wait until it has ended") from None
            yield

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

    def write(self, result: C) -> C:
        """Write the result with its pages, and return it with this folder. Raises `AftershockError`."""
        result = result.model_copy(update={"folder": str(self.path)})
        write_atomically(self.path / RESULT, result.model_dump_json(indent=1) + "\n")
        from chaos.report import campaign  # imported on use: templates are needed at the end only

        try:
            campaign.write(result, self.path)
        except OSError as e:
            reason = e.strerror or str(e)
            raise AftershockError(f"{RESULT} is in {self.path}, but its pages could not be written: {reason}") from None
        return result


def lasting(source: str) -> str:
    """Return a source that also names its file or run directory from another folder; other names unchanged."""
    path = Path(source)
    return str(path.absolute()) if path.is_file() or (path / "resolved.json").is_file() else source


def _kept(asked: Asked) -> dict[str, Any]:
    kept: dict[str, Any] = TypeAdapter(type(asked)).dump_python(asked, mode="json")
    return {name: value for name, value in kept.items() if name not in OF_THIS_CALL}


def kept_request(folder: Folder, of: type[R]) -> R:
    """Return the request that the plan of a folder keeps. Raises `RunDirError` for damage."""
    try:
        return TypeAdapter(of).validate_python({**folder.plan.asked, "runs_dir": folder.path.parent})
    except ValidationError:
        raise RunDirError(f"{folder.path / PLAN} is damaged, or of another version; begin a new one") from None


def resumed(asked: R, kind: str) -> R:
    """Return the request; of a campaign that goes on, with what it leaves out as it was. Raises as `Folder.open`."""
    if asked.resume is None:
        return asked
    if asked.into is not None:
        raise UsageError("--resume continues in its folder; leave --into out")
    before = kept_request(Folder.open(asked.resume, kind), type(asked))
    left_out = [f.name for f in fields(asked) if f.name not in OF_THIS_CALL and getattr(asked, f.name) == f.default]
    return replace(asked, **{name: getattr(before, name) for name in left_out})
