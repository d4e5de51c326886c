"""The entries of the catalogue: shipped scenarios and their variants, with the anomalies that each must show."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

from chaos.errors import UsageError
from chaos.run.result import anomaly_name
from chaos.scenario.load import load
from chaos.scenario.model import Scenario
from chaos.scenario.shipped import shipped

NOTHING = "none"


@dataclass(frozen=True)
class Entry:
    """One run of a scenario. variant: of an A/B scenario, else empty. repetition: counts from 1."""

    scenario: str
    variant: str
    repetition: int

    @property
    def name(self) -> str:
        """The name for people: `leader-kill`, `retry-duplicate/idempotent`."""
        return f"{self.scenario}/{self.variant}" if self.variant else self.scenario

    @property
    def run_id(self) -> str:
        """The name of the run directory."""
        return "-".join(filter(None, [self.scenario, self.variant, str(self.repetition)]))


def entries(patterns: Iterable[str] = (), repeat: int = 1) -> list[Entry]:
    """Return all shipped scenarios and variants, or those that match a pattern, `repeat` times.

    Raises `UsageError` if nothing matches.
    """
    globs = list(patterns) or ["*"]
    names = [
        (name, variant)
        for name, path in shipped().items()
        for variant in load(path).variants or [""]
        if any(fnmatch.fnmatchcase(text, glob) for glob in globs for text in (name, f"{name}/{variant}"))
    ]
    if not names:
        raise UsageError(f"no shipped scenario is named {' or '.join(globs)}; `python -m chaos list` shows them")
    return [Entry(name, variant, n) for n in range(1, repeat + 1) for name, variant in names]


def expected_anomalies(scenario: Scenario) -> str:
    """Return the anomalies that the contract demands: `lost_write at least 1`, or `none`."""
    bounds = scenario.expect.counts().items()
    demanded = [f"{anomaly_name(kind, split)} {bound.describe()}" for (kind, split), bound in bounds if bound.min > 0]
    return ", ".join(demanded) or NOTHING
