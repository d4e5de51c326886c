"""Outages of brokers (died, stopped, frozen, cut off, without a disk), and the losses of records that they cause.

The logs separate them as follows. A life that ends with `shutting down` was stopped. A life that ends abruptly, before
another one begins or while the controller fences the broker, died. A broker that was fenced within one life was frozen
if it wrote nothing meanwhile, else it was cut off. No log of a broker can show that its process was *killed*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from chaos.incident.logs import events as e
from chaos.incident.logs.broker_timeline import Life, Timeline
from chaos.incident.logs.cluster_state import internal
from chaos.incident.logs.entries import Entry, Source
from chaos.incident.logs.events import Event
from chaos.kafka.partition import TopicPartition

SOON_US = 5 * 10**6
"""Maximum time between a sign of the end and the last entry of a life."""
SAME_US = 500_000
"""Maximum time between two entries for one event, because of clocks and queues."""
SESSION_US = 9 * 10**6
"""Default of broker.session.timeout.ms in Kafka."""
SHUTDOWN_US = 120 * 10**6
"""Maximum length of a controlled shutdown."""
CUT_OFF_US = 30 * 10**6
"""Time around a removal in which failed connections of the broker explain it."""


class OutageKind(Enum):
    """Kind of an outage: a predicate for the user, the kind and the name of the fault, and an open question."""

    DIED = (
        "died",
        "broker.kill",
        "kill",
        "killed, out of memory, or a lost machine? The log of the broker cannot show it; see the kernel's",
    )
    STOPPED = "was stopped", "broker.stop", "stop", ""
    FROZEN = (
        "froze",
        "broker.pause",
        "pause",
        "a pause of the process (garbage collection, a frozen machine, a stuck disk) is assumed",
    )
    CUT_OFF = "was cut off", "broker.pause", "cut-off", ""
    DISK = "lost its disk", "disk.limit", "disk", ""
    REPLACED = (
        "is gone",
        "broker.kill",
        "kill",
        "a broker id that is generated, or a process that lost its disk?",
    )
    GONE = "was gone", "broker.kill", "kill", "died, stopped, or cut off? Only the log of the controller mentions it"


@dataclass(frozen=True)
class Outage:
    """One outage of a broker, from `at_us` to `back_us` (None: it does not return). `signs` are in order of time.

    `doubts` are notes for the user. `successor`: the id with which its process came back.
    """

    broker: int
    kind: OutageKind
    at_us: int
    back_us: int | None
    signs: tuple[Source, ...]
    doubts: tuple[str, ...] = ()
    successor: int | None = None


def find_outages(timeline: Timeline) -> list[Outage]:
    """Return all outages by time."""
    outages: list[Outage] = []
    for node, log in timeline.nodes.items():
        explained_us = 0
        for life, following in zip(log.lives, [*log.lives[1:], None], strict=True):
            if outage := _end_of(timeline, node, life, following, explained_us):
                outages.append(outage)
                # removals by the controller up to here belong to this outage, not to the next
                explained_us = (timeline.ended_us if outage.back_us is None else outage.back_us) + 2 * SOON_US
    outages += _removed_alive(timeline, outages)
    return sorted(outages, key=lambda outage: outage.at_us)


def _removals(timeline: Timeline, broker: int) -> list[Event]:
    """Return the events in which the controller removes a broker."""
    return [
        x
        for x in timeline.events
        if (isinstance(x, e.BrokerFenced) and x.broker == broker)
        or (isinstance(x, e.BrokersChanged) and broker in (*x.deleted, *x.bounced))
    ]


def _return(timeline: Timeline, broker: int, after_us: int) -> Event | None:
    """Return the first event after that time in which the controller accepts a broker."""
    accepted = (
        x
        for x in timeline.events
        if (isinstance(x, e.BrokerUnfenced) and x.broker == broker)
        or (isinstance(x, e.BrokersChanged) and broker in x.added)
    )
    return next((x for x in accepted if x.at_us > after_us), None)


def _end_of(timeline: Timeline, node: int, life: Life, following: Life | None, explained_us: int) -> Outage | None:
    """Return the outage at the end of a life; None for the last one if no other node noticed its end."""
    end_us = life.last.at_us
    back_us = following.first.at_us if following else None
    until_us = timeline.ended_us if back_us is None else back_us
    # a broker that writes on for long after a removal did not die at that removal
    since_us = max(explained_us, end_us - (SOON_US if following else SAME_US))
    removals = [x for x in _removals(timeline, node) if since_us <= x.at_us <= until_us + SOON_US]
    since_us = max(life.first.at_us, end_us - SHUTDOWN_US)
    shutdown = timeline.select(e.SignalReceived, e.ShuttingDown, node=node, since_us=since_us, until_us=end_us)
    disk = timeline.select(e.DiskFailed, node=node, since_us=end_us - SOON_US, until_us=end_us)
    fatal = timeline.select(e.FatalError, node=node, since_us=end_us - SOON_US, until_us=end_us)
    successor = timeline.nodes[node].successor if following is None else None
    if following is None and not (removals or shutdown or disk or fatal or successor):
        return None
    if following is not None and not life.started and life.last.at_us <= life.first.at_us:
        return None  # a single line, such as the first one of a rotated file, is no life
    recovery: list[e.LogRecovery] = []
    if following:
        recovery = timeline.select(
            e.LogRecovery, node=node, since_us=following.first.at_us, until_us=following.last.at_us
        )[:1]

    def outage(kind: OutageKind, at_us: int, *signs: Entry | Event, doubts: tuple[str, ...] = ()) -> Outage:
        lines = (*signs, following.first) if following else signs
        sources = [line.source for line in lines]
        if successor:
            kind = OutageKind.REPLACED
            sources.append(successor[1])
        return Outage(node, kind, at_us, back_us, tuple(sources), doubts, successor[0] if successor else None)

    if disk:
        return outage(OutageKind.DISK, disk[0].at_us, *disk[:2])
    if shutdown:
        doubt = "it received a request to stop but left no marker of a clean shutdown"
        return outage(OutageKind.STOPPED, shutdown[0].at_us, *shutdown[:2], *recovery, doubts=(doubt,) * len(recovery))
    reactions = _reactions(timeline, node, end_us, until_us)[:1]
    doubts = tuple(f"its log names a reason: {x.reason}" for x in fatal)
    at_us = _time_of_death(timeline, end_us, reactions, removals)
    return outage(OutageKind.DIED, at_us, life.last, *reactions, *removals[:1], *fatal, *recovery, doubts=doubts)


def _reactions(timeline: Timeline, node: int, since_us: int, until_us: int) -> list[Event]:
    """Return lost connections to a broker, and elections of another controller if it was the active one."""
    elected = timeline.select(e.ControllerElected, until_us=since_us)[-1:]
    was_controller = bool(elected) and elected[0].node == node
    return [
        x
        for x in timeline.select(e.PeerLost, e.ControllerElected, since_us=since_us, until_us=until_us)
        if (x.peer == node if isinstance(x, e.PeerLost) else was_controller and x.node != node)
    ]


def _time_of_death(timeline: Timeline, last_us: int, reactions: list[Event], removals: list[Event]) -> int:
    """Return the estimated time of death: not before the last entry, and one session before the removal.

    The first lost connection is more accurate, unless no broker had a connection for a while.
    """
    expired_us = removals[0].at_us - _session_us(timeline) if removals else None
    if reactions and (expired_us is None or reactions[0].at_us <= expired_us + SOON_US):
        return max(last_us, reactions[0].at_us)
    return last_us if expired_us is None else max(last_us, expired_us)


def _session_us(timeline: Timeline) -> int:
    """Return the shortest time after which the controller removes a silent broker."""
    timeouts_us = [
        int(log.settings[key]) * 1000
        for log in timeline.nodes.values()
        for key in ("broker.session.timeout.ms", "zookeeper.session.timeout.ms")
        if log.settings.get(key, "").isdigit()
    ]
    return min(timeouts_us, default=SESSION_US)


def _removed_alive(timeline: Timeline, outages: list[Outage]) -> Iterator[Outage]:
    """Yield the outages of brokers that the controller removed although their process lived, or that have no log."""
    fenced = {x.broker for x in timeline.select(e.BrokerFenced)}
    deleted = {broker for x in timeline.select(e.BrokersChanged) for broker in x.deleted}
    for broker in sorted(fenced | deleted):
        for removal in _removals(timeline, broker):
            if not any(o.broker == broker and _explains(timeline, o, removal.at_us) for o in outages):
                yield _without_end(timeline, broker, removal)


def _without_end(timeline: Timeline, broker: int, removal: Event) -> Outage:
    """Return the outage behind a removal that no end of a life explains."""
    back = _return(timeline, broker, removal.at_us)
    back_us = back.at_us if back else None
    signs: tuple[Source, ...] = (removal.source, back.source) if back else (removal.source,)
    log = timeline.nodes.get(broker)
    if log is None:
        return Outage(broker, OutageKind.GONE, removal.at_us, back_us, signs, ("the folder has no log of it",))
    silence = next((s for s in log.silences if s.before.at_us <= removal.at_us <= s.after.at_us), None)
    if silence is not None and silence.length_us >= SOON_US:
        signs = (silence.before.source, removal.source, silence.after.source)
        # a broker without work is silent before it freezes, too
        began_us = max(silence.before.at_us, removal.at_us - _session_us(timeline))
        return Outage(broker, OutageKind.FROZEN, began_us, silence.after.at_us, signs)
    since_us = silence.before.at_us if silence else removal.at_us - CUT_OFF_US
    until_us = back_us or removal.at_us + CUT_OFF_US
    failed = timeline.select(e.HeartbeatFailed, e.PeerLost, node=broker, since_us=since_us, until_us=until_us)[:1]
    at_us = failed[0].at_us if failed else removal.at_us
    return Outage(broker, OutageKind.CUT_OFF, at_us, back_us, (*(x.source for x in failed), *signs))


def _explains(timeline: Timeline, outage: Outage, at_us: int) -> bool:
    """Return whether an outage explains a removal at that time: from its start until the broker is accepted again."""
    if at_us < outage.at_us - SOON_US:
        return False
    if outage.back_us is None:
        return True
    accepted = _return(timeline, outage.broker, outage.back_us)
    if accepted is None:
        return at_us <= outage.back_us + 6 * SOON_US
    return at_us <= max(accepted.at_us, outage.back_us + 2 * SOON_US)


@dataclass(frozen=True)
class Loss:
    """A loss of records in one partition. `broker` lost them, or became leader without them."""

    partition: TopicPartition
    broker: int
    at_us: int
    signs: tuple[Source, ...]


@dataclass(frozen=True)
class Truncation(Loss):
    """A broker truncated its log because the leader did not have these records. `records` is None if it is unknown.

    The offsets are above the high watermark: with acks=all no producer got an acknowledgement for them.
    """

    offset: int
    records: int | None


@dataclass(frozen=True)
class ShorterLog(Loss):
    """A broker returned with fewer records than before: with an empty disk (`wiped`) or a log that ends too early."""

    wiped: bool


def find_shorter_logs(timeline: Timeline, outages: list[Outage]) -> list[ShorterLog]:
    """Return at most one shorter log for each outage."""
    died = (o for o in outages if o.kind is OutageKind.DIED and o.back_us is not None)
    return [shorter for outage in died if (shorter := _shorter_log(timeline, outage))]


def _shorter_log(timeline: Timeline, outage: Outage) -> ShorterLog | None:
    """Return the first partition with a shorter log; a leader's log must reach the start of its successor."""
    broker, at_us = outage.broker, outage.at_us
    roles = timeline.select(e.LeaderStarted, e.FollowerStarted, node=broker, until_us=at_us)
    partitions = {x.partition for x in roles if not internal(x.partition.topic)}
    recreated = {x.topic for x in timeline.select(e.TopicCreated, since_us=at_us + 1)}
    for x in timeline.select(e.PartitionEvent, node=broker, since_us=at_us + 1):
        if x.partition not in partitions or x.partition.topic in recreated:
            continue
        if isinstance(x, e.LogCreated):
            return ShorterLog(x.partition, broker, x.at_us, (x.source,), wiped=True)
        if not isinstance(x, e.LogLoaded):
            continue
        terms = [y for y in timeline.select(e.LeaderStarted) if y.partition == x.partition]
        last = [y.node for y in terms if y.at_us <= at_us][-1:]
        successor = next((y for y in terms if y.at_us > at_us), None)
        if last == [broker] and successor and successor.node != broker and successor.offset > x.end_offset:
            return ShorterLog(x.partition, broker, x.at_us, (successor.source, x.source), wiped=False)
    return None


def find_truncations(timeline: Timeline) -> list[Truncation]:
    """Return the truncations that removed records, or may have removed some."""
    loaded: dict[tuple[int, TopicPartition], e.LogLoaded] = {}
    truncations: list[Truncation] = []
    for x in timeline.events:
        if isinstance(x, e.LogLoaded):
            loaded[x.node, x.partition] = x
        elif isinstance(x, e.Truncated) and not internal(x.partition.topic):
            load = loaded.pop((x.node, x.partition), None)
            records = load.end_offset - x.offset if load else None
            if records is None or records > 0:
                signs = (load.source, x.source) if load else (x.source,)
                truncations.append(Truncation(x.partition, x.node, x.at_us, signs, x.offset, records))
    return truncations


def find_unclean_leaders(timeline: Timeline) -> list[Loss]:
    """Return one loss for each leader from outside the ISR: the records that it did not have are lost with any acks.

    The sign is the first one: from the controller (KRaft), or a leader outside the ISR (ZooKeeper).
    """
    topics = {x.topic_id: x.partition.topic for x in timeline.select(e.PartitionPlaced)}
    isr: dict[TopicPartition, tuple[int, ...]] = {}
    leaders: dict[tuple[TopicPartition, int], Loss] = {}
    for x in timeline.events:
        partition: TopicPartition | None = None
        if isinstance(x, e.UncleanElection):
            topic = topics.get(x.topic_id)
            partition = x.partition or (TopicPartition(topic, x.number) if topic else None)
        elif isinstance(x, e.LeaderChosen) and x.leader >= 0 and x.leader not in (isr.get(x.partition) or (x.leader,)):
            partition = x.partition
        if isinstance(x, e.UncleanElection | e.LeaderChosen) and partition and not internal(partition.topic):
            leader = Loss(partition, x.leader, x.at_us, (x.source,))
            leaders.setdefault((partition, x.leader), leader)
        if isinstance(x, e.LeaderChosen | e.LeaderStarted | e.IsrUpdated | e.IsrShrunk):
            isr[x.partition] = x.isr
    return sorted(leaders.values(), key=lambda leader: leader.at_us)
