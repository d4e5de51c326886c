"""The base of every fault's specification, and the sets of targets that faults take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import Field, model_validator

from chaos.clients.traits import Ability
from chaos.setup.model import Setup
from chaos.setup.names import Spelled
from chaos.setup.triggers import CONTROLLER_TARGETS, Heal, Strict, Target, Trigger, check_one_of

Name = Annotated[
    str, Spelled(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$", "1 to 40 letters, digits, _ and -, a letter or digit first")
]

ONE_BROKER = frozenset(
    {
        *("leader_of", "follower_of", "coordinator_of", "share_coordinator_of", "transaction_coordinator_of"),
        *("controller", "broker", "random_broker"),
    }
)
BROKER_TARGETS = ONE_BROKER | {"followers_of", "isr_of", "all_brokers", "rack"}
BROKERS = "brokers"
Direction = Annotated[
    Literal["both", "in", "out"], Field(description="as the broker sees it; in: packets to the broker are lost")
]

SPECS: dict[str, type[FaultSpec]] = {}
"""The specification of every fault by its `kind`. `chaos.scenario.faults` imports all families, which fills it."""


class FaultSpec(Strict):
    """The fields that every fault has, and the rules for them.

    A subclass adds its `kind`, its parameters and, in `problems`, its own rules. Its docstring says what the fault does
    and how it is healed: the fault reference is generated from it.
    """

    targets: ClassVar[frozenset[str]] = ONE_BROKER
    """The keys of `Target` that the fault takes."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """The driver capabilities that the fault needs, by their names in `chaos.cluster.api.CAPABILITIES`."""
    abilities: ClassVar[tuple[Ability, ...]] = ()
    """What the client library of the targeted entry has to be able to do."""
    limit: ClassVar[tuple[str, str] | None] = None
    """The key of `cluster` without which there is nothing to use up, and its meaning."""
    breaks_brokers: ClassVar[bool] = True
    """False for a fault that targets a broker but leaves the broker itself alone."""
    hits_controllers: ClassVar[bool] = False
    """True for a fault that takes dedicated controllers as its target."""
    once_per_target: ClassVar[bool] = False
    """True for a fault that a scenario may contain only once for the same target."""
    run_only: ClassVar[str] = ""
    """What a fault needs that only a run has, so that `break` refuses it; empty if a cluster is enough."""
    final: ClassVar[bool] = False
    """True for a change of data that nothing undoes."""
    example: ClassVar[str] = ""
    """The parameters that a fault needs, as `break` takes them."""
    no_promise: ClassVar[str] = ""
    """Why no rule says what settings promise under the fault; empty if rules do."""
    one_of: ClassVar[tuple[str, ...]] = ()
    """Parameters of which exactly one is given."""

    name: Name
    target: Target
    when: Trigger
    heal: Heal | None = Field(None, description="if left out: healed before the drain")
    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Register a specification with a kind; a base of several has none."""
        if get_origin(cls.model_fields["kind"].annotation) is Literal:
            SPECS[cls.kind_name()] = cls

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        selector, _ = self.target.selector
        if selector not in self.targets:
            raise ValueError(f"target {selector} does not fit this fault; it takes {', '.join(sorted(self.targets))}")
        if self.one_of:
            check_one_of(self, *self.one_of)
        return self

    @classmethod
    def kind_name(cls) -> str:
        """Return the `kind` of this class, such as `broker.kill`."""
        name: str = get_args(cls.model_fields["kind"].annotation)[0]
        return name

    @property
    def needed(self) -> frozenset[str]:
        """The driver capabilities that the fault needs for its target."""
        return self.needs

    @property
    def changed(self) -> frozenset[tuple[str, str]]:
        """The settings that the fault changes and its heal puts back, each as its owner and its name.

        The owner is a topic, a broker, or BROKERS: some of them, known when the fault is injected.
        """
        return frozenset()

    @property
    def hits_brokers(self) -> bool:
        """Whether the fault breaks brokers, and not only clients, topics or groups of the run."""
        return self.breaks_brokers and bool(
            self.needed or self.target.selector[0] in BROKER_TARGETS | CONTROLLER_TARGETS
        )

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Yield one message per problem that this kind of fault may have; `where` is its key, such as `faults[0]`."""
        if self.limit and dict(setup.cluster)[self.limit[0]] is None:
            yield f"{where}: {self.kind} needs cluster.{self.limit[0]}, {self.limit[1]}"
