"""The base of every fault, and the world that a fault acts on and observes."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from chaos.cluster.api import Cluster
from chaos.fleet.fleet import Fleet
from chaos.kafka.access import Access
from chaos.kafka.client import Kafka
from chaos.observer import Observer
from chaos.relay.control import Proxy
from chaos.run.directory import Run
from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.model import Scenario

S = TypeVar("S", bound=FaultSpec)

NOTHING_TO_HEAL = "nothing to heal"
FAULTS: dict[str, type[Fault[Any]]] = {}
"""Every fault by the `kind` of its specification. `chaos.faults` imports all families, which fills it."""


@dataclass(frozen=True)
class World:
    """The scenario, the cluster, the clients, the observer, and a separate Kafka connection for one fault.

    `rng` makes the random choices of all faults. `access` is the way to log in, `proxy` the wire proxy; both are None
    for runs without them. `run` has the ledger, for faults that write records.
    """

    scenario: Scenario
    cluster: Cluster
    fleet: Fleet
    observer: Observer
    kafka: Kafka
    rng: random.Random
    access: Access | None = None
    proxy: Proxy | None = None
    run: Run | None = None


class Fault(ABC, Generic[S]):
    """One fault of one run: its specification, the resolved target, and what the injection changed.

    A subclass implements `_inject` and `_effect`, and `_undo` if the fault can be healed. It declares the attributes
    that `_inject` sets before `begun`. Its docstring says after the word "Proof" how the fault is proven: the fault
    reference is generated from it.
    """

    lasting: ClassVar[str] = ""
    """For a fault that cannot be healed: what stays, such as `its partitions stay`."""

    def __init_subclass__(cls, spec: type[FaultSpec] | None = None) -> None:
        """Register a fault under the kind of its specification; a base of several faults has none."""
        super().__init_subclass__()
        if spec is not None:
            FAULTS[spec.kind_name()] = cls

    def __init__(self, spec: S) -> None:
        self.spec = spec
        self.resolved = ""
        """The target that was hit, such as `broker 2`; empty before the injection."""
        self.begun = False
        """Set by `_inject` directly before the first change: from then on there is something to prove and to heal."""
        self.evidence: dict[str, object] = {}
        """Facts for the audit, recorded with every later phase of the fault."""

    def aim(self, world: World) -> None:
        """Resolve the target, once. Raises `FaultError` if it means nothing."""
        if not self.resolved:
            self._aim(world)

    def inject(self, world: World) -> str:
        """Resolve the target, inject the fault and describe it. Raises `FaultError` or `ClusterError`."""
        self.aim(world)
        return self._inject(world)

    def proof(self, world: World) -> str | None:
        """Return the effect of an injection that has begun, else None."""
        return self._effect(world) if self.begun else None

    def heal(self, world: World) -> str:
        """Undo an injection that has begun, even one that failed half-way. Call it at any time, any number of times."""
        return self._undo(world) if self.begun else NOTHING_TO_HEAL

    def _aim(self, world: World) -> None:
        """Resolve the target; by default, it is the name that the specification gives."""
        self.resolved = str(self.spec.target.selector[1])

    @abstractmethod
    def _inject(self, world: World) -> str:
        """Do the damage and describe it."""

    @abstractmethod
    def _effect(self, world: World) -> str | None:
        """Describe the observed change that proves the fault; return None while there is none."""

    def _undo(self, world: World) -> str:
        """Undo the injection and describe the result; idempotent. By default nothing is undone."""
        return f"{self.resolved}: {self.lasting}" if self.lasting else NOTHING_TO_HEAL
