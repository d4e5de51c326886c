"""Share groups (KIP-932): consumers that take records of one partition side by side, and acknowledge each record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaos.clients.choice import Client, ClientChoice
from chaos.clients.traits import Ability
from chaos.kafka.settings import Config, as_text
from chaos.setup.names import EntryName, GroupId, TopicName
from chaos.setup.triggers import Strict
from chaos.units import Duration

RESET, LOCK, LIMIT, ISOLATION = (
    "share.auto.offset.reset",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.isolation.level",
)
DEFAULTS: Config = {RESET: "latest", LOCK: 30_000, LIMIT: 5, ISOLATION: "read_uncommitted"}
"""The values that a group has if neither it nor the brokers set them."""


class Share(Strict):
    """A share group: `members` consumers that take records side by side, and acknowledge each one.

    Needs brokers and a Java client of 4.2 or later. The rules about partitions, order and commits do not apply to it.
    """

    abilities: ClassVar[tuple[Ability, ...]] = ("share groups",)

    mode: Literal["share"]
    name: EntryName
    group: GroupId
    members: int = Field(1, ge=1, le=50)
    topics: list[TopicName] = Field(min_length=1)
    commit: Literal["sync", "async", "implicit"] = Field(
        "sync",
        description="sync, async: acknowledge each record after its processing, then commitSync or commitAsync after "
        "the batch; implicit: the next poll accepts all records of the last one (share.acknowledgement.mode)",
    )
    release_every: int | None = Field(
        None, ge=1, description="release every n-th offset for another delivery, `release_times` times"
    )
    release_times: int = Field(
        1, ge=1, description="deliveries of such a record that are released; at the delivery limit it is archived"
    )
    reject_every: int | None = Field(
        None, ge=1, description="reject every n-th offset, which archives it; goes before release_every"
    )
    max_poll_records: int = Field(500, ge=1, description="maximum number of records in a batch (max.poll.records)")
    per_record: Duration = Field(0.0, description="processing time of each record")
    settings: Config = Field(
        {}, description="settings of the group by their Kafka names, such as share.auto.offset.reset: earliest"
    )
    client: ClientChoice = Field(Client(), description="client library: java, from 4.2.0 on")
    config: Config = Field({}, description="settings by the names of the client library")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.commit == "implicit" and (self.release_every or self.reject_every):
            raise ValueError(
                "commit: implicit accepts every record with the next poll; release_every and reject_every need sync or "
                "async"
            )
        return self

    def topics_among(self, names: Iterable[str]) -> list[str]:
        """Return the topics that the group reads."""
        return [name for name in names if name in self.topics]

    def setting(self, name: str) -> str:
        """Return a setting of the group as text; Kafka's default if the entry leaves it out."""
        return as_text(self.settings.get(name, DEFAULTS[name]))
