"""The way back of a migration from ZooKeeper to KRaft, and its refusal after the last step."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from chaos.cluster.api import Kill, able
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
from chaos.wait import wait_until

REFUSED = r"Unable to register broker \d+ because the controller returned error BROKER_ID_NOT_REGISTERED"
"""The line of a broker that asks the controllers to register it with ZooKeeper, which they no longer do."""
REFUSAL_TIMEOUT_S = 120.0
SENDER = r"UpdateMetadata request sent by controller \d+"
"""A line of each broker that names the controller with ZooKeeper, or, while it migrates, the KRaft controller."""


class MigrationRollback(Roll[specs.MigrationRollback], spec=specs.MigrationRollback):
    """The way back. Proof: each broker describes ZooKeeper and no migration, and ZooKeeper names one as the controller.

    The controllers are gone, and so is the progress of the migration in ZooKeeper. With `refused: true`: the broker
    logged that the controllers refused to register it, and is down.
    """

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
            why = "not every broker has metadata of the new controller"
            targets.answer(partial(_all_follow, world), why, COPY_TIMEOUT_S)
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
        """Start the first broker as before the switch, until it is refused. Raises `FaultError` if it gets ready."""
        cluster, broker = able(world.cluster, Migrate), world.cluster.broker_ids[0]
        self._begin(world)
        self.resolved = f"broker {broker}"
        cluster.lend_zookeeper(True)
        with ThreadPoolExecutor(1) as pool:
            start = pool.submit(self._restart, broker, "migration", world)
            why = f"broker {broker} is neither ready nor refused"
            wait_until(lambda: start.done() or self._refusal(world), REFUSAL_TIMEOUT_S, why, error=FaultError)
            if not start.done():  # it would go on to ask the controllers
                able(world.cluster, Kill).kill_broker(broker)
            failure = start.exception()
        if failure is None:
            raise FaultError(f"broker {broker} runs with ZooKeeper, which should have been refused")
        if not isinstance(failure, ClusterError):
            raise failure
        return f"started broker {broker} in migration mode instead of KRaft mode, and ended it when it was refused"

    def _refusal(self, world: World) -> str | None:
        """Return the refusal that the broker logged since its last start."""
        return able(world.cluster, Migrate).logged(world.cluster.broker_ids[0], REFUSED)

    def _refused(self, world: World) -> str | None:
        (broker,) = world.cluster.broker_ids[:1]
        refusal = self._refusal(world)
        if refusal is None or world.cluster.broker_alive(broker) or not is_gone(broker, world):
            return None
        return f"the controllers refused {self.resolved}, which is down: {refusal}"

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


def _all_follow(world: World) -> bool:
    """Return whether each broker has metadata of a broker that controls the cluster.

    Until then its shutdown asks the KRaft controllers for permission, for up to 5 minutes (Kafka's
    `KafkaServer.controlledShutdown`).
    """
    cluster = able(world.cluster, Migrate)
    senders = (cluster.logged(broker, SENDER) for broker in world.cluster.broker_ids)
    return all(sender and int(sender.split()[-1]) in world.cluster.broker_ids for sender in senders)
