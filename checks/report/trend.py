"""The trend page, from the output of `python -m chaos history --json`. `chaos.history.trends` computes all values.

The page needs no database.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from chaos.errors import UsageError
from chaos.run.directory import write_atomically
from chaos.run.trend import DEVIATIONS, MARGIN, Mark, TimeTrend, Trend, TrendRun, Trends, VerdictMark, unjudged
from checks.report.pages import render_page
from checks.report.text import duration

WIDTH, HEIGHT, EDGE = 300, 48, 5
"""Size of a drawing in SVG units; the page scales it."""
NOTABLE: tuple[Mark, ...] = ("regression", "slower", "not measured")
_ORDER: tuple[Mark, ...] = (*NOTABLE, "steady", "too few runs", "no judgement")
_STATES = ("worse", "look", "well")
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
    """One trend. runs: each with the link to its report; notable, others: its times, each with its drawing."""

    trend: Trend
    state: str
    runs: list[tuple[TrendRun, str]]
    notable: list[tuple[TimeTrend, dict[str, Any]]]
    others: list[tuple[TimeTrend, dict[str, Any]]]


def write(path: Path, trends_json: str) -> None:
    """Write the page. Raises `UsageError` if the text is not the output of `history --json`."""
    write_atomically(path, page(read(trends_json), path))


def read(trends_json: str) -> Trends:
    """Return the trends of the output of `history --json`. Raises `UsageError` if the text is something else."""
    try:
        return Trends.model_validate_json(trends_json)
    except ValidationError as e:
        raise UsageError(f"standard input is not the output of `history --json` ({e.error_count()} errors)") from None


def page(trends: Trends, path: Path) -> str:
    """Return the page as text. path: the future file, for relative links to reports."""
    shown = sorted((_shown(t, path.parent) for t in trends.trends), key=lambda trend: _STATES.index(trend.state))
    return render_page(
        "trend.html.j2",
        styles=("report.css", "trend.css"),
        scripts=("page.js", "trend.js"),
        trends=trends,
        shown=shown,
        worse=[(trend, text) for trend in shown for text in trend.trend.regressions],
        unjudged=unjudged(trends.trends),
        no_judged_times=not any(trend.has_judged_times for trend in trends.trends),
        runs=sum(len(trend.runs) for trend in shown),
        SIGNS=SIGNS,
        margin=MARGIN,
        deviations=DEVIATIONS,
        WIDTH=WIDTH,
        HEIGHT=HEIGHT,
    )


def _shown(trend: Trend, folder: Path) -> Shown:
    judged = [run.verdict != "inconclusive" for run in trend.runs]
    lines = [(t, _drawing(t, judged)) for t in sorted(trend.times, key=lambda t: _ORDER.index(t.mark))]
    notable = [line for line in lines if line[0].mark in NOTABLE]
    state = "worse" if trend.regressions else "look" if notable or trend.mark != "pass" else "well"
    return Shown(trend, state, [(run, _link(run, folder)) for run in trend.runs], notable, lines[len(notable) :])


def _link(run: TrendRun, folder: Path) -> str:
    """Return the report of a run relative to the page; empty if the report is gone."""
    report = Path(run.run_dir) / "report.html"
    return quote(os.path.relpath(report, folder)) if report.is_file() else ""


def _drawing(time: TimeTrend, judged: Sequence[bool]) -> dict[str, Any]:
    """Return the parts of the drawing of a time over its runs: levels, curve, marks and the latest values as text.

    The curve leaves out inconclusive runs, which are hollow marks, and has a gap at runs without a measurement. Slower
    runs and the last run have marks, too.
    """
    values, levels = time.values_us, {"bound": time.bound_us, "usual": time.median_us}
    top = max([v for v in (*values, time.bound_us) if v is not None], default=0) * 1.08 or 1
    step = (WIDTH - 2 * EDGE) / max(1, len(values) - 1)

    def height(us: int) -> float:
        return HEIGHT - EDGE - us / top * (HEIGHT - 2 * EDGE)

    curve, marks, pen = "", [], "M"
    for i, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        x, y = EDGE + i * step, height(value)
        if judged[i]:
            curve += f"{pen}{x:.1f} {y:.1f}"
            pen = "L"
        look = "hollow" if not judged[i] else "beyond" if time.slower[i] else "last" if i == len(values) - 1 else ""
        if look:
            marks.append((look, x, y))
    return {
        "levels": [(name, height(us)) for name, us in levels.items() if us is not None],
        "curve": curve,
        "marks": marks,
        "runs": len(values),
        "latest": ", ".join("none" if v is None else duration(v) for v in values[-5:]),
    }
