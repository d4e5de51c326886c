"""Faults of brokers that any driver of processes can do."""

from __future__ import annotations

from typing import Literal

from chaos.scenario.faults.base import BROKER_TARGETS, ONE_BROKER, FaultSpec


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
