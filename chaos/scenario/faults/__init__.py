"""The specification of each kind of fault: its parameters, its targets, and the driver capabilities it needs.

One module per family, each with the union of its specifications at the end. `chaos.faults` has a module of the same
name with the fault itself: injection, proof and heal.
"""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.faults.broker import BrokerFaults
from chaos.scenario.faults.consumer import ConsumerFaults
from chaos.scenario.faults.groups import GroupFaults
from chaos.scenario.faults.leaders import LeaderFaults
from chaos.scenario.faults.network import NetworkFaults
from chaos.scenario.faults.producer import ProducerFaults
from chaos.scenario.faults.resources import DiskFaults, ResourceFaults
from chaos.scenario.faults.topics import TopicFaults
from chaos.scenario.faults.wire import WireFaults

Fault = Annotated[
    BrokerFaults
    | DiskFaults
    | NetworkFaults
    | ResourceFaults
    | ConsumerFaults
    | TopicFaults
    | GroupFaults
    | LeaderFaults
    | WireFaults
    | ProducerFaults,
    Field(discriminator="kind"),
]
"""The specification of any fault."""


def specs() -> dict[str, type[FaultSpec]]:
    """Return the specification class of every fault by its kind."""
    union, *_ = get_args(Fault)
    return {spec.kind_name(): spec for spec in get_args(union)}
