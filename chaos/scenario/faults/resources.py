"""Faults of what a broker may use: CPU, memory, disk."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import ONE_BROKER, FaultSpec
from chaos.units import Size


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
