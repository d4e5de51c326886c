"""The library `flink-legacy`: the traits of `flink`, without what KafkaSource and KafkaSink added."""

from __future__ import annotations

from dataclasses import replace

from chaos.clients.flink.traits import LEGACY_NEWEST, OLDEST
from chaos.clients.flink.traits import TRAITS as FLINK
from chaos.clients.traits import Ability

_NEWER: frozenset[Ability] = frozenset(
    {"produce", "transactions", "sticky partitioner", "checkpoints of a producer", "session clusters"}
)
TRAITS = replace(
    FLINK,
    name="flink-legacy",
    starts_reset=False,
    releases=(OLDEST, LEGACY_NEWEST),
    abilities={ability: since for ability, since in FLINK.abilities.items() if ability not in _NEWER},
    lacks={
        **FLINK.lacks,
        "produce": "its programs only read; KafkaSink is in the runtime flink",
        "session clusters": "its jobs run in a mini cluster; the runtime flink has session clusters",
    },
)
