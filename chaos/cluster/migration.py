"""The capability to migrate a cluster from ZooKeeper to KRaft (KIP-866); `chaos.cluster.api` has the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from chaos.install.cache import Progress
    from chaos.kafka.settings import Scalar

Mode = Literal["zookeeper", "migration", "kraft"]
"""zookeeper: as it was deployed; migration: with ZooKeeper, and registered in the quorum, too; kraft: without it."""


@runtime_checkable
class Migrate(Protocol):
    """Migration of the metadata from ZooKeeper to KRaft, step by step, and back."""

    def prepare_migration(self, release: str, on_progress: Progress) -> None:
        """Prepare a release for nodes without ZooKeeper, so that their first start is quick."""

    def provision_controllers(self, count: int, config: Mapping[str, Scalar]) -> list[int]:
        """Add dedicated controllers in migration mode with these settings, start them, and return their node IDs."""

    def remove_controllers(self) -> None:
        """End the dedicated controllers, and remove them with their data."""

    def set_mode(self, node: int, mode: Mode) -> None:
        """Let the next start of a node have the settings of this mode."""

    def znode(self, path: str) -> str | None:
        """Return the data of a znode; None if it does not exist."""

    def delete_znode(self, path: str) -> None:
        """Delete a znode; do nothing if it does not exist."""

    def logged(self, node: int, pattern: str) -> str | None:
        """Return the last text that matches a pattern in the log of a node since its last start; None without one."""

    def end_zookeeper(self) -> None:
        """End ZooKeeper for good: the cluster is one of KRaft."""

    def zookeeper_answers(self) -> bool:
        """Return whether ZooKeeper answers, also after its end."""

    def lend_zookeeper(self, running: bool) -> None:
        """Start the ended ZooKeeper with its data for an attempt to go back, or end it again."""
