"""The base of the steps of a migration from ZooKeeper to KRaft: restarts one by one, and the proof of dual writes."""

from __future__ import annotations

import time
from functools import partial
from typing import TypeVar

from chaos.cluster.api import Start, Stop, able
from chaos.cluster.migration import Migrate, Mode
from chaos.faults import migration_state as reported
from chaos.faults import targets
from chaos.faults.base import World
from chaos.faults.brokers import IN_SYNC_TIMEOUT_S, OneByOne
from chaos.faults.targets import start_down
from chaos.faults.upgrades import named
from chaos.run.events import now_us
from chaos.scenario.faults import migration as specs

S = TypeVar("S", bound=specs.MigrationStep)
R = TypeVar("R", bound=specs.BrokerRoll)

COPY_TIMEOUT_S = 60.0
"""Time for the controllers to copy the metadata, and for brokers in ZooKeeper mode to elect a controller."""


class Step(OneByOne[S]):
    """A step of the migration, which stays. Its heal starts the nodes that it left down."""

    lasting = "the step stays"
    _steps: list[dict[str, object]]

    def _begin(self, world: World) -> None:
        """Wait until all replicas are in sync, and mark the begin."""
        self.resolved = named(world.cluster.node_ids, world)
        self._wait_in_sync("before the step", world)
        self.evidence["steps"] = self._steps = []
        self.begun = True

    def _restart(self, node: int, mode: Mode, world: World) -> None:
        """Restart a node in a mode, and note the times of its steps in seconds."""
        cluster, name, began = world.cluster, targets.node_name(node, world), time.monotonic()
        able(cluster, Migrate).set_mode(node, mode)
        if cluster.broker_alive(node):  # another fault may have killed it
            able(cluster, Stop).stop_broker(node)
        if node in cluster.broker_ids:
            targets.answer(partial(_leads_nothing, node, world), f"{name} still leads", IN_SYNC_TIMEOUT_S)
        down, down_us = time.monotonic(), now_us()
        able(cluster, Start).start_broker(node)
        ready = time.monotonic()
        self._wait_in_sync(f"after the restart of {name} in the mode {mode}", world)
        times = {"stop_s": down - began, "start_s": ready - down, "sync_s": time.monotonic() - ready}
        rounded = {key: round(seconds, 2) for key, seconds in times.items()}
        self._steps.append({"node": name, "mode": mode, "down_us": down_us, **rounded})

    def _all(self, mode: Mode, world: World) -> bool:
        """Return whether every broker describes this mode, and all replicas are in sync."""
        found = reported.modes(world)
        return found is not None and set(found.values()) == {mode} and not self._out_of_sync(world)

    def _undo(self, world: World) -> str:
        start_down(world.cluster.node_ids, world)
        return f"{self.resolved}: {self.lasting}"


class Roll(Step[R]):
    """A step that restarts all brokers one by one."""

    def _roll(self, mode: Mode, world: World) -> None:
        """Restart all brokers in a mode. Raises `FaultError` if one does not get in sync."""
        for i, broker in enumerate(world.cluster.broker_ids):
            if i:
                time.sleep(self.spec.between)
            self._wait_in_sync(f"before the restart of broker {broker}", world)
            self._restart(broker, mode, world)

    def _dual_write(self, world: World) -> str | None:
        """Return the proof that a KRaft controller controls the cluster and writes to ZooKeeper; None without it."""
        active, progress = targets.active_controller(world), reported.progress(world)
        if active is None or progress is None or reported.controlling(world) != active[0]:
            return None
        leaders = reported.leaders(world)
        if not leaders or any(reported.leader_in_zookeeper(p, world) != leader for p, leader in leaders.items()):
            return None
        return (
            f"ZooKeeper names controller {active[0]}, which is active in epoch {active[1]}, and has the leaders and "
            f"leader epochs of all {len(leaders)} partitions, up to offset {progress['kraft_metadata_offset']}"
        )


def logged_by(pattern: str, world: World) -> list[int]:
    """Return the controllers that logged a pattern since their last start."""
    return [node for node in world.cluster.controller_ids if able(world.cluster, Migrate).logged(node, pattern)]


def _leads_nothing(broker: int, world: World) -> bool:
    """Return whether no partition has this broker as its leader.

    Brokers in migration mode go on to list a broker that ended, so the list of brokers does not show it.
    """
    metadata = world.kafka.metadata()
    return metadata is not None and all(state.leader != broker for state in metadata.partitions.values())
