"""confluent-kafka in this process: its versions, and the connection settings of each client."""

from __future__ import annotations

from typing import Literal

import confluent_kafka
from confluent_kafka import ThrottleEvent

from chaos.clients.protocol import ClientSpec
from chaos.kafka.security import librdkafka_settings

VERSIONS = {"confluent_kafka": confluent_kafka.__version__, "librdkafka": confluent_kafka.libversion()[0]}
"""The installed releases, which the event `started` reports."""


class Throttled:
    """The responses to one Kafka client that contain a throttle time: the client is above a quota (KIP-13).

    librdkafka reports those to produce and fetch requests, while the client polls.
    """

    def __init__(self, side: Literal["producer", "consumer"]) -> None:
        self._side = side
        self._responses = 0
        self._longest_s = 0.0

    def __call__(self, event: ThrottleEvent) -> None:
        """Count a response; librdkafka also reports the first one that is no longer throttled."""
        if event.throttle_time > 0:
            self._responses += 1
            self._longest_s = max(self._longest_s, event.throttle_time)

    def progress(self) -> dict[str, list[int]]:
        """Return the number of responses and the longest time in ms, by side; empty if there was none."""
        return {self._side: [self._responses, round(self._longest_s * 1000)]} if self._responses else {}


def connection(spec: ClientSpec) -> dict[str, str]:
    """Return the connection settings of a client. Raises `UsageError` if a secret is missing."""
    return {"bootstrap.servers": spec.bootstrap, "client.id": spec.client, **librdkafka_settings(spec.security)}
