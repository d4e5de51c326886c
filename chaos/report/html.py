"""The report of a run: one HTML file that needs no network and no server; only zoom and crosshair need a script.

The page draws its timeline without a plotting library. A library has axes but no lanes, adds megabytes to every report
(Plotly: 4.7 MB), and shows nothing where scripts are disabled, as in the artifact view of many CI servers. Strips are
elements placed by CSS variables and curves are SVG. Each lane is drawn once, zoom sets two variables for all lanes, and
print, screen readers and text search use the same picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from chaos.anomalies import ANOMALIES, METRICS
from chaos.report.anomalies import Mechanism, mechanisms
from chaos.report.charts import draw_diagram
from chaos.report.pages import render_page
from chaos.report.settings import settings_that_mattered
from chaos.report.tables import read_tables
from chaos.report.text import Clock, count
from chaos.report.timeline import Picture, draw, storyline
from chaos.run.directory import Run, write_atomically
from chaos.run.events import list_stages, now_us, read_events
from chaos.run.result import EFFECT_KINDS, EFFECT_READ, EFFECTS, Expectation, Result, applicable, count_held
from chaos.scenario.resolve import Resolved


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
    undecided = [e for e in result.expectations if e.verdict == "inconclusive"]
    mentioned = {e.why for e in undecided}
    counting, left_out = applicable(result.expectations)
    following = list(dict.fromkeys(e.why for e in undecided if e.follows))
    return render_page(
        "report.html.j2",
        Clock(result.began_us),
        scripts=("page.js", "timeline.js"),
        result=result,
        scenario=resolved.scenario,
        libraries=sorted({client.traits.library for client in resolved.scenario.client_libraries}),
        picture=picture,
        moments=moments,
        more_moments=more_moments,
        groups=groups,
        more_groups=more_groups,
        settings=settings_that_mattered(result, resolved),
        expectations=counting,
        left_out=left_out,
        counted=count_held(result.expectations),
        times=_times(result),
        stage_texts={s.name: s.text for s in list_stages(read_events(run), now_us())},
        effect_kinds=EFFECT_KINDS,
        diagram=partial(draw_diagram, began_us=result.began_us),
        link=lambda e: _evidence_link(e, result, groups, picture),
        undecided=[e for e in undecided if e.why not in following],
        following=following,
        gaps=[*(p for p in result.problems if p not in mentioned), *tables.missing],
        missing=tables.missing,
        docs=_data_docs(run),
    )


def _data_docs(run: Run) -> str:
    """Return the path of the Data Docs relative to the report; empty if there are none."""
    pages = sorted(run.gx.glob("**/index.html"), key=lambda path: len(path.parts))
    return str(pages[0].relative_to(run.path)) if pages else ""


def _times(result: Result) -> dict[tuple[str, str, str], dict[str, int]]:
    """Return the statistics in microseconds of each metric, scope and fault."""
    times: dict[tuple[str, str, str], dict[str, int]] = {}
    for m in result.metrics:
        times.setdefault((m.metric, m.scope, m.fault), {})[m.stat] = m.value_us
    return times


def _evidence_link(e: Expectation, result: Result, groups: Sequence[Mechanism], picture: Picture) -> tuple[str, str]:
    """Return the address and the text of the link from an expectation to its evidence."""
    if e.check in ANOMALIES:
        for group in groups:
            if any(k.check == e.check and (not e.split or k.split == e.split) for k in group.kinds):
                return f"#{group.key}", "rows"
        examined = [t.examined for t in result.totals if t.check == e.check and e.split in ("", t.split)]
        return "#counted", f"{count(sum(examined), 'row')} examined" if examined else "counts"
    if e.check in (EFFECTS, EFFECT_READ):
        return "#effects", "effects"
    if e.check == "fault_proof":
        fault = next((i for i, f in enumerate(result.faults) if f.name in (e.scope, e.name)), None)
        return ("#faults", "faults") if fault is None else (f"#fault-{fault}", "proof")
    lanes = {"ack_latency": "latency:ack", "end_to_end_latency": "latency:end_to_end", "groups": f"owner:{e.scope}:"}
    for lane in picture.lanes():
        if e.check in lanes and lane.key.startswith(lanes[e.check]):
            return f"#lane-{lane.number}", "lane"
    if e.check in METRICS:
        return "#times", "times"
    return ("#story", "story") if e.check == "groups" else ("#measured", "measurement")
