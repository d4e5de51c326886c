"""What there is to run, and what came of it."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import INCONCLUSIVE, UsageError
from chaos.run.directory import Run
from chaos.run.result import RunOutcome, anomaly_name
from chaos.scenario.load import load
from chaos.scenario.model import Scenario
from chaos.scenario.shipped import shipped

NOTHING = "none"


@dataclass(frozen=True)
class Case:
    """One run to come: a scenario, the variant of an A/B scenario (or empty), and the how-manieth time, from 1."""

    scenario: str
    variant: str
    repetition: int

    @property
    def name(self) -> str:
        """As a person reads it: `leader-kill`, `retry-duplicate/idempotent`."""
        return f"{self.scenario}/{self.variant}" if self.variant else self.scenario

    @property
    def run_id(self) -> str:
        """A name for its run directory."""
        return "-".join(filter(None, [self.scenario, self.variant, str(self.repetition)]))


@dataclass(frozen=True)
class Outcome:
    """What came of a case. `seen`: the anomalies found, with counts; `seconds`: until its log was read."""

    case: Case
    expected: str
    seen: str
    verdict: str
    code: int
    seconds: float
    run_dir: Path
    sentence: str


def cases(only: Iterable[str] = (), repeat: int = 1) -> list[Case]:
    """All shipped scenarios and their variants, or those that a pattern names. Raises `UsageError` if that is none."""
    patterns = list(only) or ["*"]
    named = [
        (name, variant)
        for name, path in shipped().items()
        for variant in load(path).variants or [""]
        if any(fnmatch.fnmatchcase(text, p) for p in patterns for text in (name, f"{name}/{variant}"))
    ]
    if not named:
        raise UsageError(f"no shipped scenario is named {' or '.join(patterns)}; `python -m chaos list` shows them")
    return [Case(name, variant, n) for n in range(1, repeat + 1) for name, variant in named]


def expected(scenario: Scenario) -> str:
    """The anomalies that have to appear, in the contract's own words; `none` where none has to."""
    counts = scenario.expect.counts()
    demanded = [
        f"{anomaly_name(kind, split)} {bound.describe()}" for (kind, split), bound in counts.items() if bound.min > 0
    ]
    return ", ".join(demanded) or NOTHING


def outcome(case: Case, expects: str, run: Run, code: int, seconds: float, trouble: str = "") -> Outcome:
    """What the run directory tells of a case."""
    if not run.result.exists():
        return Outcome(case, expects, "", "inconclusive", INCONCLUSIVE, seconds, run.path, trouble or "no result")
    found = RunOutcome.read(run)
    return Outcome(case, expects, found.describe(), found.verdict, code, seconds, run.path, found.sentence)
