"""Typed models of `history --json`: the trends of the recorded runs. `chaos.history.trends` computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from chaos.run.result import MetricKey, Verdict

WINDOW = 10
"""Number of earlier runs that a run is compared with."""
LEAST = 7
"""Minimum number of earlier runs for a trend of a time."""
LEAST_PASSES = 3
"""Minimum number of earlier passes before another verdict is a regression."""
MARGIN = 1.25
"""Factor on the largest of the earlier times."""
DEVIATIONS = 3.0
"""Number of scaled median absolute deviations above the median."""

Mark = Literal["steady", "slower", "regression", "too few runs", "not measured", "no judgement"]
VerdictMark = Literal["pass", "regression", "unsteady", "too few runs"]


class TrendRun(BaseModel):
    """One run of a trend. seen: the anomalies of the run as text."""

    run_id: str
    began_us: int
    verdict: Verdict
    sentence: str
    seen: str
    kafka: str
    client: str
    run_dir: str


class TimeTrend(MetricKey):
    """One time over the runs of a trend. values_us and slower are parallel to the runs; None is not measured."""

    values_us: list[int | None]
    slower: list[bool]
    mark: Mark
    words: str
    median_us: int | None = None
    bound_us: int | None = None
    """Smallest time at which the last run is slower; None if it cannot be computed."""


class Trend(BaseModel):
    """All runs of one scenario, variant (or empty) and set-up. words: the reason for the mark as text."""

    scenario: str
    variant: str
    setup: str
    title: str
    runs: list[TrendRun]
    mark: VerdictMark
    words: str
    times: list[TimeTrend]

    @property
    def name(self) -> str:
        """Name as in the catalogue: `leader-kill`, `retry-duplicate/idempotent`."""
        return f"{self.scenario}/{self.variant}" if self.variant else self.scenario

    @property
    def has_judged_times(self) -> bool:
        """Whether the trend has enough runs to judge at least one time."""
        return any(t.mark in ("steady", "slower", "regression") for t in self.times)

    @property
    def regressions(self) -> list[str]:
        """The regressions as text, the verdict first."""
        verdict = [f"verdict: {self.words}"] if self.mark == "regression" else []
        return verdict + [f"{t.label}: {t.words}" for t in self.times if t.mark == "regression"]


class Trends(BaseModel):
    """Output of `history --json` and input of the trend page."""

    database: str
    made_us: int
    window: int = WINDOW
    least: int = LEAST
    least_passes: int = LEAST_PASSES
    trends: list[Trend]


def unjudged(trends: Sequence[Trend]) -> list[str]:
    """Return what "no regression" does not cover, as text: last runs that did not pass, trends with too few runs."""
    broken = sum(trend.runs[-1].verdict != "pass" and trend.mark != "regression" for trend in trends)
    short = sum(not trend.has_judged_times for trend in trends)
    return [
        *([f"the last run of {broken} did not pass"] if broken else []),
        *([f"{short} of {len(trends)} have too few runs to judge their times"] if short else []),
    ]
