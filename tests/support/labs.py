"""A lab that starts nothing, for campaigns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.campaign.engine import Trial
from chaos.lab.lab import FinishedRun
from chaos.run.directory import Run
from chaos.run.result import RunOutcome, Verdict


def seen(verdict: Verdict, **anomalies: int) -> RunOutcome:
    """The outcome of a run with this verdict."""
    return RunOutcome(verdict=verdict, sentence=f"it is {verdict}.", anomalies=anomalies)


@dataclass
class FakeLab:
    """A lab that starts nothing. rule: returns the verdict or the outcome of a trial, or raises."""

    rule: Callable[[Trial], Verdict | RunOutcome] = lambda trial: "pass"
    asked: list[str] = field(default_factory=list)
    renewed: list[int] = field(default_factory=list)

    def __call__(self, folder: Path, *_: object, **__: object) -> FakeLab:
        self.folder = folder
        return self

    def __enter__(self) -> FakeLab:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def renew(self, worker: int = 0) -> None:
        self.renewed.append(len(self.asked))

    def start(self, one: Trial, worker: int = 0) -> object:
        shown = self.rule(one)
        self.asked.append(one.run_id)
        outcome = shown if isinstance(shown, RunOutcome) else seen(shown)
        finished = FinishedRun(
            Run(self.folder / one.run_id), one.subject.seed if one.seed is None else one.seed, outcome, 1.0
        )
        return type("Driven", (), {"finish": lambda _: finished})()
