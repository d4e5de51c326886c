"""The steps of a migration from ZooKeeper to KRaft (KIP-866), as Kafka's documentation orders them, and the way back.

The rules for their order and for releases are in `chaos.scenario.migration_rules`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import FaultSpec
from chaos.units import Duration


class MigrationStep(FaultSpec):
    """One step of a migration. It stays; the heal starts nodes that a step that failed left down."""

    targets = frozenset({"all_brokers"})
    needs = frozenset({"stop", "start", "migrate"})


class BrokerRoll(MigrationStep):
    """A step that restarts all brokers."""

    between: Duration = Field(0, ge=0, description="time with brokers of two modes, before each next broker")


class MigrationProvision(MigrationStep):
    """Start dedicated KRaft controllers in migration mode, with the cluster id of the brokers; they stay.

    They get the node ids 101, 102, … and wait for the brokers.
    """

    kind: Literal["migration.provision"]
    controllers: int = Field(3, ge=1, le=9, description="number of controllers")


class MigrationEnter(BrokerRoll):
    """Restart the brokers one by one in migration mode; after the last one, the controllers copy the metadata.

    The active KRaft controller then controls the brokers, and writes each change to ZooKeeper as well; that stays.
    """

    kind: Literal["migration.enter"]


class MigrationSwitch(BrokerRoll):
    """Restart the brokers one by one as KRaft brokers, without ZooKeeper; the controllers go on writing to both.

    They stay KRaft brokers.
    """

    kind: Literal["migration.switch"]


class MigrationFinalize(MigrationStep):
    """Restart the controllers one by one without migration mode, and end ZooKeeper; the cluster stays in KRaft mode."""

    kind: Literal["migration.finalize"]


class MigrationRollback(BrokerRoll):
    """Go back to ZooKeeper from any step before the last: restart brokers, end the controllers, delete two znodes.

    With `refused: true`, after the migration is final, ZooKeeper starts again and one broker tries to go back, and has
    to fail; healed by its start as a KRaft broker and the end of ZooKeeper.
    """

    needs = BrokerRoll.needs | {"kill"}
    kind: Literal["migration.rollback"]
    refused: bool = Field(False, description="the migration is final, so the way back has to be refused")
