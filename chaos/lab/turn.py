"""One run's turn: on a cluster that is lent to it, up to the reading of its log; the judge has the rest."""

from __future__ import annotations

import time
from dataclasses import dataclass

from chaos.drive import stages
from chaos.errors import USAGE, AftershockError
from chaos.lab.judge import Judge, Judging
from chaos.lab.lender import Lender
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.run.events import EventLog
from chaos.scenario.resolve import Resolved


@dataclass(frozen=True)
class Turn:
    """A turn that is over; `seconds` until the log was read, `trouble` why the run broke off, or empty."""

    judging: Judging
    seconds: float
    trouble: str


def take(run: Run, resolved: Resolved, lender: Lender, judge: Judge, events: EventLog) -> Turn:
    """Drive a run that was prepared. One that broke off is judged by what it recorded.

    Raises an `AftershockError` with exit code 2 where input or machine do not allow the run at all.
    """
    began, trouble = time.monotonic(), ""
    try:
        home = lender.cluster(resolved, lambda words: events.emit("note", words=words))
        stages.deploy(run, events, ProcessId.current(), home)
        try:
            stages.drive(run, events)
        except AftershockError as e:
            trouble = str(e)
    except AftershockError as e:
        if e.exit_code == USAGE:
            raise
        trouble = str(e)
    judging = judge.take(run)
    judging.read.wait()
    seconds = time.monotonic() - began
    stages.destroy(run, events)
    lender.take_back()
    return Turn(judging, seconds, trouble)
