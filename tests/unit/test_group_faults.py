"""Faults of groups without a cluster: which topics a group reads, and what the ledger is told of its offsets."""

from types import SimpleNamespace

import pytest

from chaos.faults.groups import topics_of
from chaos.scenario import Scenario

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
        ("nobody's", set()),
    ],
)
def test_the_topics_of_a_group_are_what_all_its_readers_read(group, topics):
    assert topics_of(group, SimpleNamespace(scenario=SCENARIO)) == topics
