"""A result for review: `summary.md` of a run for a pull request, and annotations of GitHub Actions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from chaos.report.junit import explained
from chaos.report.pages import render_summary
from chaos.report.text import duration
from chaos.run.campaign import Campaign, GateResult, PartsResult
from chaos.run.exploration import ExploreResult
from chaos.run.result import EFFECT_KINDS, NOT_APPLICABLE, WORST_FIRST, Result, Verdict, applicable, count_held

MOST_ROWS = 60
"""Expectations that are listed; the others are counted."""


def markdown(result: Result) -> str:
    """Return the summary of a run: the sentence, what did not hold, effects with their stories, and faults."""
    counting, _ = applicable(result.expectations)
    open_ = [e for e in counting if e.verdict != "pass" and not e.follows]
    return render_summary(
        "run_summary.md.j2",
        r=result,
        open=sorted(open_, key=lambda e: e.verdict != "fail")[:MOST_ROWS],
        more=max(0, len(open_) - MOST_ROWS),
        held=count_held(result.expectations),
        stories=[story for effect in result.effects for story in effect.stories],
        kinds=EFFECT_KINDS,
        duration=duration,
    )


STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable that names the file with the summary of a step on GitHub Actions."""
MOST_ANNOTATIONS = 10
"""GitHub shows as many of a step."""
_LEVELS: dict[Verdict, str] = {"fail": "error", "inconclusive": "warning", "pass": "notice"}


def publish(result: Result | Campaign, folder: Path) -> str:
    """Append `summary.md` of a folder to the summary of the step, and return the annotations as text.

    Empty where no GitHub Actions runs. Source: GitHub Docs, "Workflow commands for GitHub Actions".
    """
    if not (name := os.environ.get(STEP_SUMMARY)):
        return ""
    if (path := folder / "summary.md").is_file():
        with Path(name).open("a", encoding="utf-8") as summary:
            summary.write(path.read_text(encoding="utf-8") + "\n")
    whole, *others = _remarks(result)
    others.sort(key=lambda remark: WORST_FIRST.index(remark[0]))
    return "".join(_annotation(*remark) for remark in [whole, *others[: MOST_ANNOTATIONS - 1]])


def _remarks(result: Result | Campaign) -> Iterator[tuple[Verdict, str, str]]:
    """Yield verdict, title and message: of the whole, then of what did not hold."""
    yield result.verdict, result.title, result.sentence
    if isinstance(result, Result):
        for e in applicable(result.expectations)[0]:
            assert e.verdict != NOT_APPLICABLE
            if e.verdict != "pass" and not e.follows:
                yield e.verdict, e.name, explained(result, e)
    elif isinstance(result, ExploreResult):
        for mechanism in (filed.mechanism for filed in result.filed):
            title = f"{mechanism.name}: {mechanism.cause_text}"
            prevents = f" What prevents it: {mechanism.prevents}." if mechanism.prevents else ""
            yield "fail", title, f"{mechanism.sentence}.{prevents}".lstrip(".")
    elif isinstance(result, PartsResult):
        yield from ((p.verdict, p.name, p.sentence) for p in result.parts if p.verdict != "pass")
    elif isinstance(result, GateResult):
        yield from ((c.verdict, c.key.name, c.sentence) for c in result.cells if c.verdict != "pass")


def _annotation(verdict: Verdict, title: str, message: str) -> str:
    """Return a workflow command. Its characters of control are written as GitHub reads them."""
    text = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    name = title.replace("%", "%25").replace("\r", "").replace("\n", " ").replace(":", "%3A").replace(",", "%2C")
    return f"::{_LEVELS[verdict]} title={name}::{text}\n"
