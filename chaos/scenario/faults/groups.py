"""Faults of consumer groups and their committed offsets: operations of an administrator, which every driver can do."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import FaultSpec

GROUP = frozenset({"group"})


class DeleteOffsets(FaultSpec):
    """Delete the committed offsets of a group that is not subscribed to any topic; they stay deleted."""

    targets = GROUP
    kind: Literal["group.delete_offsets"]


class ResetOffsets(FaultSpec):
    """Commit other offsets for a group without members, as kafka-consumer-groups --reset-offsets does; they stay."""

    targets = GROUP
    kind: Literal["group.reset_offsets"]
    to: Literal["earliest", "latest"] | int = Field(description="earliest, latest, or an offset")


class DeleteGroup(FaultSpec):
    """Delete a group without members, with all its offsets; it stays deleted until its members come back."""

    targets = GROUP
    kind: Literal["group.delete"]


GroupFaults = DeleteOffsets | ResetOffsets | DeleteGroup
