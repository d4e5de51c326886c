"""`python -m checks.report.trend FILE`: the trend page, from the output of `python -m chaos history --json` on stdin.

The page uses the style and the rules of the reports. It needs no database; `chaos.history.trends` computes all values.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup
from pydantic import ValidationError

from chaos.run.directory import write_atomically
from chaos.run.trend import DEVIATIONS, MARGIN, Mark, TimeTrend, Trend, TrendRun, Trends, VerdictMark, unjudged
from checks.report.pages import render_page
from checks.report.text import Clock, duration

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
class Line:
    """One time of a trend. place: scope and fault as text."""

    time: TimeTrend
    place: str
    drawing: Markup


@dataclass(frozen=True)
class Shown:
    """One trend. runs: each with the link to its report; notable, others: its times."""

    trend: Trend
    state: str
    runs: list[tuple[TrendRun, str]]
    notable: list[Line]
    others: list[Line]


def page(trends: Trends, path: Path) -> str:
    """Return the page as text. path: the future file, for relative links to reports."""
    shown = sorted((_shown(t, path.parent) for t in trends.trends), key=lambda trend: _STATES.index(trend.state))
    return render_page(
        "trend.html.j2",
        Clock(0),
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
    )


def _shown(trend: Trend, folder: Path) -> Shown:
    judged = [run.verdict != "inconclusive" for run in trend.runs]
    lines = [Line(t, _place(t), drawing(t, judged)) for t in sorted(trend.times, key=lambda t: _ORDER.index(t.mark))]
    notable = [line for line in lines if line.time.mark in NOTABLE]
    state = "worse" if trend.regressions else "look" if notable or trend.mark != "pass" else "well"
    runs = [(run, _link(run, folder)) for run in trend.runs]
    return Shown(trend, state, runs, notable, [line for line in lines if line.time.mark not in NOTABLE])


def _place(time: TimeTrend) -> str:
    after = f", after {time.fault}" if time.fault else ""
    return f"{time.scope}{after}"


def _link(run: TrendRun, folder: Path) -> str:
    """Return the report of a run relative to the page; empty if the report is gone."""
    report = Path(run.run_dir) / "report.html"
    return quote(os.path.relpath(report, folder)) if report.is_file() else ""


def drawing(time: TimeTrend, judged: Sequence[bool]) -> Markup:
    """Draw a time over its runs: median and bound as lines, slower runs and the last run as marks.

    The curve leaves out inconclusive runs, which are hollow marks, and has a gap at runs without a measurement.
    """
    values = time.values_us
    top = max([v for v in (*values, time.bound_us) if v is not None], default=0) * 1.08 or 1
    step = (WIDTH - 2 * EDGE) / max(1, len(values) - 1)
    points = [None if v is None else (EDGE + i * step, _height(v, top)) for i, v in enumerate(values)]
    parts = [_level(time.bound_us, top, "bound"), _level(time.median_us, top, "usual"), _curve(points, judged)]
    for i, point in enumerate(points):
        if point is None:
            continue
        if not judged[i]:
            parts.append(f'<circle class="hollow" cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="2.6"/>')
        elif time.slower[i]:
            parts.append(f'<path class="beyond" d="M{point[0]:.1f} {point[1] - 4:.1f}l4.2 7h-8.4z"/>')
        elif i == len(points) - 1:
            parts.append(f'<circle class="last" cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="2.8"/>')
    latest = ", ".join("none" if v is None else duration(v) for v in values[-5:])  # numbers and units only
    return Markup(
        f'<svg class="trendline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{len(values)} runs; the last: {latest}">{"".join(parts)}</svg>'
    )


def _height(us: int, top: float) -> float:
    return HEIGHT - EDGE - us / top * (HEIGHT - 2 * EDGE)


def _level(us: int | None, top: float, kind: str) -> str:
    return "" if us is None else f'<path class="{kind}" d="M0 {_height(us, top):.1f}H{WIDTH}"/>'


def _curve(points: list[tuple[float, float] | None], judged: Sequence[bool]) -> str:
    path, pen = [], "M"
    for point, counts in zip(points, judged, strict=True):
        if point is None:
            pen = "M"
        elif counts:
            path.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
            pen = "L"
    return f'<path class="line" d="{"".join(path)}"/>' if path else ""


def main(target: str) -> int:
    """Write the page; return 0, or 2 with a message on standard error."""
    path = Path(target)
    try:
        write_atomically(path, page(Trends.model_validate_json(sys.stdin.read()), path))
    except ValidationError as e:
        sys.stderr.write(f"standard input is not the output of `history --json` ({e.error_count()} errors)\n")
        return 2
    except OSError as e:
        sys.stderr.write(f"{path} cannot be written: {e.strerror}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
