"""What happened, as faults of a scenario: each with a target by its role, and with its sources. `timing` says when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos.cluster.drivers import capabilities
from chaos.incident.logs import events as e
from chaos.incident.logs import losing, timing
from chaos.incident.logs.clients import Settings
from chaos.incident.logs.events import Source
from chaos.incident.logs.history import History
from chaos.incident.logs.inventory import Inventory, Topic
from chaos.incident.logs.losses import Cut, Shorter, Unclean
from chaos.incident.logs.members import Change, Why
from chaos.incident.logs.outages import How, Outage
from chaos.incident.logs.timing import Planned
from chaos.units import format_duration

TOGETHER_US = 2 * 10**6
"""Outages that begin so close together are one fault."""
AFTERMATH_US = 20 * 10**6
"""So long after a coordinator's return its members may still time out because of it."""
ONLY_PROCESSES = ("disk.limit", "broker.wipe", "log.truncate")
NO_GROUP = ""
"""In place of a group, where the member is a producer."""
MOST_FAULTS = 12

KINDS = {
    How.DIED: ("broker.kill", "kill"),
    How.GONE: ("broker.kill", "kill"),
    How.DISK: ("disk.limit", "disk"),
    How.STOPPED: ("broker.stop", "stop"),
    How.STILL: ("broker.pause", "pause"),
    How.CUT_OFF: ("broker.pause", "cut-off"),
}
MEMBER_KINDS = {
    Why.SESSION: ("consumer.crash", "crash"),
    Why.POLL: ("consumer.slow", "slow"),
    Why.LEFT: ("consumer.leave", "leave"),
    Why.NEW: ("consumer.join", "join"),
}


@dataclass
class Plan:
    """All faults by time, whether records have to be lost, and how many there were before the first fault, if known."""

    faults: list[Planned]
    loses: bool
    records: int | None
    records_sources: list[Source]
    left_out: int = 0
    containers: bool = False


@dataclass(frozen=True)
class Found:
    """Everything that was inferred."""

    outages: list[Outage]
    changes: list[Change]
    cuts: list[Cut]
    unclean: list[Unclean]
    shorter: list[Shorter]


def make(
    history: History, inventory: Inventory, found: Found, settings: Settings, number: Callable[[int], int]
) -> Plan:
    """The plan. `number` gives the scenario's number of a broker."""
    faults = [_outage(o, inventory, found.cuts, number) for o in found.outages]
    for short in found.shorter:
        losing.of_its_disk(short, faults)
    faults = _followers_together(faults, inventory)
    own = [c for c in found.changes if not _follows(c, found.outages, inventory, faults)]
    faults += [_change(c, inventory, settings) for c in own]
    faults += _transactions(history)
    faults.sort(key=lambda f: f.at_us)
    left_out = max(0, len(faults) - MOST_FAULTS)
    faults = faults[:MOST_FAULTS]
    _name(faults)
    records, sources = timing.records_before(history, faults[0].at_us) if faults else (None, [])
    lost = [c for c in found.cuts if losing.had_led(c, found.outages, inventory)]
    lossy = settings.loses_by_acks and bool(lost)
    timing.place(inventory, faults, records)
    for election in found.unclean:
        losing.alone(election, faults)
    if lossy:
        faults = losing.frozen(faults, lost, inventory)
    return Plan(faults, lossy or bool(found.unclean), records, sources, left_out, _isolating(faults, inventory))


def _isolating(faults: list[Planned], inventory: Inventory) -> bool:
    """Let brokers be cut off for real where that can be done; else a pause stands for it.

    Returns whether it takes containers: not where plain processes can be isolated.
    """
    apart = [f for f in faults if f.how is How.CUT_OFF]
    plain = "isolate" in capabilities("process")
    able = not inventory.zookeeper and (plain or not any(f.kind in ONLY_PROCESSES for f in faults))
    for fault in apart:
        if able:
            fault.kind = "broker.isolate"
            fault.todo.append(
                "was it cut off from its peers only, or from clients too, and both ways? see `cut` and `direction`"
            )
        else:
            fault.todo.append(
                "a pause stands for the cut: containers can do no disk.limit, broker.wipe, log.truncate or ZooKeeper"
            )
    return bool(apart) and able and not plain


def _outage(o: Outage, inventory: Inventory, cuts: list[Cut], number: Callable[[int], int]) -> Planned:
    kind, name = KINDS[o.how]
    led = inventory.led_by(o.broker, o.at_us)
    coordinated = inventory.coordinated_by(o.broker, o.at_us)
    controller = inventory.controller(o.at_us) == o.broker
    hurt = [c.partition for c in cuts if c.broker == o.broker and c.partition in led]
    followed = [p for p in inventory.followed_by(o.broker, o.at_us) if _topic(p, inventory).replicas > 1]
    roles = [f"led {_some(led)}"] if led else []
    roles += [f"coordinated group {_some(coordinated)}"] if coordinated else []
    roles += ["was the active controller"] if controller else []
    if led:
        target: dict[str, Any] = {"leader_of": (hurt or led)[0]}
    elif coordinated:
        target, kind = {"coordinator_of": coordinated[0]}, "coordinator.kill" if kind == "broker.kill" else kind
    elif controller:
        target, kind = {"controller": True}, "controller.kill" if kind == "broker.kill" else kind
    elif followed:
        target = {"follower_of": followed[0]}
    else:
        target = {"broker": number(o.broker)}
    planned = Planned(name, kind, target, {}, o.at_us, o.back_us, signs=o.signs, broker=o.broker, how=o.how)
    planned.says.append(f"broker {o.broker} {o.how.value}; it {', and '.join(roles) or _idle(followed)}")
    planned.todo += [*_doubts(o), *o.doubts]
    if o.how is How.DISK and not ({"leader_of", "follower_of"} & target.keys()):
        planned.kind = "broker.kill"
        planned.todo.append("the partition whose log could not grow is unknown: a kill stands for the failed disk")
    if len(roles) > 1:
        planned.todo.append("it had several roles: a target by one of them may meet another broker in a replay")
    return planned


def _topic(partition: str, inventory: Inventory) -> Topic:
    return inventory.topics[partition.rpartition("/")[0]]


def _idle(followed: list[str]) -> str:
    return f"followed {_some(followed)}" if followed else "led nothing that was seen"


def _follows(c: Change, outages: list[Outage], inventory: Inventory, faults: list[Planned]) -> bool:
    """Whether members only timed out because their coordinator was not there; then the outage says so."""
    for o in outages:
        until = (o.back_us if o.back_us is not None else c.at_us) + AFTERMATH_US
        if (
            c.why is Why.SESSION
            and o.at_us <= c.at_us <= until
            and c.group in inventory.coordinated_by(o.broker, o.at_us)
        ):
            fault = next((f for f in faults if f.broker == o.broker and f.at_us == o.at_us), None)
            words = f"members of group {c.group} timed out at it"
            if fault and words not in fault.says:
                fault.says.append(words)
                fault.signs += c.signs[:1]
            return True
    return False


def _doubts(o: Outage) -> list[str]:
    match o.how:
        case How.DIED:
            return ["killed, out of memory, or a lost machine? Its own log cannot tell; see the kernel's"]
        case How.GONE:
            return ["died, stopped, or cut off? Only the controller's log speaks of it"]
        case How.STILL:
            return ["a pause of the process (garbage collection, a frozen machine, a stuck disk) is assumed"]
        case _:
            return []


def _followers_together(faults: list[Planned], inventory: Inventory) -> list[Planned]:
    """Outages of all followers of a partition at once are one fault; two single followers would meet by chance."""
    kept: list[Planned] = []
    for fault in faults:
        twin = next(
            (
                k
                for k in kept
                if k.kind == fault.kind
                and abs(k.at_us - fault.at_us) <= TOGETHER_US
                and ({*k.target} <= {"follower_of", "followers_of"})
                and k.target.get("follower_of", k.target.get("followers_of")) == fault.target.get("follower_of")
            ),
            None,
        )
        if twin is None:
            kept.append(fault)
            continue
        twin.target = {"followers_of": fault.target["follower_of"]}
        twin.says += fault.says
        twin.signs += fault.signs
        if twin.back_us is not None and fault.back_us is not None:
            twin.back_us = max(twin.back_us, fault.back_us)
    return kept


def _change(c: Change, inventory: Inventory, settings: Settings) -> Planned:
    kind, name = MEMBER_KINDS[c.why]
    group = inventory.groups[c.group]
    planned = Planned(name, kind, {"member": (c.group, group.number(c.client))}, {}, c.at_us, c.back_us, signs=c.signs)
    planned.says.append(f"member {c.client} of group {c.group}: {c.why.value}")
    planned.todo += c.doubts
    if c.why is Why.POLL:
        planned.more["per_record"] = format_duration(max(0.5, settings.poll_interval_s / 12))
        planned.todo.append("how slow was it? per_record is chosen so that some records exceed max.poll.interval.ms")
    return planned


def _transactions(history: History) -> list[Planned]:
    """Producers whose transaction was left open, or that were fenced. One of each kind is enough."""
    found: dict[str, Planned] = {}
    for x in history.events:
        if isinstance(x, e.TransactionTimedOut):
            at = (
                "producer.crash",
                "producer-crash",
                f"transaction of {x.transactional_id} was aborted by its time-out",
            )
            doubt = "it crashed, hung, or was cut off: a crash stands for it"
        elif isinstance(x, e.ProducerFenced):
            at = ("producer.fence", "fence", f"a producer with an old epoch was fenced (producer id {x.producer_id})")
            doubt = "which transactional id it had is not said"
        else:
            continue
        kind, name, words = at
        if kind not in found:
            target = {"member": (NO_GROUP, 1)}
            found[kind] = Planned(name, kind, target, {}, x.at_us, says=[words], todo=[doubt], signs=(x.source,))
    return list(found.values())


def _name(faults: list[Planned]) -> None:
    counts: dict[str, int] = {}
    for fault in faults:
        counts[fault.name] = counts.get(fault.name, 0) + 1
        if counts[fault.name] > 1:
            fault.name = f"{fault.name}-{counts[fault.name]}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
