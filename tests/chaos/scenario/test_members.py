"""Rules for the entries of a group, and the group as one reader."""

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from checks.audit.facts.readers import readers_of


def scenario(*entries: str) -> Scenario:
    consumers = "".join(f"  - {{mode: subscribe, group: g, topics: [orders], {entry}}}\n" for entry in entries)
    head = "title: t\ntopics: [{name: orders, partitions: 3}]\nproducers: [{name: shop, topic: orders, records: 100}]\n"
    return parse(f"{head}consumers:\n{consumers}", "x")


def strategy(name: str, assignors: str) -> str:
    return f"name: {name}, config: {{partition.assignment.strategy: '{assignors}', auto.offset.reset: earliest}}"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ((strategy("a", "range"), strategy("b", "roundrobin")), "INCONSISTENT_GROUP_PROTOCOL"),
        ((strategy("a", "range"), strategy("b", "cooperative-sticky")), "INCONSISTENT_GROUP_PROTOCOL"),
        ((strategy("a", "range,cooperative-sticky"),), "mixes eager and cooperative"),
        (("name: a", "name: b, config: {isolation.level: read_uncommitted}"), "differ in isolation.level"),
    ],
)
def test_entries_that_cannot_be_one_group_are_refused(entries: tuple[str, ...], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        scenario(*entries)


def test_a_group_of_several_entries_is_one_reader_with_the_settings_of_each() -> None:
    entries = strategy("a", "range,roundrobin"), strategy("b", "roundrobin,range").replace("earliest", "latest")
    (group,) = readers_of(scenario(*entries))
    assert (group.name, group.members, group.assignor) == ("g", 2, "")
    assert [group.seen_by(c).reset for c in ("a/1", "b/1")] == ["earliest", "latest"]


def test_the_assignor_of_a_generation_is_what_most_of_its_members_vote_for() -> None:
    (group,) = readers_of(scenario(strategy("a", "range,roundrobin"), strategy("b", "roundrobin")))
    assert group.assignor_for(["a/1"]) == "range"
    assert group.assignor_for(["a/1", "b/1"]) == "roundrobin"
    (group,) = readers_of(scenario(strategy("a", "range,roundrobin"), strategy("b", "roundrobin,range")))
    assert group.assignor_for(["a/1", "b/1"]) == ""
    assert group.assignor_for(["a/1", "a/2", "b/1"]) == "range"
    assert group.assignor_for(["somebody"]) == group.assignor_for([]) == ""
