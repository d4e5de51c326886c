"""The commit setting of a consumer."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from chaos.setup.needs import Needs
from chaos.setup.triggers import Strict
from chaos.units import Duration

When = Literal["after_batch", "after_record", "before_processing", "periodic", "on_checkpoint", "never"]


class Commit(Strict):
    """When and how a consumer commits offsets; on_checkpoint: those of each complete checkpoint, as Flink does."""

    when: Annotated[
        When,
        Needs("commits on checkpoints", lambda when, _: when == "on_checkpoint"),
        Needs("commits after processing", lambda _, commit: commit.processed),
    ] = "after_batch"
    kind: Annotated[
        Literal["sync", "async", "auto"],
        Needs("asynchronous commits", lambda kind, commit: kind == "async" and commit.processed),
    ] = Field(
        "sync",
        description="auto: the library commits. librdkafka commits stored offsets, and `when` says which are stored: "
        "before_processing is its default (enable.auto.offset.store), after_batch and after_record store processed "
        "offsets. The Java client commits what earlier polls returned, which is after_batch",
    )
    every: Duration | None = Field(None, gt=0, description="periodic: time between two commits")
    on_revoke: bool = Field(
        False, description="also commit, in the revoke callback, processed offsets without a confirmed commit"
    )

    @property
    def processed(self) -> bool:
        """Whether it commits what was processed, and not checkpoints, or nothing."""
        return self.when not in ("on_checkpoint", "never")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.when == "periodic") != (self.every is not None):
            raise ValueError("every: goes with when: periodic, and only with it")
        if self.when == "periodic" and self.kind == "auto":
            raise ValueError("kind: auto is periodic already; set auto.commit.interval.ms in config")
        if self.when == "on_checkpoint" and self.kind != "async":
            raise ValueError("when: on_checkpoint goes with kind: async; Flink does not wait for the answer")
        if self.on_revoke and self.kind == "auto":
            raise ValueError("on_revoke: an automatic commit already does that")
        if self.on_revoke and self.when == "before_processing":
            raise ValueError("on_revoke: all offsets are committed before processing; leave it out")
        return self
