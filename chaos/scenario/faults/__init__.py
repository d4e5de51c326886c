"""What a scenario may break: one model per kind of fault, with its parameters and the driver capabilities it needs.

What each does, and how it is proven, is in `chaos.faults`, one class per kind, in a module of the same name.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from chaos.scenario.faults.admin import (
    AddPartitions,
    CreateTopic,
    DeleteGroup,
    DeleteOffsets,
    DeleteRecords,
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    Reassign,
    ResetOffsets,
    TopicConfig,
)
from chaos.scenario.faults.base import CLIENT_TARGETS, ONE_BROKER, FaultSpec, hits_brokers
from chaos.scenario.faults.broker import (
    BrokerKill,
    BrokerPause,
    BrokerStop,
    BrokerWipe,
    ControllerKill,
    CoordinatorKill,
    DiskLimit,
    LogTruncate,
    RollingRestart,
)
from chaos.scenario.faults.consumer import (
    ConsumerChurn,
    ConsumerCrash,
    ConsumerJoin,
    ConsumerLeave,
    ConsumerPause,
    ConsumerSeek,
    ConsumerSlow,
)
from chaos.scenario.faults.network import BrokerDisconnect, BrokerIsolate, LinkCut
from chaos.scenario.faults.resources import BrokerOom, BrokerThrottle, DiskFill

__all__ = ["CLIENT_TARGETS", "ONE_BROKER", "Fault", "FaultSpec", "hits_brokers"]

Fault = Annotated[
    BrokerKill
    | BrokerPause
    | CoordinatorKill
    | ControllerKill
    | BrokerStop
    | RollingRestart
    | BrokerWipe
    | LogTruncate
    | DiskLimit
    | BrokerIsolate
    | LinkCut
    | BrokerDisconnect
    | BrokerThrottle
    | BrokerOom
    | DiskFill
    | ConsumerSlow
    | ConsumerCrash
    | ConsumerSeek
    | ConsumerPause
    | ConsumerLeave
    | ConsumerJoin
    | ConsumerChurn
    | AddPartitions
    | CreateTopic
    | DeleteTopic
    | DeleteRecords
    | TopicConfig
    | DeleteOffsets
    | ResetOffsets
    | DeleteGroup
    | ElectPreferred
    | ElectUnclean
    | Reassign,
    Field(discriminator="kind"),
]
