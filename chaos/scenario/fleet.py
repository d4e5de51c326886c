"""What the clients of all entries have in common: the library of those that name none, and the workers."""

from __future__ import annotations

from pydantic import Field

from chaos.scenario.triggers import Strict
from chaos.units import Release


class Clients(Strict):
    """The client library of entries that name none."""

    confluent_kafka: Release | None = Field(
        None,
        description="release of confluent-kafka, and so of librdkafka, of entries without a `client`; the installed "
        "one if left out",
    )


class Fleet(Strict):
    """The clients of a run are spread over several workers; see `chaos.workers`."""

    workers: int = Field(ge=1, le=64, description="number of workers; the clients are placed on them in turn")
