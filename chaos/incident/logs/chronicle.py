"""What the logs say, in order, as comments below the scenario: for the person who has to understand it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from chaos.incident.logs import events as e
from chaos.incident.logs.events import Event
from chaos.incident.logs.history import History
from chaos.incident.logs.inventory import Inventory, internal
from chaos.incident.logs.text import Page

MOST_LINES = 120
TOGETHER_US = 2 * 10**6
"""Lines of one kind that follow each other so closely are told as one, with their number."""


def write(page: Page, history: History, inventory: Inventory) -> None:
    """Append it to the page."""
    page.comment("What the logs say, in order (times in UTC; lines of one kind that follow closely are counted):")
    told = list(_told(history))
    for at_us, words, event, count in told[:MOST_LINES]:
        when = datetime.fromtimestamp(at_us / 1e6, UTC)
        more = f" (and {count - 1} more like it)" if count > 1 else ""
        page.comment(f"{when:%H:%M:%S.%f}"[:-3] + f"  {words}{more}  {event.source}")
    if len(told) > MOST_LINES:
        page.comment(f"… and {len(told) - MOST_LINES} more")


def _told(history: History) -> Iterator[tuple[int, str, Event, int]]:
    kept: list[list[Event]] = []
    latest: dict[tuple[str, int], list[Event]] = {}
    seen: set[tuple[object, ...]] = set()
    coordinating: set[tuple[int, str]] = set()
    for event in history.events:
        if isinstance(event, e.CoordinatorLoaded):
            coordinating.add((event.node, event.partition))
        elif isinstance(event, e.CoordinatorUnloaded) and (event.node, event.partition) not in coordinating:
            continue  # at a start each broker gives up what it never had
        if not _words(event) or (key := _same(event)) in seen:
            continue
        if key:
            seen.add(key)
        kind = (type(event).__name__ + _words(event).partition(" ")[0], event.node)
        group = latest.get(kind)
        if group and event.at_us - group[-1].at_us <= TOGETHER_US and not isinstance(event, _ALONE):
            group.append(event)
        else:
            latest[kind] = [event]
            kept.append(latest[kind])
    for group in kept:
        yield group[0].at_us, _words(group[0]), group[0], len(group)


_ALONE = (
    e.BrokerFenced,
    e.UncleanElection,
    e.Truncated,
    e.MemberFailed,
    e.MemberLeft,
    e.RebalanceBegan,
    e.RebalanceDone,
)


def _same(event: Event) -> tuple[object, ...]:
    """What makes an event the same as another node's; empty where each is told."""
    if isinstance(event, e.UncleanElection) and event.partition:
        return (event.partition, event.leader)
    return ()


def _words(event: Event) -> str:
    """The event in words; empty for what is not worth a line."""
    partition = getattr(event, "partition", "")
    if internal(partition) and not isinstance(event, e.CoordinatorLoaded | e.CoordinatorUnloaded):
        return ""
    match event:
        case e.JvmStep(step=0):
            return f"broker {event.node} starts"
        case e.LogRecovery():
            return f"broker {event.node} finds no mark of a clean shutdown"
        case e.SignalReceived():
            return f"broker {event.node} receives SIG{event.signal.removeprefix('SIG')}"
        case e.ShuttingDown():
            return f"broker {event.node} shuts down in order"
        case e.FatalError():
            return f"broker {event.node}: {event.reason}"
        case e.BrokerFenced():
            return f"the controller fences broker {event.broker}: its session timed out"
        case e.BrokerUnfenced():
            return f"the controller lets broker {event.broker} serve"
        case e.BrokersChanged():
            return f"brokers added {list(event.added)}, gone {list(event.deleted)}, restarted {list(event.bounced)}"
        case e.ControllerElected():
            return f"broker {event.node} becomes the active controller, epoch {event.epoch}"
        case e.ControllerResigned():
            return f"broker {event.node} is the active controller no more"
        case e.HeartbeatFailed():
            return f"broker {event.node} cannot reach the controller or its session expired"
        case e.PeerLost():
            return f"broker {event.node} has no connection to broker {event.peer}"
        case e.TopicCreated():
            return f"topic {event.topic} is made: {event.partitions} partitions, {event.replicas} replicas"
        case e.LeaderStarted():
            return f"broker {event.node} leads {partition}, epoch {event.leader_epoch}, from offset {event.offset}, ISR {list(event.isr)}"  # noqa: E501
        case e.LeaderChosen():
            return f"the controller makes {event.leader} leader of {partition}, epoch {event.leader_epoch}, ISR {list(event.isr)}"  # noqa: E501
        case e.IsrShrunk():
            return f"ISR of {partition} shrinks from {list(event.before)} to {list(event.isr)}"
        case e.IsrUpdated():
            return f"ISR of {partition} is {list(event.isr)}"
        case _:
            return _more(event)


def _more(event: Event) -> str:
    match event:
        case e.UncleanElection() if event.partition:
            return f"UNCLEAN election: {event.leader} leads {event.partition} without having been in sync"
        case e.LogLoaded() if event.end_offset > 0:
            return f"broker {event.node} has {event.partition} up to offset {event.end_offset}"
        case e.Truncated():
            return f"broker {event.node} cuts {event.partition} off at offset {event.offset}"
        case e.CoordinatorLoaded():
            return f"broker {event.node} coordinates {event.partition}"
        case e.CoordinatorUnloaded():
            return f"broker {event.node} coordinates {event.partition} no more"
        case e.RebalanceBegan():
            return f"group {event.group} rebalances after generation {event.generation}: {event.reason}"
        case e.RebalanceDone():
            return f"group {event.group} has generation {event.generation} with {event.members} members"
        case e.MemberFailed():
            return f"member {event.member} of group {event.group} failed: {event.reason or 'session timed out'}"
        case e.MemberLeft():
            return f"member {event.member} left group {event.group}; its client's reason: {event.reason or 'none'}"
        case e.PollTimeExceeded():
            return f"client {event.client} did not poll within max.poll.interval.ms"
        case e.TransactionalIdTaken():
            return f"transactional id {event.transactional_id} is taken with epoch {event.epoch}"
        case e.TransactionTimedOut():
            return f"transaction of {event.transactional_id} is aborted by its time-out"
        case e.ProducerFenced():
            return f"producer id {event.producer_id} is refused: its epoch is old"
        case e.DiskFailed():
            return f"broker {event.node} lost log directory {event.directory}"
        case e.BelowMinIsr():
            return f"writes to {event.partition} are refused: fewer in sync than min.insync.replicas"
        case _:
            return ""
