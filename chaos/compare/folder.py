"""The folder of a comparison, and the judge that fills it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaos.compare.model import Comparison, compared
from chaos.compare.rounds import check_goes_on
from chaos.errors import AftershockError, UsageError
from chaos.lab.judge import audit_once
from chaos.run.directory import Run, new_run_id
from chaos.run.events import Event

Listener = Callable[[Event], None]


def place(runs_dir: Path, into: Path | None, asked: Comparison) -> Run:
    """Return a folder with what is asked: a new one, or the one of rounds that go on.

    Raises `UsageError` if `into` is there already, and no comparison that goes on with what is asked.
    """
    if into is None:
        run = Run.create(runs_dir, new_run_id("compare"))
    elif asked.every_s is not None and into.exists():
        run = Run(into.absolute())
        check_goes_on(run, asked, compared(run.path))
    elif into.exists():
        raise UsageError(f"{into} is there already; name a new folder with --into, or leave it out")
    else:
        run = Run.create(into.absolute().parent, into.name)
    asked.save(run)
    return run


def judge(run: Run, view: Listener) -> int:
    """Compare, and return the exit code of the verdict. Raises `AftershockError` if there is no result."""
    problems: list[str] = []

    def listen(event: Event) -> None:
        if event["kind"] == "problem":
            problems.append(event["words"])
        else:
            view(event)

    view({"kind": "note", "words": "starting the judge"})
    code = audit_once(run, listen)
    if problems or not run.result.exists():  # it may be of an earlier round
        raise AftershockError("; ".join(problems) or f"no result; see {run.logs}")
    return code
