"""The outcome of a run: its verdict, and how often it shows each anomaly, without the rest of `result.json`."""

from __future__ import annotations

from collections import Counter

from pydantic import BaseModel

from chaos.anomalies import METRICS
from chaos.run.directory import Run
from chaos.run.result import (
    EXIT_CODES,
    AnomalyCount,
    Expectation,
    ResultFile,
    Verdict,
    count_anomalies,
    describe_anomalies,
)


def exceeding(metric: str) -> str:
    """Return the name of what a run shows if a measured time exceeds its bound."""
    return f"{metric} above its bound"


class RunOutcome(BaseModel):
    """Verdict, sentence, and the count of each kind of anomaly by name; kinds that did not occur are left out.

    exceeded: the number of bounds of the scenario that measured times exceed, by `exceeding` of the metric.
    """

    verdict: Verdict
    sentence: str
    anomalies: dict[str, int]
    exceeded: dict[str, int] = {}

    @classmethod
    def read(cls, run: Run) -> RunOutcome:
        """Read the outcome of a run. Raises `RunDirError` if `result.json` is missing, damaged or not of a run."""
        raw = _Outcome.read(run)
        exceeded = Counter(exceeding(e.check) for e in raw.expectations if e.check in METRICS and e.verdict == "fail")
        anomalies = count_anomalies(raw.totals)
        return cls(verdict=raw.verdict, sentence=raw.sentence, anomalies=anomalies, exceeded=exceeded)

    @classmethod
    def missing(cls, reason: str) -> RunOutcome:
        """Return the outcome of a run that has no `result.json`."""
        return cls(verdict="inconclusive", sentence=reason, anomalies={})

    @property
    def conclusive(self) -> bool:
        """Whether the run has a verdict other than `inconclusive`."""
        return self.verdict != "inconclusive"

    @property
    def exit_code(self) -> int:
        """The exit code of the verdict."""
        return EXIT_CODES[self.verdict]

    def count(self, kind: str) -> int:
        """Return the count of a kind of anomaly, or of exceeded bounds (`exceeding`).

        A kind without a split includes all its splits.
        """
        found = [n for name, n in self.anomalies.items() if name == kind or name.split(" ")[0] == kind]
        return sum(found) + self.exceeded.get(kind, 0)

    def describe(self) -> str:
        """Return the anomalies as text."""
        return describe_anomalies(self.anomalies)


class _Outcome(ResultFile):
    verdict: Verdict
    sentence: str
    totals: list[AnomalyCount]
    expectations: list[Expectation] = []
