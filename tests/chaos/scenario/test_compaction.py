"""How long a compacted topic holds a tombstone."""

import pytest

from chaos.scenario.load import parse

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("topic", "cluster", "faults", "expected_ms"),
    [
        ("", "", "", DAY_MS),
        (", delete.retention.ms: 700", "", "", 700),
        ("", "config: {log.cleaner.delete.retention.ms: 900}", "", 900),
        (", delete.retention.ms: 700", "config: {log.cleaner.delete.retention.ms: 900}", "", 700),
        (", delete.retention.ms: 700", "", "delete.retention.ms: 100", 100),
        (", delete.retention.ms: 700", "", "segment.ms: 100", 700),
        ("", "driver: attached, bootstrap: 'localhost:9092'", "", 0),
        (", delete.retention.ms: 700", "driver: attached, bootstrap: 'localhost:9092'", "", 700),
    ],
)
def test_the_shortest_time_counts(topic: str, cluster: str, faults: str, expected_ms: int) -> None:
    change = f"{{name: f, kind: topic.config, target: {{topic: prices}}, when: {{acked: 9}}, settings: {{{faults}}}}}"
    text = f"""
title: t
cluster: {{{cluster}}}
topics: [{{name: prices, config: {{cleanup.policy: compact{topic}}}}}]
producers: [{{name: shop, topic: prices, keys: 9, tombstone_every: 3}}]
faults: [{change if faults else ""}]
"""
    assert parse(text, "mine.yaml").delete_retention_us("prices") == 1000 * expected_ms
