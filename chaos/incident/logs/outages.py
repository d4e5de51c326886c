"""Brokers that were not there for a while, and how: died, stopped, stood still, cut off, or without a disk.

What tells them apart: a life that ends with `shutting down` was stopped in order; one that ends in the middle, before
another begins or while the controller fences the broker, died; a broker that was fenced and has one and the same life
before and after stood still if it wrote nothing meanwhile, and was cut off if it did. That a process was *killed* no
log of its own can say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from chaos.incident.logs import events as e
from chaos.incident.logs.events import Event, Source
from chaos.incident.logs.history import History, Life, Silence

SOON_US = 5 * 10**6
"""A sign of the end belongs to a life if it comes so shortly before its last entry, or in between."""
SAME_US = 500_000
"""Clocks and queues let one thing look like two at about this distance."""
SESSION_US = 9 * 10**6
"""Kafka's default of broker.session.timeout.ms."""
SHUTDOWN_US = 120 * 10**6
"""How long a shutdown in order may take at most."""


class How(Enum):
    """What became of a broker."""

    DIED = "died"
    STOPPED = "was stopped"
    STILL = "stood still"
    CUT_OFF = "was cut off"
    DISK = "lost its disk"
    GONE = "was gone"


@dataclass(frozen=True)
class Outage:
    """One outage of a broker, from `at_us` until `back_us` (None: not seen again). `signs` are in order of time."""

    broker: int
    how: How
    at_us: int
    back_us: int | None
    signs: tuple[Source, ...]
    doubts: tuple[str, ...] = field(default=())


def find(history: History) -> list[Outage]:
    """All outages, by time."""
    found: list[Outage] = []
    for node, log in history.nodes.items():
        settled = 0
        for i, life in enumerate(log.lives):
            after = log.lives[i + 1] if i + 1 < len(log.lives) else None
            if outage := _end_of(history, node, life, after, settled):
                found.append(outage)
                # what the controller says of it up to here is about this outage, not about the next
                settled = (outage.back_us or history.ended_us) + 2 * SOON_US
    found += _alive_but_away(history, found)
    return sorted(found, key=lambda outage: outage.at_us)


def _said(
    history: History, node: int, kinds: type[Event] | tuple[type[Event], ...], begin: int, end: int
) -> list[Event]:
    return [x for x in history.events if x.node == node and isinstance(x, kinds) and begin <= x.at_us <= end]


def _removals(history: History, broker: int) -> list[Event]:
    """Where the controller said that it takes this broker for gone."""
    return [
        x
        for x in history.events
        if (isinstance(x, e.BrokerFenced) and x.broker == broker)
        or (isinstance(x, e.BrokersChanged) and broker in (*x.deleted, *x.bounced))
    ]


def _end_of(history: History, node: int, life: Life, after: Life | None, settled: int) -> Outage | None:
    """How a life ended; None for the last one if nobody missed the broker afterwards."""
    end = life.last.at_us
    back = after.first.at_us if after else None
    until = (back or history.ended_us) + SOON_US
    # one that wrote on for long after it was fenced did not die of that
    begin = max(settled, end - (SOON_US if after else SAME_US))
    gone = [x for x in _removals(history, node) if begin <= x.at_us <= until]
    begin = max(life.first.at_us, end - SHUTDOWN_US)
    asked = _said(history, node, (e.SignalReceived, e.ShuttingDown), begin, end)
    disks = _said(history, node, e.DiskFailed, end - SOON_US, end)
    fatal = _said(history, node, e.FatalError, end - SOON_US, end)
    if after is None and not gone and not (asked or disks or fatal):
        return None
    if after is not None and not life.started and not _is_whole(life):
        return None
    recovery = _said(history, node, e.LogRecovery, back, after.last.at_us)[:1] if after and back else []
    back_signs = [after.first.source] if after else []
    if disks:
        signs = [*(x.source for x in disks[:2]), *back_signs]
        return Outage(node, How.DISK, disks[0].at_us, back, tuple(signs))
    if asked:
        doubts = () if not recovery else ("it was asked to stop and yet left no mark of a clean shutdown",)
        signs = [*(x.source for x in asked[:2]), *(x.source for x in recovery), *back_signs]
        return Outage(node, How.STOPPED, asked[0].at_us, back, tuple(signs), doubts)
    missed = [x for x in _missing(history, node, end) if end <= x.at_us <= (back or history.ended_us)][:1]
    signs = [life.last.source, *(x.source for x in (*missed, *gone[:1], *fatal, *recovery)), *back_signs]
    at_us = _death(history, end, [x.at_us for x in missed], [x.at_us for x in gone])
    reasons = tuple(f"its log names a reason: {_reason(x)}" for x in fatal)
    return Outage(node, How.DIED, at_us, back, tuple(signs), reasons)


def _missing(history: History, node: int, end_us: int) -> list[Event]:
    """Lost connections to a broker, and another controller if it was the active one."""
    elected = [x for x in history.events if isinstance(x, e.ControllerElected)]
    was = [x.node for x in elected if x.at_us <= end_us][-1:] == [node]
    return [
        x
        for x in history.events
        if (isinstance(x, e.PeerLost) and x.peer == node)
        or (was and isinstance(x, e.ControllerElected) and x.node != node)
    ]


def _death(history: History, last_us: int, missed: list[int], removed: list[int]) -> int:
    """About when a broker died: not before its last entry, and a session before the controller took it for dead.

    The first lost connection to it tells more exactly, unless nobody had one for a while.
    """
    timeouts = [
        int(node.settings[key]) * 1000
        for node in history.nodes.values()
        for key in ("broker.session.timeout.ms", "zookeeper.session.timeout.ms")
        if node.settings.get(key, "").isdigit()
    ]
    timeout_us = min(timeouts, default=SESSION_US)
    expired = [at_us - timeout_us for at_us in removed][:1]
    if missed and (not expired or missed[0] <= expired[0] + SOON_US):
        return max(last_us, missed[0])
    return max(last_us, *expired) if expired else last_us


def _reason(event: Event) -> str:
    return event.reason if isinstance(event, e.FatalError) else ""


def _is_whole(life: Life) -> bool:
    """Whether there is more of a life than one stray line, such as the first of a rotated file."""
    return life.last.at_us > life.first.at_us


def _alive_but_away(history: History, known: list[Outage]) -> Iterator[Outage]:
    """Brokers that the controller missed although their process lived, or that have no log."""
    for broker in sorted({b for x in history.events for b in _named(x)}):
        for gone in _removals(history, broker):
            if any(o.broker == broker and _covers(history, o, gone.at_us) for o in known):
                continue
            back = _back(history, broker, gone.at_us)
            signs = (gone.source, *((back.source,) if back else ()))
            back_us = back.at_us if back else None
            log = history.nodes.get(broker)
            if log is None:
                yield Outage(broker, How.GONE, gone.at_us, back_us, signs, ("there is no log of its own",))
                continue
            silence = next((s for s in log.silences if s.before.at_us <= gone.at_us <= s.after.at_us), None)
            failed = _said(history, broker, (e.HeartbeatFailed, e.PeerLost), *_while_away(silence, gone.at_us, back_us))
            if silence is not None and silence.after.at_us - silence.before.at_us >= SOON_US:
                # what it noticed it noticed when it could again
                signs = (silence.before.source, gone.source, silence.after.source)
                yield Outage(broker, How.STILL, silence.before.at_us, silence.after.at_us, signs)
            else:
                at_us = min([x.at_us for x in failed] or [gone.at_us])
                yield Outage(broker, How.CUT_OFF, at_us, back_us, (*(x.source for x in failed[:1]), *signs))


def _while_away(silence: Silence | None, gone_us: int, back_us: int | None) -> tuple[int, int]:
    begin = silence.before.at_us if silence else gone_us - 30 * 10**6
    return begin, back_us or gone_us + 30 * 10**6


def _covers(history: History, outage: Outage, at_us: int) -> bool:
    """Whether an outage explains that its broker was taken for gone then: it does until the broker serves again."""
    if outage.back_us is None:
        return outage.at_us - SOON_US <= at_us
    serving = _back(history, outage.broker, outage.back_us)
    end = outage.back_us + 6 * SOON_US if serving is None else max(serving.at_us, outage.back_us + 2 * SOON_US)
    return outage.at_us - SOON_US <= at_us <= end


def _named(event: Event) -> tuple[int, ...]:
    if isinstance(event, e.BrokerFenced):
        return (event.broker,)
    return event.deleted if isinstance(event, e.BrokersChanged) else ()


def _back(history: History, broker: int, after_us: int) -> Event | None:
    return next(
        (
            x
            for x in history.events
            if x.at_us > after_us
            and (
                (isinstance(x, e.BrokerUnfenced) and x.broker == broker)
                or (isinstance(x, e.BrokersChanged) and broker in x.added)
            )
        ),
        None,
    )
