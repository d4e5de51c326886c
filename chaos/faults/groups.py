"""Faults of groups and their offsets, by an administrator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeVar

from pydantic import Field

from chaos.errors import FaultError
from chaos.faults.base import BY_ADMINISTRATOR, GROUP, Fault, FaultSpec, World
from chaos.kafka.partition import TopicPartition
from chaos.setup.model import Setup, unknown


class DeleteOffsetsSpec(FaultSpec):
    """Delete the committed offsets of a group that is not subscribed to any topic; they stay deleted."""

    effects = frozenset({"forgets"})
    left_out = BY_ADMINISTRATOR
    final = True
    premise = "a group that is not subscribed"
    targets = GROUP
    kind: Literal["group.delete_offsets"]


S = TypeVar("S", bound=FaultSpec)


class GroupFault(Fault[S]):
    """A fault of the committed offsets of a group."""

    _offsets: dict[TopicPartition, int]
    """The offsets that were deleted, or that were committed."""

    def _aim(self, world: World) -> None:
        self._group = str(self.spec.target.group)
        self.resolved = f"group {self._group}"

    def _partitions(self, world: World) -> list[TopicPartition]:
        return world.observer.partitions(topics_of(self._group, world))

    def _committed(self, world: World) -> dict[TopicPartition, int]:
        offsets = world.kafka.committed(self._group, self._partitions(world))
        if offsets is None:
            raise FaultError(f"the coordinator of group {self._group} does not return its committed offsets")
        if not offsets:
            raise FaultError(f"group {self._group} has no committed offset, so nothing can be deleted")
        return offsets


class DeleteOffsets(GroupFault[DeleteOffsetsSpec], spec=DeleteOffsetsSpec):
    """Committed offsets deleted. Proof: the coordinator returns none of them."""

    lasting = "its offsets stay deleted"

    def _inject(self, world: World) -> str:
        from chaos.kafka import admin

        offsets = self._committed(world)
        admin.delete_offsets(world.kafka, self._group, offsets)
        self._offsets, self.begun = offsets, True
        self.evidence["offsets"] = dict.fromkeys(map(str, offsets))
        return f"deleted {len(offsets)} committed offsets of {self._group}"

    def _effect(self, world: World) -> str | None:
        gone = world.kafka.committed(self._group, self._offsets) == {}
        return f"{self.resolved} has no committed offset any more" if gone else None


class ResetOffsetsSpec(FaultSpec):
    """Commit other offsets for a group without members, as kafka-consumer-groups --reset-offsets does; they stay."""

    effects = frozenset({"resets"})
    left_out = BY_ADMINISTRATOR
    final = True
    example = "to=earliest"
    premise = "a group without members"
    targets = GROUP
    kind: Literal["group.reset_offsets"]
    to: Literal["earliest", "latest"] | int = Field(description="earliest, latest, or an offset")


class ResetOffsets(GroupFault[ResetOffsetsSpec], spec=ResetOffsetsSpec):
    """Other offsets committed. Proof: the coordinator returns them."""

    lasting = "its offsets stay as they were reset"

    def _inject(self, world: World) -> str:
        from chaos.kafka import admin

        state = world.kafka.group(self._group)
        if state and state.members:
            number = f"{len(state.members)} member{'s' if len(state.members) > 1 else ''}"
            raise FaultError(
                f"group {self._group} still has {number}, and a coordinator sets offsets of an empty group only; let "
                "the fault come later: a member that did not leave stays until its session times out"
            )
        to, names = self.spec.to, self._partitions(world)
        offsets = world.kafka.start_offsets(names) if to == "earliest" else world.kafka.end_offsets(names)
        if set(offsets) != set(names):
            raise FaultError(f"not all of {', '.join(map(str, names))} return their offsets")
        if isinstance(to, int):
            offsets = dict.fromkeys(offsets, to)
        admin.commit(world.kafka, self._group, offsets)
        self._offsets, self.begun = offsets, True
        self.evidence["offsets"] = {str(name): offset for name, offset in offsets.items()}
        return f"reset {self._group} to {', '.join(f'{name}: {offset}' for name, offset in offsets.items())}"

    def _effect(self, world: World) -> str | None:
        reset = world.kafka.committed(self._group, self._offsets) == self._offsets
        return f"{self.resolved} has the offsets that it was reset to" if reset else None


class ResetShareOffsetsSpec(FaultSpec):
    """Set the start offsets of a share group without members, as kafka-share-groups --reset-offsets does; they stay."""

    effects = frozenset({"resets"})
    left_out = BY_ADMINISTRATOR
    run_only = "the share groups of a run"
    premise = "a group without members"
    targets = GROUP
    kind: Literal["share.reset_offsets"]
    to: Literal["earliest", "latest"] = Field(description="the start or the end of each partition")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a share group."""
        yield from unknown(f"{where}.target.group", str(self.target.group), "share groups", setup.share_groups)


class ResetShareOffsets(Fault[ResetShareOffsetsSpec], spec=ResetShareOffsetsSpec):
    """Other start offsets of a share group. Proof: the coordinator returns them."""

    lasting = "its start offsets stay as they were set"
    _starts: dict[TopicPartition, int]

    def _aim(self, world: World) -> None:
        self._group = str(self.spec.target.group)
        self.resolved = f"group {self._group}"

    def _inject(self, world: World) -> str:
        from chaos.kafka import admin

        topics = {topic for entry in world.scenario.shares if entry.group == self._group for topic in entry.topics}
        names = world.observer.partitions(topics)
        starts = world.kafka.start_offsets(names) if self.spec.to == "earliest" else world.kafka.end_offsets(names)
        if set(starts) != set(names):
            raise FaultError(f"not all of {', '.join(map(str, names))} return their offsets")
        self.evidence["offsets"] = {str(name): offset for name, offset in starts.items()}
        admin.alter_share_offsets(world.kafka, self._group, starts)
        self._starts, self.begun = starts, True
        return f"set {self._group} to {', '.join(f'{name}: {offset}' for name, offset in starts.items())}"

    def _effect(self, world: World) -> str | None:
        from chaos.kafka.client import share_positions

        found = share_positions(world.kafka, self._group, self._starts) or {}
        reset = {partition: at.start for partition, at in found.items()} == self._starts
        return f"{self.resolved} has the start offsets that it was set to" if reset else None


class DeleteGroupSpec(FaultSpec):
    """Delete a group without members, with all its offsets; it stays deleted until its members come back."""

    effects = frozenset({"forgets"})
    left_out = BY_ADMINISTRATOR
    final = True
    premise = "a group without members"
    targets = GROUP
    kind: Literal["group.delete"]


class DeleteGroup(GroupFault[DeleteGroupSpec], spec=DeleteGroupSpec):
    """A group deleted. Proof: its coordinator reports no such group, and no offset of it."""

    lasting = "it stays deleted until its members come back"

    def _inject(self, world: World) -> str:
        from chaos.kafka import admin

        offsets = self._committed(world)
        admin.delete_group(self._group).apply(world.kafka)
        self._offsets, self.begun = offsets, True
        return f"deleted {self.resolved} with {len(offsets)} committed offsets"

    def _effect(self, world: World) -> str | None:
        if world.kafka.committed(self._group, self._offsets) != {}:
            return None
        state = world.kafka.group(self._group)
        return f"{self.resolved} is {state.state} and has no committed offset" if state else None


def topics_of(group: str, world: World) -> set[str]:
    """Return the topics that the consumers, processors and applications of a group read."""
    names = [topic.name for topic in world.scenario.topics]
    own = {topic for c in world.scenario.readers if c.group == group for topic in c.topics_among(names)}
    return own | {topic for app in world.scenario.apps if group in app.groups for topic in app.reads}


FAULTS: dict[str, type[Fault[Any]]] = {
    "group.delete_offsets": DeleteOffsets,
    "group.reset_offsets": ResetOffsets,
    "share.reset_offsets": ResetShareOffsets,
    "group.delete": DeleteGroup,
}
