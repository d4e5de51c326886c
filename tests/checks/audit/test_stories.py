"""Every story against the audit: what it expects is found, and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from chaos.anomalies import ANOMALIES
from checks.audit import audit
from checks.audit.facts.topic_lives import topic_of
from checks.audit.rules.registry import RULES
from checks.audit.rules.rule import Parties
from tests.checks.audit.histories import JUDGED
from tests.checks.audit.oracle import judge
from tests.checks.audit.stories import STORIES
from tests.checks.audit.story import TOKEN, Story, make_run, read_audit, resolved_of, rows_of, scenario_of

Rows = list[dict[str, Any]]
Audited = dict[str, dict[str, Rows]]
"""Rows of a table of the audit, by story."""


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
    names: dict[str, list[str]] = defaultdict(list)  # some stories have one group
    for name, story in stories.items():
        for scope in scopes(story):
            names[scope].append(name)
    found: Audited = {table: defaultdict(list) for table in ("summary", "anomalies", "counts")}
    for table, by_story in found.items():
        for row in read_audit(run, table):
            for name in names[topic_of(row["scope"])]:
                by_story[name].append(row)
    return found


Meant = dict[str, tuple[Parties, Counter[tuple[str, str]], Counter[tuple[str, str]]]]
"""By story: its parties, and what the oracle examines and counts in it, by check and scope."""


@pytest.fixture(scope="module")
def meant(stories: dict[str, Story]) -> Meant:
    """Return what the oracle says of each story alone."""
    found: Meant = {}
    for name, story in stories.items():
        scenario = scenario_of([story])
        verdict, counted = judge(rows_of([story]), scenario, TOKEN), Counter[tuple[str, str]]()
        for (check, _, scope), count in verdict.counts().items():
            counted[check, scope] += count
        found[name] = Parties.of(scenario), verdict.examined, counted
    return found


@pytest.mark.slow
@pytest.mark.parametrize("check", ANOMALIES)
def test_a_rule_examines_where_it_applies(check: str, meant: Meant, audited: Audited) -> None:
    """In each story, the audit has the scopes of the scenario, and examines there what the oracle judges.

    A rule that the oracle does not judge examines at least what it finds.
    """
    wrong = []
    for name, (parties, examined, counted) in meant.items():
        applicable, _ = RULES[check].scopes.of(parties)
        mine = [row for row in audited["summary"][name] if row["check"] == check]
        judged = Counter({scope: n for (c, scope), n in examined.items() if c == check and n > 0})
        judged |= Counter({scope: n for (c, scope), n in counted.items() if c == check})
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


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str, audited: Audited) -> None:
    found: dict[str, int] = defaultdict(int)
    for row in audited["summary"][name]:
        check = row["check"]
        found[f"{check}.{row['split']}" if row["split"] else check] += row["count"]
        found[f"{check}.undecided"] = max(row["undecided"], found[f"{check}.undecided"])
    assert {check: count for check, count in found.items() if count} == STORIES[name][1]


@pytest.mark.parametrize("name", STORIES)
def test_the_findings_shown_are_those_counted(name: str, stories: dict[str, Story], audited: Audited) -> None:
    shown = audited["anomalies"][name]
    expected = sum(count for check, count in STORIES[name][1].items() if not check.endswith(".undecided"))
    assert len(shown) == expected
    for finding in shown:
        assert finding["at_us"] > 0
        if ANOMALIES[finding["check"]].path != "group" or finding["topic"] not in (None, "__consumer_offsets"):
            assert finding["topic"].partition(" (")[0] in (name, stories[name].out) and finding["partition"] is not None
        assert "None" not in finding["mechanism"], finding["mechanism"]


@pytest.mark.parametrize(
    ("name", "superseded", "expired", "tombstones"),
    [
        ("a_tombstone_has_expired_after_what_it_deleted", 1, 1, 1),
        ("a_tombstone_is_gone_before_its_time", 1, 0, 1),
        ("a_key_is_written_again_after_its_tombstone", 1, 0, 1),
        ("superseded_and_removed_in_time", 1, 0, 0),
        ("a_tombstone_stays", 0, 0, 1),
    ],
)
def test_what_compaction_removed_is_counted(
    name: str, superseded: int, expired: int, tombstones: int, audited: Audited
) -> None:
    counts = {row["name"]: row["value"] for row in audited["counts"][name]}
    assert (counts.get("superseded", 0), counts.get("expired_tombstones", 0)) == (superseded, expired)
    summary = audited["summary"][name]
    assert sum(row["examined"] for row in summary if row["check"] == "resurrected_key") == tombstones
