"""Who held which partition from when to when, and how transactions ended, as clients and coordinators said.

| protocol | a hold begins with                                 | and ends with                                        |
|----------|----------------------------------------------------|------------------------------------------------------|
| classic  | the answer to SyncGroup                            | the next JoinGroup; with a cooperative assignor, the |
|          |                                                    | next answer to SyncGroup without it                  |
| KIP-848  | the answer to a heartbeat with an assignment       | the next request with `owned` without it             |
| both     |                                                    | LeaveGroup, or an answer by which the member is none |
| none     | the first Fetch of an instance that is in no group | the end of the process                               |

A member that dies says nothing: its holds end with its process. A transaction begins with its first request: with
transactions of version 2 (KIP-890), that is the first Produce of its epoch. It ends with the first EndTxn that is
answered without an error; what is sent after it belongs to the next one. An InitProducerId of its transactional id
aborts it (KIP-98). An end that is not answered, or is refused, is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

NOT_A_MEMBER = (22, 25, 82, 110)
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH."""
COOPERATIVE = ("cooperative", "stream")
"""Parts of names of assignors with which a member keeps its partitions while it joins (KIP-429)."""
OPEN_US = 1 << 62
Partition = tuple[str, int]
Row = Mapping[str, Any]


@dataclass
class Hold:
    """A partition that an instance held. how: revoked, lost, or empty if it ended with the process, or not at all.

    sought: the offset of the seek with which this part of a hold begins. number: of the hold among the holds of its
    process on the partition, which `checks.wire.partition` gives.
    """

    instance: str
    incarnation: int
    group: str | None
    mode: str
    member: str | None
    static: str | None
    generation: int | None
    begin_us: int
    end_us: int = OPEN_US
    how: str = ""
    sought: int | None = None
    number: int = 0


@dataclass
class Holds:
    """The holds by partition, the instances that are members of groups, groups of unknown assignments, and the share
    group of each instance."""

    of: dict[Partition, list[Hold]] = field(default_factory=lambda: defaultdict(list))
    members: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    shares: dict[str, str] = field(default_factory=dict)


def holds(rows: Iterable[Row], lived: Callable[[str, int], int]) -> Holds:
    """Return what members of groups held. rows: of table `membership`; lived: the incarnation at a time."""
    found = Holds()
    by_member: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["call"] == "ShareGroupHeartbeat":
            found.shares[row["instance"]] = row["group"]
        else:
            by_member[row["instance"], row["group"]].append(row)
    for (instance, group), calls in sorted(by_member.items()):
        found.members.add(instance)
        in_order = sorted(calls, key=lambda row: (row["asked_us"], row["connection"], row["number"]))
        for of_member in _by_member(in_order):
            member = _Member(instance, group, found, lived)
            for row in of_member:
                member.add(row)
    return found


def _by_member(calls: list[Row]) -> list[list[Row]]:
    """Divide the calls of an instance in a group by member: an application may have one in each of its threads.

    A member may get another id. An id that comes after the last call with another one is of the same member; ids that
    take turns are of several.
    """
    # the first call of a member may have no id, and an answer to it gives one
    ids = [row["member_id"] or row["given_member_id"] or f"? {n}" for n, row in enumerate(calls)]
    last = {own: n for n, own in enumerate(ids)}
    members: list[list[Row]] = []
    current: list[str] = []
    for n, (own, row) in enumerate(zip(ids, calls, strict=True)):
        if own not in current:
            over = next((at for at, other in enumerate(current) if last[other] < n), None)
            if over is None:
                current.append(own)
                members.append([])
            else:
                current[over] = own
        members[current.index(own)].append(row)
    return members


def leaves(row: Row) -> bool:
    """Return whether a member leaves its group.

    Where heartbeats have epochs, it does so with a negative one (KIP-848, KIP-932).
    """
    beats = row["call"] in ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat")
    return row["call"] == "LeaveGroup" or (beats and (row["generation"] or 0) < 0)


class _Member:
    """The holds of one instance in one group."""

    def __init__(self, instance: str, group: str, found: Holds, lived: Callable[[str, int], int]) -> None:
        self._instance, self._group, self._found, self._lived = instance, group, found, lived
        self._held: dict[Partition, Hold] = {}
        self._life, self._protocol, self._member = 0, "", None

    def add(self, row: Row) -> None:
        """Add a request and its answer."""
        asked_us, answered_us = row["asked_us"], row["answered_us"]
        if (life := self._lived(self._instance, asked_us)) != self._life:
            self._life, self._held = life, {}  # they ended with the process
        self._member = row["given_member_id"] or row["member_id"] or self._member
        call, error = row["call"], row["error"]
        if call == "JoinGroup" and not any(part in self._protocol for part in COOPERATIVE):
            self._end(self._held, asked_us, "revoked")
        if left := leaves(row):
            self._end(self._held, asked_us, "revoked")
        elif row["owned"] is not None:  # a heartbeat of KIP-848
            owned = _partitions(row["owned"])
            self._end([p for p, hold in self._held.items() if p not in owned and hold.how], asked_us, "revoked")
        if error in NOT_A_MEMBER:
            self._end(self._held, answered_us, "lost")
        self._protocol = row["protocol"] or self._protocol
        if error == 0 and not left:
            self._assign(row, answered_us)

    def _assign(self, row: Row, at_us: int) -> None:
        if row["assigned"] is None:
            if row["call"] == "SyncGroup":
                self._found.unread.add(self._group)
            return
        wanted, classic = _partitions(row["assigned"]), row["call"] == "SyncGroup"
        gone = [p for p in self._held if p not in wanted]
        if classic:
            self._end(gone, at_us, "revoked")
        for partition in gone if not classic else ():  # a member of KIP-848 says later that it has given them up
            self._held[partition].how = "revoked"
        for partition in sorted(wanted - self._held.keys()):
            generation = row["generation"] if classic else row["given_generation"]
            hold = Hold(
                *(self._instance, self._life, self._group, "subscribe", self._member, row["instance_id"]),
                *(generation, at_us),
            )
            self._held[partition] = hold
            self._found.of[partition].append(hold)

    def _end(self, partitions: Iterable[Partition], at_us: int, how: str) -> None:
        for partition in list(partitions):
            hold = self._held.pop(partition)
            hold.end_us, hold.how = at_us, how


def _partitions(topics: Iterable[Any]) -> set[Partition]:
    return {(topic["topic"], number) for topic in topics if topic["topic"] for number in topic["partitions"]}


Sessions = Mapping[tuple[str, int, int], tuple[list[int], list[int], list[str]]]
"""By instance, incarnation and producer id: when its transactions had ended, ascending, their numbers and outcomes."""


def transactions(
    rows: Iterable[Row], lived: Callable[[str, int], int], sent: Mapping[tuple[str, int, int], int]
) -> tuple[list[dict[str, Any]], Sessions]:
    """Return the rows of table `transactions` of the ledger, and the ends of transactions.

    rows: of table `transactions` of the wire; lived: the incarnation of an instance at a time; sent: when the first
    Produce in a transaction was sent, by instance, producer id and epoch.
    """
    by_producer: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    begins: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    epochs: dict[tuple[str, int, int], dict[int, int]] = defaultdict(dict)
    for (instance, producer, epoch), at_us in sent.items():
        key = instance, lived(instance, at_us), producer
        epochs[key][epoch], by_producer[key] = at_us, []
    for row in sorted(rows, key=lambda row: (row["asked_us"], row["connection"], row["number"])):
        life = lived(row["instance"], row["asked_us"])
        if row["call"] == "InitProducerId":
            begins[row["instance"], life, row["transactional_id"]].append(row)
        else:
            by_producer[row["instance"], life, row["producer_id"]].append(row)
    found: list[dict[str, Any]] = []
    numbers: dict[tuple[str, int], int] = defaultdict(int)
    sessions: dict[tuple[str, int, int], tuple[list[int], list[int], list[str]]] = {}
    for (instance, life, producer), calls in sorted(by_producer.items()):
        times, own, outcomes = sessions.setdefault((instance, life, producer), ([], [], []))
        inits = begins[instance, life, calls[0]["transactional_id"]] if calls else []
        in_order = sorted([*calls, *inits], key=lambda row: row["asked_us"])
        for ended in _ended(in_order, epochs[instance, life, producer]):
            number = numbers[instance, life] = numbers[instance, life] + 1
            found.append({"producer": instance, "incarnation": life, "txn": number} | ended)
            times.append(ended["ended_us"])
            own.append(number)
            outcomes.append(ended["outcome"])
        numbers[instance, life] += 1  # the one that may be open at the end
        times.append(OPEN_US)
        own.append(numbers[instance, life])
        outcomes.append("unknown")
    return found, sessions


def _ended(calls: Iterable[Row], sent: dict[int, int]) -> Iterator[dict[str, Any]]:
    """Yield the ends of transactions of one producer, from its calls in their order.

    sent: when its first Produce was sent, by epoch; an epoch is removed when its transaction has ended.
    """
    began_us = requested_us = last_us = None
    for row in calls:
        if row["call"] == "InitProducerId":
            begun = [at_us for at_us in (began_us, *sent.values()) if at_us is not None and at_us < row["asked_us"]]
            if row["error"] == 0 and begun:
                outcome, ended_us = "unknown" if requested_us is not None else "aborted", row["answered_us"]
                requested_us = row["asked_us"] if requested_us is None else requested_us
                yield {"outcome": outcome, "began_us": min(begun), "ended_us": ended_us, "requested_us": requested_us}
                began_us = requested_us = last_us = None
                sent = {epoch: at_us for epoch, at_us in sent.items() if at_us > ended_us}
            continue
        if began_us is None:
            began_us = min(row["asked_us"], sent.get(row["producer_epoch"], row["asked_us"]))
        if row["call"] != "EndTxn":
            continue
        requested_us = row["asked_us"] if requested_us is None else requested_us
        last_us = row["answered_us"] or row["asked_us"]
        if row["error"] == 0:
            outcome = "committed" if row["committed"] else "aborted"
            yield {"outcome": outcome, "began_us": began_us, "ended_us": last_us, "requested_us": requested_us}
            began_us = requested_us = last_us = None
            sent.pop(row["producer_epoch"], None)
    if requested_us is not None:
        yield {"outcome": "unknown", "began_us": began_us, "ended_us": last_us, "requested_us": requested_us}
