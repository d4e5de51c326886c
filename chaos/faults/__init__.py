"""Faults: what each kind is, and how Aftershock injects, proves and heals it.

One file for each family has everything about its kinds. Each kind is two classes that stand together:

- the specification, a `FaultSpec`: the key `kind`, the targets, the parameters, the rules for them, what the fault
  needs from the driver, and what it may break;
- the fault, a `Fault` of that specification, with three operations:

  - `inject` resolves the target, does the damage and describes it;
  - `proof` looks from outside the injector for a change that only the damage explains (another leader, a member that
    left, a request without an answer) and describes it, or returns None;
  - `heal` undoes the damage. Call it at any time and any number of times, also after an injection that failed half-way.

A run is inconclusive if a fault has no proof: a test that passes although its fault never happened proves nothing.

To add a fault to a family, write its two classes in `chaos/faults/<family>.py` and add it to `FAULTS` there. Loading a
scenario imports all families, in each Spark worker of an audit too. So what speaks to brokers, and libraries that take
long to import (Arrow, librdkafka, cryptography), are imported where a fault uses them.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from chaos.faults import (
    apps,
    brokers,
    clients,
    clocks,
    connectors,
    consumers,
    controllers,
    databases,
    groups,
    network,
    producers,
    raw,
    records,
    replicas,
    resources,
    security,
    settings,
    topics,
    upgrades,
    wire,
)
from chaos.faults.base import Fault, FaultSpec

__all__ = ["FAULTS", "SPECS", "AnySpec"]

FAULTS: dict[str, type[Fault[Any]]] = {
    **brokers.FAULTS,
    **controllers.FAULTS,
    **upgrades.FAULTS,
    **resources.FAULTS,
    **clients.FAULTS,
    **consumers.FAULTS,
    **producers.FAULTS,
    **clocks.FAULTS,
    **network.FAULTS,
    **wire.FAULTS,
    **records.FAULTS,
    **raw.FAULTS,
    **topics.FAULTS,
    **settings.FAULTS,
    **groups.FAULTS,
    **replicas.FAULTS,
    **security.FAULTS,
    **apps.FAULTS,
    **connectors.FAULTS,
    **databases.FAULTS,
}
"""Every fault by its kind. Messages, the JSON Schema and the reference list the kinds in this order."""
SPECS: dict[str, type[FaultSpec]] = {kind: fault.specification for kind, fault in FAULTS.items()}
"""The specification of every fault by its kind."""

if TYPE_CHECKING:
    AnySpec = FaultSpec
else:
    AnySpec = Annotated[reduce(or_, SPECS.values()), Field(discriminator="kind")]
    """The specification of any fault."""
