"""Settings of brokers, topics and clients, as a scenario holds them and as Kafka reads them."""

from __future__ import annotations

Scalar = bool | int | float | str
Config = dict[str, Scalar]


def as_text(value: Scalar) -> str:
    """A setting as Kafka and librdkafka read it: `true`, `1000`, `all`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
