"""The page of an examination."""

from __future__ import annotations

from chaos.forensics.model import KINDS, MOST_NAMED, Result
from chaos.report.pages import render_page

MOST_PLACES = 300
"""Partitions of groups that the page shows, those with findings first; `result.json` has all."""
CLASSES = {"nothing found": "pass", "found": "fail", "incomplete": "inconclusive"}


def render(result: Result) -> str:
    """Return the page as text."""
    places = [(group, place) for group in result.groups for place in group.places]
    places.sort(key=lambda at: (not at[1].found, at[0].name, at[1].topic, at[1].partition))
    return render_page(
        "forensics.html.j2",
        scripts=("page.js",),
        r=result,
        look=CLASSES[result.verdict],
        kinds=[(kind, *words) for kind, words in KINDS.items() if result.findings.counts.get(kind)],
        titles={kind: title for kind, (title, _) in KINDS.items()},
        named=MOST_NAMED,
        places=places[:MOST_PLACES],
        more=len(places) - MOST_PLACES,
    )
