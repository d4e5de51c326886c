"""The trend page. `chaos.history.trends` computes all values, so the page needs no database."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from chaos.report.charts import Line, draw_line
from chaos.report.pages import render_page
from chaos.report.text import duration
from chaos.run.directory import write_atomically
from chaos.run.trend import DEVIATIONS, MARGIN, Mark, TimeTrend, Trend, TrendRun, Trends, VerdictMark, unjudged

NOTABLE: tuple[Mark, ...] = ("regression", "slower", "not measured")
_ORDER: tuple[Mark, ...] = (*NOTABLE, "steady", "too few runs", "no judgement")
_STATES = ("regression", "look", "well")
SIGNS: dict[Mark | VerdictMark, str] = {
    "regression": "▲",
    "slower": "▵",
    "not measured": "!",
    "steady": "=",
    "too few runs": "…",
    "no judgement": "?",
    "pass": "✓",
    "unsteady": "≈",
}


@dataclass(frozen=True)
class Shown:
    """One trend. runs: each with the link to its report; notable, others: its times, each with its line."""

    trend: Trend
    state: str
    runs: list[tuple[TrendRun, str]]
    notable: list[tuple[TimeTrend, Line]]
    others: list[tuple[TimeTrend, Line]]


def write(path: Path, trends: Trends) -> None:
    """Write the page."""
    write_atomically(path, page(trends, path))


def page(trends: Trends, path: Path) -> str:
    """Return the page as text. path: the future file, for relative links to reports."""
    shown = sorted((_shown(t, path.parent) for t in trends.trends), key=lambda trend: _STATES.index(trend.state))
    return render_page(
        "trend.html.j2",
        styles=("report.css", "trend.css"),
        scripts=("page.js", "trend.js"),
        trends=trends,
        shown=shown,
        regressions=[(trend, text) for trend in shown for text in trend.trend.regressions],
        unjudged=unjudged(trends.trends),
        no_judged_times=not any(trend.has_judged_times for trend in trends.trends),
        runs=sum(len(trend.runs) for trend in shown),
        SIGNS=SIGNS,
        margin=MARGIN,
        deviations=DEVIATIONS,
        latest=_latest,
    )


def _shown(trend: Trend, folder: Path) -> Shown:
    judged = [run.verdict != "inconclusive" for run in trend.runs]
    lines = [(t, _line(t, judged)) for t in sorted(trend.times, key=lambda t: _ORDER.index(t.mark))]
    notable = [line for line in lines if line[0].mark in NOTABLE]
    state = "regression" if trend.regressions else "look" if notable or trend.mark != "pass" else "well"
    return Shown(trend, state, [(run, _link(run, folder)) for run in trend.runs], notable, lines[len(notable) :])


def _link(run: TrendRun, folder: Path) -> str:
    """Return the report of a run relative to the page; empty if the report is gone."""
    report = Path(run.run_dir) / "report.html"
    return quote(os.path.relpath(report, folder)) if report.is_file() else ""


def _line(time: TimeTrend, judged: Sequence[bool]) -> Line:
    """Draw a time over its runs with its bound and its usual value; inconclusive runs do not count."""
    levels = {"bound": time.bound_us, "usual": time.median_us}
    known = {name: us for name, us in levels.items() if us is not None}
    return draw_line(time.values_us, [not one for one in judged], time.slower, known)


def _latest(time: TimeTrend) -> str:
    return ", ".join("none" if v is None else duration(v) for v in time.values_us[-5:])
