"""Every story against the audit: what it expects is found, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from checks.audit import audit
from tests.checks.audit.stories import STORIES
from tests.checks.audit.story import Story, make_run, read_audit, resolved_of

Audited = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def stories() -> dict[str, Story]:
    by_name = {}
    for number, (name, (write, _)) in enumerate(STORIES.items(), start=1):
        by_name[name] = Story(name, number, now=1_000_000 * number)
        write(by_name[name])
    return by_name


@pytest.fixture(scope="module")
def audited(spark: Any, stories: dict[str, Story], tmp_path_factory: pytest.TempPathFactory) -> Audited:
    run = make_run(tmp_path_factory.mktemp("stories") / "run", list(stories.values()))
    audit(spark, run, resolved_of(list(stories.values())))
    return {table: read_audit(run, table) for table in ("summary", "anomalies", "counts", "metrics", "ownership")}


def scopes(story: Story) -> set[str]:
    return {story.name, story.out, *(story.reader(n) for n in range(1, story.members + 1))}


def scopes_of(audited: Audited) -> set[str]:
    return {row["scope"] for row in audited["summary"]}


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str, stories: dict[str, Story], audited: Audited) -> None:
    mine = {s for s in scopes_of(audited) if s in scopes(stories[name]) or s.startswith(f"{name} (deleted ")}
    found: dict[str, int] = defaultdict(int)
    for row in audited["summary"]:
        if row["scope"] in mine:
            check = row["check"]
            found[f"{check}.{row['split']}" if row["split"] else check] += row["count"]
            found[f"{check}.undetermined"] = max(row["undetermined"], found[f"{check}.undetermined"])
    assert {check: count for check, count in found.items() if count} == STORIES[name][1]


@pytest.mark.parametrize("name", STORIES)
def test_the_findings_shown_are_those_counted(name: str, stories: dict[str, Story], audited: Audited) -> None:
    lives = f"{name} (deleted "
    shown = [a for a in audited["anomalies"] if a["scope"] in scopes(stories[name]) or a["scope"].startswith(lives)]
    expected = sum(count for check, count in STORIES[name][1].items() if not check.endswith(".undetermined"))
    assert len(shown) == expected
    for finding in shown:
        assert finding["at_us"] > 0
        if finding["check"] not in ("unbalanced_assignment", "misplaced_coordinator"):  # of a group as a whole
            assert finding["topic"].partition(" (")[0] in (name, stories[name].out) and finding["partition"] is not None
        assert "None" not in finding["mechanism"], finding["mechanism"]
