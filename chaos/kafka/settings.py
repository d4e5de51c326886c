"""Settings of brokers, topics and clients: their types in a scenario, and their text for Kafka."""

from __future__ import annotations

Scalar = bool | int | float | str
Config = dict[str, Scalar]


def as_text(value: Scalar) -> str:
    """Return a setting in the form that Kafka and librdkafka read: `true`, `1000`, `all`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
