"""Changes of the brokers' release, one broker after another, and of the cluster's features.

The rules for their order and for pairs of releases are in `chaos.scenario.release_rules`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from chaos.scenario.faults.base import FaultSpec
from chaos.units import Duration, Release


class ReleaseChange(FaultSpec):
    """Another release for the brokers."""

    run_only = "the releases that a run installs"
    targets = frozenset({"all_brokers", "broker"})
    needs = frozenset({"stop", "kill", "start", "change_release"})
    to: Release = Field(description="Apache Kafka release")
    shutdown: Literal["controlled", "kill"] = Field("controlled", description="how each broker ends; kill: SIGKILL")
    between: Duration = Field(0, ge=0, description="time with two releases in the cluster, before each next broker")


class ClusterUpgrade(ReleaseChange):
    """Restart brokers one by one with a newer release, each after all replicas are in sync; they keep the release.

    Healed by a start of a broker that is down, with its former release if it did not start with the new one.
    """

    kind: Literal["cluster.upgrade"]


class ClusterDowngrade(ReleaseChange):
    """Restart brokers one by one with an older release, before its features are raised; they keep the release.

    Healed as an upgrade. With `refused: true`, one broker tries the release, and has to fail; healed by its former one.
    """

    kind: Literal["cluster.downgrade"]
    refused: bool = Field(False, description="the features are final, so the older release has to be refused")


class ClusterFinalize(FaultSpec):
    """Raise the features to those of the brokers' release, as kafka-features.sh upgrade does; they stay.

    With ZooKeeper: restart the brokers one by one with inter.broker.protocol.version of their release.
    """

    run_only = "the releases that a run installs"
    targets = frozenset({"all_brokers"})
    needs = frozenset({"stop", "start", "change_release"})
    kind: Literal["cluster.finalize"]
    features: dict[str, Annotated[int, Field(ge=0)]] = Field(
        {}, description="level by feature, such as group.version: 1; if left out: those of the release, see below"
    )
