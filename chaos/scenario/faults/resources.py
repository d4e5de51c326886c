"""Faults of a broker's CPU, memory and disk space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import ONE_BROKER, FaultSpec
from chaos.scenario.setup import Setup
from chaos.units import Size


class BrokerThrottle(FaultSpec):
    """Limit a broker to a part of a CPU; healed by its former limit."""

    targets = ONE_BROKER
    needs = frozenset({"throttle"})
    kind: Literal["broker.throttle"]
    cpus: float = Field(gt=0, description="CPUs that are left, such as 0.05")


class BrokerOom(FaultSpec):
    """Use up a broker's memory until the kernel kills it (set cluster.memory); healed by a start."""

    targets = ONE_BROKER
    needs = frozenset({"exhaust_memory", "start"})
    kind: Literal["broker.oom"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the cluster has a memory limit."""
        yield from super().problems(setup, where)
        if setup.cluster.memory is None:
            yield f"{where}: broker.oom needs cluster.memory, the memory that is used up"


class DiskFill(FaultSpec):
    """Fill a broker's disk (set cluster.disk); healed by freeing space, and by a start if the broker went down."""

    targets = ONE_BROKER
    needs = frozenset({"fill_disk", "start"})
    kind: Literal["disk.fill"]
    free: Size = Field(0, description="bytes that are left")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the disk has a size."""
        yield from super().problems(setup, where)
        if setup.cluster.disk is None:
            yield f"{where}: disk.fill needs cluster.disk, the size of the disk that is filled"


ResourceFaults = BrokerThrottle | BrokerOom | DiskFill
