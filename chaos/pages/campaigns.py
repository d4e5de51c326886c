"""The list of campaigns, from the head of each `campaign.json`, and from `plan.json` where there is no result yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chaos.errors import RunDirError
from chaos.pages.folder import REPORT, Found, RunsFolder
from chaos.pages.problem import PageError
from chaos.report.text import count
from chaos.run.campaign import RESULT, Head
from chaos.run.directory import read_json, read_model

MOST = 200
"""The latest results that a list reads."""


@dataclass(frozen=True)
class Summary:
    """One campaign. verdict: of its result, or `unreadable`, or `not finished`."""

    path: str
    kind: str
    title: str
    verdict: str
    sentence: str
    made_us: int
    has_page: bool = False


def summaries(folder: RunsFolder) -> tuple[list[Summary], int]:
    """Return the latest campaigns, finished or not, and the number of older ones that are left out."""
    found = [one for one in folder.scan() if one.kind in ("campaign", "unfinished")]
    found.sort(key=lambda one: one.changed_ns, reverse=True)
    shown = [s for one in found[:MOST] if (s := _summary(folder, one)) is not None]
    shown.sort(key=lambda one: one.made_us, reverse=True)
    return shown, max(0, len(found) - MOST)


def _summary(folder: RunsFolder, found: Found) -> Summary | None:
    changed_us = found.changed_ns // 1000
    if found.kind == "unfinished":
        return _unfinished(folder, found)
    try:
        path = folder.copy(found, RESULT, REPORT)
    except PageError as e:
        return Summary(found.path, "", found.name, "unreadable", e.text, changed_us)
    page = (path / REPORT).is_file()
    try:
        head = read_model(path / RESULT, Head, "result of a campaign", "run it again")
    except (RunDirError, OSError) as e:
        reason = str(e).replace(str(path), f"{folder.name}/{found.path}")
        text = f"{reason}. Another release of Aftershock may have written it; its page is as it was."
        return Summary(found.path, "", found.name, "unreadable", text, changed_us, page)
    return Summary(found.path, head.kind, head.title, head.verdict, head.sentence, head.made_us, page)


def _unfinished(folder: RunsFolder, found: Found) -> Summary | None:
    """Return a campaign without a result; None if the plan is of something else."""
    try:
        plan = read_json(folder.copy(found, "plan.json") / "plan.json", "plan")
    except (RunDirError, PageError):
        return None
    if (
        not isinstance(plan, dict)
        or not plan.keys() >= {"kind", "asked", "parts"}
        or not isinstance(plan["parts"], list)
    ):
        return None
    text = (
        f"It runs, or was interrupted; {count(len(plan['parts']), 'part')} planned. Its finished runs are stored; "
        f"continue with --resume {found.path}."
    )
    return Summary(found.path, str(plan["kind"]), Path(found.path).name, "not finished", text, found.changed_ns // 1000)
