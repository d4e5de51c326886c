"""The page a person reads: one HTML file that needs no network, no server and, but for zoom and crosshair, no script.

The picture is drawn here and not by a plotting library. A library would have to be shipped inside every report (Plotly
is 4.7 MB), knows axes but not lanes, and shows nothing at all where scripts are off, as in the artifact view of a CI
server. Strips are plain elements placed by CSS variables and curves are SVG, so the server draws each lane once, zoom
sets two variables for all lanes, and print, screen readers and a text search see the same picture. A content security
policy inside the page forbids everything that is not in the file.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chaos.anomalies import ANOMALIES, METRICS
from chaos.run.directory import Run, write_atomically
from chaos.run.result import Result
from chaos.scenario.resolve import Resolved
from checks.report import words
from checks.report.advice import advice, gaps, undecided
from checks.report.evidence import evidence_link, measured, ordered
from checks.report.mechanisms import mechanisms
from checks.report.settings import settings_that_mattered
from checks.report.storyline import storyline
from checks.report.tables import read_tables
from checks.report.timeline import draw
from checks.report.words import Clock

PAGE = Path(__file__).parent / "page"
"""Templates, style and scripts of the page."""


def write_report(run: Run, result: Result, resolved: Resolved) -> Path:
    """Write `report.html` from the result and whatever tables the run left, and return its path."""
    write_atomically(run.report, render(run, result, resolved))
    return run.report


def render(run: Run, result: Result, resolved: Resolved) -> str:
    """The page as text."""
    tables, clock = read_tables(run), Clock(result.began_us)
    groups, more_groups = mechanisms(result, tables.anomalies)
    picture = draw(tables, result, resolved, groups)
    moments, more_moments = storyline(tables, picture)
    script = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in ("page.js", "timeline.js"))
    text = (
        environment(clock)
        .get_template("report.html.j2")
        .render(
            result=result,
            resolved=resolved,
            scenario=resolved.scenario,
            picture=picture,
            moments=moments,
            more_moments=more_moments,
            groups=groups,
            more_groups=more_groups,
            settings=settings_that_mattered(result, resolved),
            expectations=ordered(result.expectations),
            times=measured(result.metrics),
            link=lambda e: evidence_link(e, result, groups, picture),
            advise=lambda e: advice(e, frozenset(METRICS)),
            undecided=undecided(result),
            gaps=gaps(result, tables),
            missing=tables.missing,
            docs=_data_docs(run),
            style=Markup((PAGE / "report.css").read_text(encoding="utf-8")),  # our own file
            script=Markup(script),  # our own files
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def environment(clock: Clock) -> Environment:
    """Where the templates are, and what they can call."""
    made = Environment(
        loader=FileSystemLoader(PAGE),
        autoescape=True,
        finalize=words.visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "number": words.number,
        "duration": words.duration,
        "count": words.count,
        "cut": words.cut,
        "relative": clock.relative,
        "wall": clock.wall,
        "evidence": clock.evidence,
    }
    made.filters.update(filters)
    made.globals.update(anomalies=ANOMALIES, metrics=METRICS)
    return made


def _data_docs(run: Run) -> str:
    """Where Great Expectations put its pages, relative to the report; empty if it did not."""
    found = sorted(run.gx.glob("**/index.html"), key=lambda path: len(path.parts)) if run.gx.is_dir() else []
    return str(found[0].relative_to(run.path)) if found else ""
