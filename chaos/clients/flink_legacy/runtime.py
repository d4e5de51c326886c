"""Flink with FlinkKafkaConsumer as a client library: the programs of `chaos.clients.flink` with another source."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.minicluster import install
from chaos.clients.runtime import Runtime
from chaos.setup.runtimes.flink import LEGACY_NEWEST, LEGACY_TRAITS

SOURCE = Path(__file__).with_name("source")

RUNTIME = Runtime(
    traits=LEGACY_TRAITS,
    default_release=lambda: LEGACY_NEWEST,
    prepare=lambda client, on_progress: install(client, SOURCE, ("assign_consumer",), on_progress),
    consumer_defaults=lambda release: {},
)
