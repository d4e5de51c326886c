"""Flink with FlinkKafkaConsumer as a client library: the programs of `chaos.clients.flink` with another source."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.flink.traits import LEGACY_NEWEST, connector
from chaos.clients.flink_legacy.traits import TRAITS
from chaos.clients.jvm import install_flink
from chaos.clients.runtime import Runtime

SOURCE = Path(__file__).with_name("source")

RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: LEGACY_NEWEST,
    prepare=lambda client, on_progress: install_flink(
        client, connector(str(client.release)), SOURCE, ("assign_consumer",), on_progress
    ),
    consumer_defaults=lambda release: {},
)
