"""The programs of the confluent-kafka clients, and the settings that they need."""

from __future__ import annotations

from chaos.clients.confluent.environment import release_number
from chaos.clients.protocol import AssignConsumerSpec, Config, GroupConsumerSpec, ProcessorSpec, ProducerSpec

AnySpec = ProducerSpec | ProcessorSpec | GroupConsumerSpec | AssignConsumerSpec

PROGRAMS: dict[type[AnySpec], str] = {
    ProducerSpec: "chaos.clients.confluent.producer",
    ProcessorSpec: "chaos.clients.confluent.processor",
    GroupConsumerSpec: "chaos.clients.confluent.group_consumer",
    AssignConsumerSpec: "chaos.clients.confluent.assign_consumer",
}
"""The module to run with `python -m` for each spec."""

CONSUMER_DEFAULTS: Config = {
    # After its queue was full, librdkafka fetches nothing for this time (1000 ms by default), even if the application
    # empties the queue: a drain would mostly wait.
    "fetch.queue.backoff.ms": 10,
}
"""Settings of each consumer unless the scenario sets them."""
_CONSUMER_DEFAULTS_SINCE = (2, 2, 0)


def consumer_defaults(release: str | None) -> Config:
    """Return `CONSUMER_DEFAULTS` if the confluent-kafka release knows them. None is the release of this environment."""
    return CONSUMER_DEFAULTS if release is None or release_number(release) >= _CONSUMER_DEFAULTS_SINCE else {}
