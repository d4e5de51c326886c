"""The migration of a cluster from ZooKeeper to KRaft, step by step under load.

`chaos.faults.migration_rollback` goes back. `chaos.faults.migration_state` reads what the nodes and ZooKeeper report,
which proves each step.
"""

from __future__ import annotations

import time
from functools import partial

from chaos.cluster.api import able
from chaos.cluster.migration import Migrate
from chaos.faults import migration_state as reported
from chaos.faults import targets
from chaos.faults.base import World
from chaos.faults.controllers import MIN_BEHIND, PROBE_S
from chaos.faults.migration_steps import COPY_TIMEOUT_S, Roll, Step, logged_by
from chaos.faults.upgrades import describe, named, supported
from chaos.kafka import admin
from chaos.kafka.features import METADATA_VERSION
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import migration as specs

COPIED = r"(?i)completed migration of metadata from zookeeper to kraft"
FINAL = r"POST_MIGRATION"


class MigrationProvision(Step[specs.MigrationProvision], spec=specs.MigrationProvision):
    """New controllers. Proof: all answer, one of them is active, and ZooKeeper names a broker as the controller."""

    def _inject(self, world: World) -> str:
        self._begin(world)
        began = time.monotonic()
        config = world.scenario.cluster.config
        nodes = able(world.cluster, Migrate).provision_controllers(self.spec.controllers, config)
        self.resolved = named(nodes, world)
        return f"started {self.resolved} in migration mode in {time.monotonic() - began:.1f} s"

    def _effect(self, world: World) -> str | None:
        beliefs, broker = targets.beliefs(world), reported.controlling(world)
        active = targets.active_controller(world)
        if active is None or None in beliefs.values() or broker not in world.cluster.broker_ids:
            return None
        return (
            f"controller {active[0]} is active in epoch {active[1]}, the others answer that they are not, and "
            f"ZooKeeper names broker {broker} as the controller of the cluster"
        )


class MigrationEnter(Roll[specs.MigrationEnter], spec=specs.MigrationEnter):
    """Brokers in migration mode. Proof: each broker describes it, and a controller logged that the metadata is copied.

    ZooKeeper names the active KRaft controller as the controller of the cluster, and has the leader epoch of each
    partition of the run's topics.
    """

    _copied_by: int = 0

    def _inject(self, world: World) -> str:
        """Restart all brokers, and wait until the metadata is copied. Raises `FaultError` if it is not."""
        self._begin(world)
        self._roll("migration", world)
        ready = time.monotonic()

        why = "no controller logs that the metadata is copied"
        (self._copied_by, *_) = targets.answer(partial(logged_by, COPIED, world), why, COPY_TIMEOUT_S)
        self._wait_in_sync("after the copy of the metadata", world)
        self.evidence["copy_s"] = round(time.monotonic() - ready, 2)
        return (
            f"restarted all brokers in migration mode; controller {self._copied_by} copied the metadata "
            f"{self.evidence['copy_s']} s after the last one was in sync: {describe(self._steps)}"
        )

    def _effect(self, world: World) -> str | None:
        copied = self._copied_by and self._all("migration", world)
        proof = self._dual_write(world) if copied else None
        logged = f"controller {self._copied_by} logged the end of the copy"
        return f"every broker describes the migration mode; {logged}; {proof}" if proof else None


class MigrationSwitch(Roll[specs.MigrationSwitch], spec=specs.MigrationSwitch):
    """KRaft brokers. Proof: each broker describes process.roles and no ZooKeeper, and a later leader is in ZooKeeper.

    The restarts changed leaders, and ZooKeeper has the leader epoch of each partition of the run's topics.
    """

    _before: dict[TopicPartition, reported.Leader]
    """The leaders before the step."""

    def _inject(self, world: World) -> str:
        self._begin(world)
        self._before = reported.leaders(world)
        self._roll("kraft", world)
        return f"restarted all brokers in KRaft mode: {describe(self._steps)}"

    def _effect(self, world: World) -> str | None:
        if not self._all("kraft", world) or (proof := self._dual_write(world)) is None:
            return None
        now = reported.leaders(world)
        changed = sum(now.get(name, leader)[1] > leader[1] for name, leader in self._before.items())
        return f"every broker describes the KRaft mode; {proof}; {changed} epochs are new" if changed else None


class MigrationFinalize(Step[specs.MigrationFinalize], spec=specs.MigrationFinalize):
    """No migration mode. Proof: ZooKeeper is gone, and the controllers, active in a later epoch, logged the last state.

    Every broker returns the same final metadata.version, a request for a new topic is checked, and records are
    acknowledged if producers still send.
    """

    lasting = "there is no way back"
    _epochs: tuple[int, int] = 0, 0
    _acked: int = 0
    """The records that were acknowledged when ZooKeeper ended."""

    def _inject(self, world: World) -> str:
        """Restart the controllers, the active one last, and end ZooKeeper. Raises `FaultError` or `ClusterError`."""
        self._begin(world)
        self.resolved = named(world.cluster.controller_ids, world)
        active, before = targets.controller(world)
        for node in sorted(world.cluster.controller_ids, key=lambda node: (node == active, node)):
            self._restart(node, "kraft", world)
            targets.answer(partial(_all_follow, world), f"not all of {self.resolved} follow", COPY_TIMEOUT_S)
        _, after = targets.controller(world)
        self._epochs = before, after
        why = f"none of {self.resolved} logs that the migration is final"
        targets.answer(partial(logged_by, FINAL, world), why, COPY_TIMEOUT_S)
        able(world.cluster, Migrate).end_zookeeper()
        self._acked = world.fleet.total_acked()
        return f"restarted {self.resolved} without migration mode, and ended ZooKeeper: {describe(self._steps)}"

    def _effect(self, world: World) -> str | None:
        answered = [supported(broker, world) for broker in world.cluster.broker_ids]
        levels = {s.finalized.get(METADATA_VERSION, 0) if s else 0 for s in answered}
        final, active = logged_by(FINAL, world), targets.active_controller(world)
        if not final or active is None or self._epochs[0] >= self._epochs[1] or len(levels) > 1 or 0 in levels:
            return None
        if able(world.cluster, Migrate).zookeeper_answers() or not self._all("kraft", world):
            return None
        acked = world.fleet.total_acked() - self._acked
        if not (acked or world.fleet.producers_done()) or not admin.accepts_changes(world.kafka, PROBE_S):
            return None
        return (
            f"ZooKeeper does not answer, controller {final[0]} logged the state {FINAL}, controller {active[0]} is "
            f"active in epoch {active[1]} (before: {self._epochs[0]}), and every broker returns {METADATA_VERSION} "
            f"{levels.pop()} as final; {acked:,} records were acknowledged without ZooKeeper"
        )


def _all_follow(world: World) -> bool:
    """Return whether every controller answers, one is active, and all have read the metadata log."""
    quorum = world.kafka.quorum()
    if quorum is None or None in targets.beliefs(world).values():
        return False
    end = quorum.ends.get(quorum.leader, 0) - MIN_BEHIND
    return set(quorum.ends) == set(world.cluster.controller_ids) and all(e > end for e in quorum.ends.values())
