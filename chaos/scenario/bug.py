"""Published bugs: what a scenario says about the one that it shows."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from chaos.setup.names import Spelled
from chaos.setup.triggers import Strict

AFFECTED, FIXED = "affected", "fixed"
"""The names of the variants of a bug."""


class Measured(Strict):
    """How often the runs of each variant showed the bug, on the given release of Kafka's brokers."""

    kafka: str
    runs: int = Field(ge=1, description="conclusive runs of each variant")
    affected: int = Field(ge=0, description="runs of the affected variant that show the bug")
    fixed: int | None = Field(None, ge=0, description="runs of the fixed variant that break its contract")
    day: Annotated[str, Spelled(r"^\d{4}-\d\d-\d\d$", "a day such as 2026-11-21")] = Field(
        description="the day of the last run"
    )


class Bug(Strict):
    """A published bug. The contract of the variant `affected` demands what shows it; that of `fixed` forbids it."""

    id: str = Field(min_length=1, description="such as KAFKA-17754, or librdkafka 4249")
    affected: str = Field(description="the releases and settings that have it")
    fixed: str | None = Field(None, description="the releases or settings without it; none is known if left out")
    sources: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    measured: Measured | None = None
