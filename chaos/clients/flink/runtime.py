"""Flink with KafkaSource and KafkaSink as a client library: a job in a mini cluster, in one process for each client."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.flink.traits import NEWEST, TRAITS, connector
from chaos.clients.jvm import install_flink
from chaos.clients.runtime import Runtime

SOURCE = Path(__file__).with_name("source")

RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: NEWEST,
    prepare=lambda client, on_progress: install_flink(
        client, connector(str(client.release)), SOURCE, ("assign_consumer", "producer"), on_progress
    ),
    consumer_defaults=lambda release: {},
)
