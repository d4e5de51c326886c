"""How clients process: in transactions or without them, and consumers with a pool of threads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from chaos.setup.needs import Needs
from chaos.setup.triggers import Strict
from chaos.units import Duration


class Transactions(Strict):
    """The transactions of a client. Its transactional.id is its name, the same for every incarnation."""

    records: Annotated[int, Needs("transactions of a size")] = Field(
        100, ge=1, description="records of each transaction"
    )
    abort_every: Annotated[int | None, Needs("transactions of a size")] = Field(
        None, ge=2, description="abort every n-th transaction on purpose, with all its records in the log"
    )
    timeout: Duration = Field(60.0, ge=1, description="transaction.timeout.ms: older transactions are aborted")
    hold: Annotated[Duration, Needs("transactions of a size")] = Field(
        0.0, description="time that a transaction stays open after its last record"
    )


class Plain(Strict):
    """How a processor writes and commits without transactions, batch by batch.

    after_output: commit when all outputs are acknowledged; a crash in between writes them again. before_output: commit
    first; a crash in between leaves inputs without output.
    """

    commit: Annotated[
        Literal["after_output", "before_output"], Needs("commits before outputs", lambda it, _: it == "before_output")
    ]
    records: Annotated[int, Needs("batches of a size")] = Field(100, ge=1, description="most records of a batch")
    hold: Annotated[Duration, Needs("batches of a size")] = Field(
        0.0, description="time between the two steps, in which a crash duplicates or loses"
    )


class Workers(Strict):
    """A pool of threads that process the records that one thread polls, in parallel even within one partition."""

    count: int = Field(4, ge=1, le=64)
    tracking: Literal["window", "naive"] = Field(
        "window",
        description="window: commit up to the first unprocessed record; naive: up to the highest processed one",
    )
    straggle_every: int | None = Field(None, ge=1, description="every n-th offset takes `straggle` longer")
    straggle: Duration = Field(0.0, description="extra processing time of these offsets")
