"""The report of a run: one HTML file that needs no network and no server; only zoom and crosshair need a script.

The page draws its timeline without a plotting library. A library has axes but no lanes, adds megabytes to every report
(Plotly: 4.7 MB), and shows nothing where scripts are disabled, as in the artifact view of many CI servers. Strips are
elements placed by CSS variables and curves are SVG. Each lane is drawn once, zoom sets two variables for all lanes, and
print, screen readers and text search use the same picture.
"""

from __future__ import annotations

from pathlib import Path

from chaos.run.directory import Run, write_atomically
from chaos.run.result import Result
from chaos.scenario.resolve import Resolved
from checks.report.expectations import advice, evidence_link, gaps, measured, undecided, worst_first
from checks.report.mechanisms import mechanisms
from checks.report.pages import render_page
from checks.report.settings import settings_that_mattered
from checks.report.storyline import storyline
from checks.report.tables import read_tables
from checks.report.text import Clock
from checks.report.timeline import draw


def write_report(run: Run, result: Result, resolved: Resolved) -> Path:
    """Write `report.html` from the result and the available tables of the run, and return its path."""
    write_atomically(run.report, render(run, result, resolved))
    return run.report


def render(run: Run, result: Result, resolved: Resolved) -> str:
    """Return the page as text."""
    tables = read_tables(run)
    groups, more_groups = mechanisms(result, tables.anomalies)
    picture = draw(tables, result, resolved, groups)
    moments, more_moments = storyline(tables, picture)
    return render_page(
        "report.html.j2",
        Clock(result.began_us),
        styles=("report.css",),
        scripts=("page.js", "timeline.js"),
        result=result,
        resolved=resolved,
        scenario=resolved.scenario,
        picture=picture,
        moments=moments,
        more_moments=more_moments,
        groups=groups,
        more_groups=more_groups,
        settings=settings_that_mattered(result, resolved),
        expectations=worst_first(result.expectations),
        times=measured(result.metrics),
        link=lambda e: evidence_link(e, result, groups, picture),
        advise=advice,
        undecided=undecided(result),
        gaps=gaps(result, tables),
        missing=tables.missing,
        docs=_data_docs(run),
    )


def _data_docs(run: Run) -> str:
    """Return the path of the Data Docs relative to the report; empty if there are none."""
    pages = sorted(run.gx.glob("**/index.html"), key=lambda path: len(path.parts)) if run.gx.is_dir() else []
    return str(pages[0].relative_to(run.path)) if pages else ""
