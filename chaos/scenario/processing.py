"""How clients process: processors without transactions, and consumers with a pool of threads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.triggers import Strict
from chaos.units import Duration


class Plain(Strict):
    """How a processor writes and commits without transactions, batch by batch.

    after_output: commit when all outputs are acknowledged; a crash in between writes them again. before_output: commit
    first; a crash in between leaves inputs without output.
    """

    commit: Literal["after_output", "before_output"]
    records: int = Field(100, ge=1, description="most records of a batch")
    hold: Duration = Field(0.0, description="time between the two steps, in which a crash duplicates or loses")


class Workers(Strict):
    """A pool of threads that process the records that one thread polls, in parallel even within one partition."""

    count: int = Field(4, ge=1, le=64)
    tracking: Literal["window", "naive"] = Field(
        "window",
        description="window: commit up to the first unprocessed record; naive: up to the highest processed one",
    )
    straggle_every: int | None = Field(None, ge=1, description="every n-th offset takes `straggle` longer")
    straggle: Duration = Field(0.0, description="extra processing time of these offsets")
