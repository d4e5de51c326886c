"""What a scenario may break: one model per kind of fault, with its parameters and the driver capabilities it needs.

What each does, and how it is proven, is in `chaos.faults`, one class per kind.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaos.scenario.triggers import Heal, Strict, Target, Trigger
from chaos.scenario.units import Duration, Size

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]

ONE_BROKER = frozenset({"leader_of", "follower_of", "coordinator_of", "broker", "random_broker"})
BROKER_TARGETS = ONE_BROKER | {"followers_of"}
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


class BrokerKill(FaultSpec):
    """SIGKILL a broker; healed by starting it again on its old disk."""

    targets = ONE_BROKER
    needs = frozenset({"kill", "start"})
    kind: Literal["broker.kill"]


class BrokerPause(FaultSpec):
    """SIGSTOP a broker: connections stay open, nothing answers; healed by SIGCONT."""

    targets = BROKER_TARGETS
    needs = frozenset({"pause"})
    kind: Literal["broker.pause"]


class CoordinatorKill(FaultSpec):
    """SIGKILL the broker that coordinates a group; healed by starting it again."""

    targets = frozenset({"coordinator_of"})
    needs = frozenset({"kill", "start"})
    kind: Literal["coordinator.kill"]


class BrokerIsolate(FaultSpec):
    """Drop the packets between a broker and its peers, its clients, or both; healed by letting them pass."""

    targets = ONE_BROKER
    needs = frozenset({"isolate"})
    kind: Literal["broker.isolate"]
    cut: Literal["peers", "clients", "all"] = Field("peers", description="from whom")
    direction: Direction = "both"


class LinkCut(FaultSpec):
    """Drop the packets between two brokers; healed by letting them pass."""

    targets = ONE_BROKER
    needs = frozenset({"isolate"})
    kind: Literal["link.cut"]
    other: Target = Field(description="the broker at the other end")
    direction: Direction = "both"


class BrokerDisconnect(FaultSpec):
    """Take a broker off the network altogether; healed by putting it back."""

    targets = ONE_BROKER
    needs = frozenset({"disconnect"})
    kind: Literal["broker.disconnect"]


class BrokerThrottle(FaultSpec):
    """Leave a broker so much of a CPU; healed by what it had before."""

    targets = ONE_BROKER
    needs = frozenset({"throttle"})
    kind: Literal["broker.throttle"]
    cpus: float = Field(gt=0, description="CPUs that are left, such as 0.05")


class BrokerOom(FaultSpec):
    """Use up a broker's memory until the kernel kills it (set cluster.memory); healed by starting it again."""

    targets = ONE_BROKER
    needs = frozenset({"exhaust_memory", "start"})
    kind: Literal["broker.oom"]


class DiskFill(FaultSpec):
    """Fill a broker's disk (set cluster.disk); healed by making room, and by starting the broker if it went down."""

    targets = ONE_BROKER
    needs = frozenset({"fill_disk", "start"})
    kind: Literal["disk.fill"]
    free: Size = Field(0, description="bytes that are left")


class ConsumerSlow(FaultSpec):
    """Make a consumer take longer for each record, so that it exceeds max.poll.interval.ms; healed by full speed."""

    targets = CLIENT_TARGETS
    kind: Literal["consumer.slow"]
    per_record: Duration = Field(description="extra processing time of each record")


class ConsumerCrash(FaultSpec):
    """SIGKILL a consumer process; healed by starting its next incarnation."""

    targets = CLIENT_TARGETS
    kind: Literal["consumer.crash"]


Fault = Annotated[
    BrokerKill
    | BrokerPause
    | CoordinatorKill
    | BrokerIsolate
    | LinkCut
    | BrokerDisconnect
    | BrokerThrottle
    | BrokerOom
    | DiskFill
    | ConsumerSlow
    | ConsumerCrash,
    Field(discriminator="kind"),
]
