"""Faults of groups without a cluster: the topics that a group reads, and the offsets in the evidence."""

from types import SimpleNamespace

import pytest

from chaos.errors import FaultError
from chaos.faults import groups as specs
from chaos.faults.groups import DeleteOffsets, ResetOffsets, topics_of
from chaos.kafka import admin
from chaos.kafka.client import GroupMember, GroupState
from chaos.kafka.partition import TopicPartition
from chaos.scenario.model import Scenario
from chaos.setup.triggers import Target, Trigger

SCENARIO = Scenario.model_validate(
    {
        "title": "groups",
        "topics": [{"name": name} for name in ("orders-eu", "orders-us", "refunds", "out")],
        "producers": [{"name": "shop", "topic": "orders-eu"}],
        "consumers": [
            {"mode": "subscribe", "name": "named", "group": "named", "topics": ["refunds"]},
            {"mode": "subscribe", "name": "more", "group": "named", "topics": ["out"]},
            {"mode": "subscribe", "name": "matching", "group": "matching", "pattern": "orders-.*"},
            {"mode": "assign", "name": "replay", "group": "replay", "topics": ["orders-us"]},
            {"mode": "assign", "name": "alone", "topics": ["out"]},
        ],
        "processors": [{"name": "copy", "group": "copies", "topics": ["orders-eu"], "to": "out"}],
    }
)


@pytest.mark.parametrize(
    ("group", "topics"),
    [
        ("named", {"refunds", "out"}),
        ("matching", {"orders-eu", "orders-us"}),
        ("replay", {"orders-us"}),
        ("copies", {"orders-eu"}),
        ("unknown", set()),
    ],
)
def test_the_topics_of_a_group_are_those_of_all_its_consumers_and_processors(group, topics):
    assert topics_of(group, SimpleNamespace(scenario=SCENARIO)) == topics


def test_the_topics_of_the_group_of_an_application_are_what_it_reads():
    scenario = Scenario.model_validate(
        {
            "title": "groups",
            "topics": [{"name": name} for name in ("orders", "refunds", "out")],
            "producers": [
                {"name": topic, "topic": topic, "value": {"template": '{"id": "{id}"}'}}
                for topic in ("orders", "refunds")
            ],
            "apps": [
                {"name": "billing", "command": ["b", "{bootstrap}"], "group": "billing", "reads": ["orders"]},
                {"name": "other", "command": ["o", "{bootstrap}"], "reads": ["refunds"]},
            ],
            "effects": [{"name": "out", "topic": "out", "id": "$.id", "of": "orders"}],
            "faults": [{"name": "x", "kind": "group.delete", "target": {"group": "billing"}, "when": {"at": 0}}],
        }
    )
    assert topics_of("billing", SimpleNamespace(scenario=scenario)) == {"orders"}


def test_the_evidence_contains_the_offsets_after_the_fault(monkeypatch):
    monkeypatch.setattr(admin, "commit", lambda kafka, group, offsets: None)
    monkeypatch.setattr(admin, "delete_offsets", lambda kafka, group, offsets: None)
    kafka = SimpleNamespace(
        start_offsets=lambda names: dict.fromkeys(names, 2), committed=lambda group, names: dict.fromkeys(names, 9),
        group=lambda group: GroupState("Empty", 1, ()),
    )  # fmt: skip
    observer = SimpleNamespace(partitions=lambda topics: [TopicPartition(topic, 0) for topic in sorted(topics)])
    world = SimpleNamespace(scenario=SCENARIO, kafka=kafka, observer=observer)
    common = {"name": "move", "target": Target(group="named"), "when": Trigger(at=0)}
    reset = ResetOffsets(specs.ResetOffsetsSpec(kind="group.reset_offsets", to="earliest", **common))
    delete = DeleteOffsets(specs.DeleteOffsetsSpec(kind="group.delete_offsets", **common))
    for fault, offset in ((reset, 2), (delete, None)):
        fault.inject(world)
        assert fault.evidence == {"offsets": {"out/0": offset, "refunds/0": offset}}


def test_offsets_of_a_group_with_members_are_not_reset(monkeypatch):
    monkeypatch.setattr(admin, "commit", lambda *_: pytest.fail("committed"))
    member = GroupMember(*[""] * len(GroupMember.__dataclass_fields__))
    kafka = SimpleNamespace(group=lambda group: GroupState("Stable", 1, (member,)))
    spec = specs.ResetOffsetsSpec(
        kind="group.reset_offsets", to="earliest", name="move", target=Target(group="billing"), when=Trigger(at=0)
    )
    with pytest.raises(FaultError, match=r"group billing still has 1 member, .* until its session times out"):
        ResetOffsets(spec).inject(SimpleNamespace(scenario=SCENARIO, kafka=kafka))
