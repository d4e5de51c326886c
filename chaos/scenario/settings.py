"""What the entries of all clients have in common: names, and settings of librdkafka."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from chaos.ledger.record import PRODUCER_WIDTH

Scalar = bool | int | float | str
Config = dict[str, Scalar]
ClientName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=PRODUCER_WIDTH - 4)]


def as_text(value: Scalar) -> str:
    """A setting as Kafka and librdkafka read it: `true`, `1000`, `all`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
