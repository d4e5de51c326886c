"""What every fault of a scenario has, and which targets there are."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaos.scenario.triggers import Heal, Strict, Target, Trigger

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]

ONE_BROKER = frozenset(
    {
        *("leader_of", "follower_of", "coordinator_of", "transaction_coordinator_of", "controller"),
        *("broker", "random_broker"),
    }
)
BROKER_TARGETS = ONE_BROKER | {"followers_of", "isr_of", "all_brokers"}
Direction = Annotated[
    Literal["both", "in", "out"],
    Field(description="as the broker sees it: in: what comes to it is lost"),
]
CLIENT_TARGETS = frozenset({"member", "random_member"})


class FaultSpec(Strict):
    """What every fault has."""

    targets: ClassVar[frozenset[str]]
    needs: ClassVar[frozenset[str]] = frozenset()

    name: Name
    target: Target
    when: Trigger
    heal: Heal | None = Field(None, description="left out: healed before the drain")

    @model_validator(mode="after")
    def _target_fits(self) -> Self:
        (given,) = self.target.given()
        if given not in self.targets:
            raise ValueError(f"target {given} does not fit this fault; it takes {', '.join(sorted(self.targets))}")
        return self


def hits_brokers(fault: FaultSpec) -> bool:
    """Whether a fault breaks brokers, and not only clients, topics or groups of the run's own."""
    return bool(fault.needs or fault.target.given().keys() & BROKER_TARGETS)
