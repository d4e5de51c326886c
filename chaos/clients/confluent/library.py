"""confluent-kafka in this process: its versions, and the connection settings of each client."""

from __future__ import annotations

import confluent_kafka

from chaos.clients.protocol import ClientSpec
from chaos.kafka.access import librdkafka

VERSIONS = {"confluent_kafka": confluent_kafka.__version__, "librdkafka": confluent_kafka.libversion()[0]}
"""The installed releases, which the event `started` reports."""


def connection(spec: ClientSpec) -> dict[str, str]:
    """Return the connection settings of a client. Raises `UsageError` if a secret is missing."""
    return {"bootstrap.servers": spec.bootstrap, "client.id": spec.client, **librdkafka(spec.security)}
