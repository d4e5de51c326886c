"""The members of groups by the records of `__consumer_offsets`: who could commit at a moment of the log."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from chaos.kafka.schemas import ConsumerGroupMemberMetadataValue, GroupMetadataValue

CLASSIC, GROUP, MEMBER, FIRST_STREAMS = 2, 3, 5, 17
"""Versions of keys: a classic group with all its members; a group and a member of KIP-848; groups of KIP-1071."""
Owned = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Member:
    """A member. owned: its partitions in a classic group; None if the record does not have them."""

    id: str
    client: str
    host: str
    owned: Owned | None = None

    def __str__(self) -> str:
        return f"{self.client or self.id} at {self.host.removeprefix('/')}"


@dataclass(frozen=True)
class GroupRecord:
    """A record about members. members: all of a classic group, the one of a `member` record, none of a tombstone."""

    kind: Literal["classic", "group", "member", "streams"]
    group: str
    log_offset: int
    at_us: int
    members: tuple[Member, ...] = ()
    member: str = ""
    generation: int | None = None


def group_record(record: Any) -> GroupRecord | None:
    """Return what a record says about members; None for another record, or one that is damaged."""
    try:
        return _parsed(record)
    except (struct.error, ValueError, IndexError, EOFError, UnicodeDecodeError, TypeError):
        return None


def _parsed(record: Any) -> GroupRecord | None:
    (version,) = struct.unpack_from(">h", record.key or b"\xff\xff")
    if version not in (CLASSIC, GROUP, MEMBER) and version < FIRST_STREAMS:
        return None
    group, at = _text(record.key, 2)
    where = group, record.offset, record.timestamp * 1000
    if version >= FIRST_STREAMS:
        return GroupRecord("streams", *where)
    if version == GROUP:
        return GroupRecord("group", *where, generation=None if record.value is None else 0)
    if version == MEMBER:
        name, _ = _text(record.key, at)
        found = ConsumerGroupMemberMetadataValue.decode(record.value) if record.value else None
        joined = (Member(name, found.client_id, found.client_host),) if found else ()
        return GroupRecord("member", *where, members=joined, member=name)
    if record.value is None:
        return GroupRecord("classic", *where)
    value = GroupMetadataValue.decode(record.value)
    members = tuple(Member(m.member_id, m.client_id, m.client_host, _owned(m.assignment)) for m in value.members)
    return GroupRecord("classic", *where, members=members, generation=value.generation)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length


def _owned(assignment: Any) -> Owned | None:
    """Return the partitions of an assignment; None if it is of another protocol than that of consumers."""
    try:
        found = ConsumerProtocolAssignment.decode(bytes(assignment)) if assignment else None
    except (struct.error, ValueError):
        return None
    return frozenset((t.topic, p) for t in found.assigned_partitions for p in t.partitions) if found else frozenset()


@dataclass
class Membership:
    """The members of one group while its records pass. complete_from: the log offset from which on all are known.

    ever: whether the group had a member before, as far as the log shows.
    """

    complete_from: int | None = None
    members: dict[str, Member] = field(default_factory=dict)
    generation: int | None = None
    changed_us: int | None = None
    ever: bool = False
    streams: bool = False

    def take(self, record: GroupRecord) -> None:
        """Take the next record of the group."""
        self.changed_us = record.at_us
        if record.kind == "streams":
            self.streams = True
        elif record.kind == "member":
            self.members.pop(record.member, None)
            self.members.update((m.id, m) for m in record.members)
        elif record.kind == "classic" or record.generation is None:  # complete, or the group is gone
            self.complete_from = record.log_offset
            self.members = {m.id: m for m in record.members}
            self.generation = record.generation
        self.ever |= bool(self.members) or bool(self.generation)

    def known(self, gap: int) -> Mapping[str, Member] | None:
        """Return the members at the current record; None if records about them may be missing.

        gap: the last offset up to which records may be missing; -1 if none are.
        """
        complete = gap < 0 or (self.complete_from is not None and self.complete_from > gap)
        return self.members if complete and not self.streams else None

    def who(self, gap: int, topic: str, partition: int) -> str:
        """Return who may have committed, as far as the log shows."""
        members = self.known(gap)
        if members is None:
            return "not known: records about the members before it are missing, or were not read"
        if not members:
            return "no member: a tool, or a client that assigns itself"
        if len(members) == 1:  # while a group has members, its coordinator refuses commits of anybody else
            return _listed(members.values())
        owners = [m for m in members.values() if m.owned is not None and (topic, partition) in m.owned]
        return f"its owner, or another member: {_listed(owners)}" if owners else f"one of {_listed(members.values())}"


def _listed(members: Iterable[Member]) -> str:
    named = sorted(map(str, members))
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return " or ".join(named[:3]) + more
