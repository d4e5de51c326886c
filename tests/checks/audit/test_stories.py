"""Every story against the audit: what it expects is found, and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from chaos.anomalies import ANOMALIES
from chaos.scenario.model import Scenario
from checks.audit import audit
from checks.audit.facts.topic_lives import topic_of
from checks.audit.rules.registry import RULES
from checks.audit.rules.rule import Parties
from tests.checks.audit.histories import JUDGED
from tests.checks.audit.oracle import Judgement, judge
from tests.checks.audit.stories import STORIES
from tests.checks.audit.story import TOKEN, Story, make_run, read_audit, resolved_of, rows_of, scenario_of

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


@pytest.fixture(scope="module")
def meant(stories: dict[str, Story]) -> dict[str, tuple[Scenario, Judgement]]:
    """Each story alone: its scenario, and what the oracle says of it."""
    alone = {name: scenario_of([story]) for name, story in stories.items()}
    return {name: (alone[name], judge(rows_of([story]), alone[name], TOKEN)) for name, story in stories.items()}


@pytest.mark.parametrize("check", ANOMALIES)
def test_a_rule_examines_where_it_applies(
    check: str, stories: dict[str, Story], meant: dict[str, tuple[Scenario, Judgement]], audited: Audited
) -> None:
    """In each story, the audit has the scopes of the scenario, and examines there what the oracle judges.

    A rule that the oracle does not judge examines at least what it finds.
    """
    of_check, wrong = [row for row in audited["summary"] if row["check"] == check], []
    for name, (scenario, verdict) in meant.items():
        applicable, _ = RULES[check].scopes.of(Parties.of(scenario))
        mine = [row for row in of_check if is_of(row["scope"], stories[name])]
        judged = Counter({scope: n for (c, scope), n in verdict.examined.items() if c == check and n > 0})
        judged |= Counter({scope: n for (c, _, scope), n in verdict.counts().items() if c == check})
        found = Counter({row["scope"]: row["examined"] for row in mine})
        if (unclear := f"{name} (deleted, life unknown)") not in found:  # in the summary only with findings
            del judged[unclear]
        if check not in JUDGED:
            judged = found if all(row["examined"] >= row["count"] for row in mine) else judged
        if {topic_of(scope) for scope in found} != set(applicable) or +found != +judged:
            wrong.append(f"{name} applies to {applicable}, the audit examines {found}, the oracle {judged}")
        wrong += [f"{name}: {row} leaves out everything" for row in mine if row["why"] and row["examined"]]
    assert not wrong, "\n".join(wrong[:20])


def scopes(story: Story) -> set[str]:
    readers = {story.reader(n) for n in range(1, story.members + 1)}
    return {story.name, story.out, story.consumer.get("group", story.name), *readers}


def is_of(scope: str, story: Story) -> bool:
    return scope in scopes(story) or scope.startswith(f"{story.name} (deleted ")


def scopes_of(audited: Audited) -> set[str]:
    return {row["scope"] for row in audited["summary"]}


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str, stories: dict[str, Story], audited: Audited) -> None:
    mine = {scope for scope in scopes_of(audited) if is_of(scope, stories[name])}
    found: dict[str, int] = defaultdict(int)
    for row in audited["summary"]:
        if row["scope"] in mine:
            check = row["check"]
            found[f"{check}.{row['split']}" if row["split"] else check] += row["count"]
            found[f"{check}.undecided"] = max(row["undecided"], found[f"{check}.undecided"])
    assert {check: count for check, count in found.items() if count} == STORIES[name][1]


@pytest.mark.parametrize("name", STORIES)
def test_the_findings_shown_are_those_counted(name: str, stories: dict[str, Story], audited: Audited) -> None:
    shown = [a for a in audited["anomalies"] if is_of(a["scope"], stories[name])]
    expected = sum(count for check, count in STORIES[name][1].items() if not check.endswith(".undecided"))
    assert len(shown) == expected
    for finding in shown:
        assert finding["at_us"] > 0
        if ANOMALIES[finding["check"]].path != "group" or finding["topic"] not in (None, "__consumer_offsets"):
            assert finding["topic"].partition(" (")[0] in (name, stories[name].out) and finding["partition"] is not None
        assert "None" not in finding["mechanism"], finding["mechanism"]
