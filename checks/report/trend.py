"""`python -m checks.report.trend FILE`: the trend page, from the JSON of `python -m chaos history --json` on stdin.

It lies here because it shares style, parts and rules with the reports (nothing from outside, dark and light, print).
It reads no database: what it shows is in that JSON. Statistics are those of `chaos.history.trends`, none is made here.
"""

from __future__ import annotations

import base64
import hashlib
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
from checks.report.html import PAGE, environment
from checks.report.words import Clock, duration

WIDTH, HEIGHT, EDGE = 300, 48, 5
"""Of a drawing, in units of its own; the page decides how large it is."""
WORTH_A_LOOK: tuple[Mark, ...] = ("regression", "slower", "not measured")
_ORDER: tuple[Mark, ...] = (*WORTH_A_LOOK, "steady", "too few runs", "no judgement")
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
    """One time of a trend, as the page shows it."""

    time: TimeTrend
    what: str
    drawing: Markup


@dataclass(frozen=True)
class Shown:
    """One trend, as the page shows it. told: times that are worth a look; rest: all others."""

    trend: Trend
    state: str
    runs: list[tuple[TrendRun, str]]
    told: list[Line]
    rest: list[Line]


def page(found: Trends, path: Path) -> str:
    """The page as text; path: where it will lie, for links to reports."""
    shown = sorted(
        (_shown(t, path.parent) for t in found.trends), key=lambda one: ("worse", "look", "well").index(one.state)
    )
    style = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in ("report.css", "trend.css"))
    script = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in ("page.js", "trend.js"))
    text = (
        environment(Clock(0))
        .get_template("trend.html.j2")
        .render(
            found=found,
            shown=shown,
            worse=[(one, words) for one in shown for words in one.trend.regressions],
            unjudged=unjudged(found.trends),
            nothing_told=not any(trend.has_judged_times for trend in found.trends),
            runs=sum(len(one.runs) for one in shown),
            SIGNS=SIGNS,
            margin=MARGIN,
            deviations=DEVIATIONS,
            style=Markup(style),  # our own files, here and below
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def _shown(trend: Trend, folder: Path) -> Shown:
    judged = [run.verdict != "inconclusive" for run in trend.runs]
    lines = [Line(t, _what(t), drawing(t, judged)) for t in sorted(trend.times, key=lambda t: _ORDER.index(t.mark))]
    told = [line for line in lines if line.time.mark in WORTH_A_LOOK]
    state = "worse" if trend.regressions else "look" if told or trend.mark != "pass" else "well"
    runs = [(run, _link(run, folder)) for run in trend.runs]
    return Shown(trend, state, runs, told, [line for line in lines if line.time.mark not in WORTH_A_LOOK])


def _what(time: TimeTrend) -> str:
    after = f", after {time.fault}" if time.fault else ""
    return f"{time.scope}{after}"


def _link(run: TrendRun, folder: Path) -> str:
    """The report of a run, relative to the page; empty if it is not there any more."""
    report = Path(run.run_dir) / "report.html"
    return quote(os.path.relpath(report, folder)) if report.is_file() else ""


def drawing(time: TimeTrend, judged: Sequence[bool]) -> Markup:
    """One time over its runs, from zero up: the median and the bound as lines, slower runs and the last one as marks.

    Inconclusive runs are left out of the curve and drawn hollow; where nothing was measured the curve has a gap.
    """
    values = time.values_us
    top = max([v for v in (*values, time.bound_us) if v is not None], default=0) * 1.08 or 1
    step = (WIDTH - 2 * EDGE) / max(1, len(values) - 1)
    places = [None if v is None else (EDGE + i * step, _height(v, top)) for i, v in enumerate(values)]
    parts = [_level(time.bound_us, top, "bound"), _level(time.median_us, top, "usual"), _curve(places, judged)]
    for i, place in enumerate(places):
        if place is None:
            continue
        if not judged[i]:
            parts.append(f'<circle class="hollow" cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="2.6"/>')
        elif time.slower[i]:
            parts.append(f'<path class="beyond" d="M{place[0]:.1f} {place[1] - 4:.1f}l4.2 7h-8.4z"/>')
        elif i == len(places) - 1:
            parts.append(f'<circle class="last" cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="2.8"/>')
    said = ", ".join("none" if v is None else duration(v) for v in values[-5:])
    # said is made of numbers and units only
    return Markup(
        f'<svg class="trendline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{len(values)} runs; the last: {said}">{"".join(parts)}</svg>'
    )


def _height(us: int, top: float) -> float:
    return HEIGHT - EDGE - us / top * (HEIGHT - 2 * EDGE)


def _level(us: int | None, top: float, kind: str) -> str:
    return "" if us is None else f'<path class="{kind}" d="M0 {_height(us, top):.1f}H{WIDTH}"/>'


def _curve(places: list[tuple[float, float] | None], judged: Sequence[bool]) -> str:
    path, pen = [], "M"
    for place, counts in zip(places, judged, strict=True):
        if place is None:
            pen = "M"
        elif counts:
            path.append(f"{pen}{place[0]:.1f} {place[1]:.1f}")
            pen = "L"
    return f'<path class="line" d="{"".join(path)}"/>' if path else ""


def main(target: str) -> int:
    """Write the page."""
    path = Path(target)
    try:
        write_atomically(path, page(Trends.model_validate_json(sys.stdin.read()), path))
    except ValidationError as e:
        sys.stderr.write(f"that is not what `history --json` prints ({e.error_count()} errors)\n")
        return 2
    except OSError as e:
        sys.stderr.write(f"{path} cannot be written: {e.strerror}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
