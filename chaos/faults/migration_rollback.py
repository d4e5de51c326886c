"""The way back of a migration from ZooKeeper to KRaft, and its refusal after the last step."""

from __future__ import annotations

import time
from functools import partial

from chaos.cluster.api import able
from chaos.cluster.migration import Migrate
from chaos.errors import ClusterError, FaultError
from chaos.faults import migration_state as reported
from chaos.faults import targets
from chaos.faults.base import World
from chaos.faults.brokers import is_gone
from chaos.faults.migration_steps import COPY_TIMEOUT_S, Roll
from chaos.faults.targets import start_down
from chaos.faults.upgrades import describe, named
from chaos.scenario.faults import migration as specs

REFUSED = r"(?i)BROKER_ID_NOT_REGISTERED|does not support registering zk brokers"


class MigrationRollback(Roll[specs.MigrationRollback], spec=specs.MigrationRollback):
    """The way back. Proof: each broker describes ZooKeeper and no migration, and ZooKeeper names one as the controller.

    The controllers are gone, and so is the progress of the migration in ZooKeeper. With `refused: true`: the broker is
    down, and its log, or that of a controller, names the refusal.
    """

    _refusal = ""
    _entered: bool
    """Whether brokers had begun to migrate."""

    def _inject(self, world: World) -> str:
        """Go back from the last step that was done. Raises `FaultError` or `ClusterError`."""
        if self.spec.refused:
            return self._try(world)
        found = targets.answer(lambda: reported.modes(world), "not every broker describes its mode")
        self._begin(world)
        removed = named(world.cluster.controller_ids, world)
        if "kraft" in found.values():
            self._roll("migration", world)
        began = time.monotonic()
        cluster, self._entered = able(world.cluster, Migrate), set(found.values()) != {"zookeeper"}
        cluster.remove_controllers()
        if self._entered:  # a controller that only waited for the brokers did not write to ZooKeeper
            self.evidence["progress"] = cluster.znode(reported.PROGRESS)
        for path in (reported.CONTROLLER, reported.PROGRESS) if self._entered else ():
            cluster.delete_znode(path)
        targets.answer(partial(_broker_controls, world), "no broker became the controller", COPY_TIMEOUT_S)
        self.evidence["without_controller_s"] = without_s = round(time.monotonic() - began, 2)
        if self._entered:
            self._roll("zookeeper", world)
        self.resolved = named(world.cluster.broker_ids, world)
        return f"removed {removed}; a broker controlled the cluster after {without_s} s; {describe(self._steps)}"

    def _effect(self, world: World) -> str | None:
        if self.spec.refused:
            return self._refused(world)
        broker = reported.controlling(world)
        if world.cluster.controller_ids or broker not in world.cluster.broker_ids:
            return None
        if (self._entered and reported.progress(world)) or not self._all("zookeeper", world):
            return None
        return (
            "every broker describes ZooKeeper and no migration, the controllers are gone, and ZooKeeper names broker "
            f"{broker} as the controller of the cluster{' and no migration' * self._entered}"
        )

    def _try(self, world: World) -> str:
        """Start the first broker as before the switch. Raises `FaultError` if it gets ready."""
        cluster, broker = able(world.cluster, Migrate), world.cluster.broker_ids[0]
        self._begin(world)
        self.resolved = f"broker {broker}"
        cluster.lend_zookeeper(True)
        try:
            self._restart(broker, "migration", world)
        except ClusterError as e:
            self._refusal = str(e)
            return f"broker {broker} in migration mode instead of KRaft mode: {e}"
        raise FaultError(f"broker {broker} runs with ZooKeeper, which should have been refused")

    def _refused(self, world: World) -> str | None:
        (broker,) = world.cluster.broker_ids[:1]
        if not self._refusal or world.cluster.broker_alive(broker) or not is_gone(broker, world):
            return None
        cluster = able(world.cluster, Migrate)
        found = [(node, text) for node in world.cluster.node_ids if (text := cluster.logged(node, REFUSED))]
        return f"{self.resolved} did not start: {found[0][1]}" if found else None

    def _undo(self, world: World) -> str:
        """Start what is down; after a refused attempt, as it was before."""
        if self.spec.refused:
            cluster = able(world.cluster, Migrate)
            cluster.set_mode(world.cluster.broker_ids[0], "kraft")
            start_down(world.cluster.node_ids, world)
            cluster.lend_zookeeper(False)
            return f"{self.resolved} runs in KRaft mode, and ZooKeeper has ended again"
        return super()._undo(world)


def _broker_controls(world: World) -> bool:
    """Return whether ZooKeeper names a broker as the controller."""
    return reported.controlling(world) in world.cluster.broker_ids
