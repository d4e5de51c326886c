"""Faults for a scenario: each with a kind, a target and its sources; here those of brokers, from their outages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.incident.logs.broker_failures import Outage, OutageKind, ShorterLog, Truncation
from chaos.incident.logs.cluster_state import ClusterState
from chaos.incident.logs.entries import Source

TOGETHER_US = 2 * 10**6
"""Maximum time between the starts of outages that are one fault."""
AFTERMATH_US = 20 * 10**6
"""Time after the return of a coordinator in which its members may time out because of its outage."""
NO_GROUP = ""
"""Group of a target that is a producer."""


@dataclass
class PlannedFault:
    """One fault of the scenario. The keys `kind` to `options` are those of the scenario file.

    `comments` are written above the fault, `todos` are open questions, `signs` are its sources in the logs.
    """

    name: str
    kind: str
    target: dict[str, Any]
    at_us: int
    back_us: int | None = None
    when: dict[str, Any] = field(default_factory=dict)
    heal: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    todos: list[str] = field(default_factory=list)
    signs: tuple[Source, ...] = ()
    outage: Outage | None = None


def outage_fault(
    outage: Outage, state: ClusterState, truncations: list[Truncation], numbers: Mapping[int, int]
) -> PlannedFault:
    """Return the fault for an outage, with a role of the broker as its target. `numbers`: broker numbers by broker."""
    predicate, kind, name, question = outage.kind.value
    broker, at_us = outage.broker, outage.at_us
    led, coordinated = state.led_by(broker, at_us), state.coordinated_by(broker, at_us)
    is_controller = state.controller(at_us) == broker
    truncated = [t.partition for t in truncations if t.broker == broker and t.partition in led]
    followed = [p for p in state.followed_by(broker, at_us) if state.topics[p.topic].replicas > 1]
    roles = [f"led {_first_four(led)}"] if led else []
    roles += [f"coordinated group {_first_four(coordinated)}"] if coordinated else []
    roles += ["was the active controller"] if is_controller else []
    target: dict[str, Any]
    if led:
        target = {"leader_of": (truncated or led)[0]}
    elif coordinated:
        target, kind = {"coordinator_of": coordinated[0]}, "coordinator.kill" if kind == "broker.kill" else kind
    elif is_controller:
        target, kind = {"controller": True}, "controller.kill" if kind == "broker.kill" else kind
    elif followed:
        target = {"follower_of": followed[0]}
    else:
        target = {"broker": numbers.get(broker, 1)}
    role = ", and ".join(roles) or (f"followed {_first_four(followed)}" if followed else "led no known partition")
    todos = [*([question] if question else []), *outage.doubts]
    if outage.kind is OutageKind.DISK and not ({"leader_of", "follower_of"} & target.keys()):
        kind = "broker.kill"
        todos.append("the partition with the full log is unknown: a kill replaces the failed disk")
    if len(roles) > 1:
        todos.append("it had several roles: a target by one of them may select another broker in a replay")
    comments = [f"broker {broker} {predicate}; it {role}"]
    return PlannedFault(
        name, kind, target, at_us, outage.back_us, comments=comments, todos=todos, signs=outage.signs, outage=outage
    )


def add_disk_loss(shorter: ShorterLog, faults: list[PlannedFault]) -> None:
    """Change the kill of a broker that returned with a shorter log to a fault that removes records from its disk."""
    earlier = [f for f in faults if f.outage and f.outage.broker == shorter.broker and f.at_us < shorter.at_us]
    if not earlier or earlier[-1].kind != "broker.kill":
        return
    fault = earlier[-1]
    fault.signs += shorter.signs
    if shorter.wiped:
        fault.kind = "broker.wipe"
        fault.comments.append("it returned with an empty disk")
    else:
        fault.kind, fault.target = "log.truncate", {"leader_of": shorter.partition}
        fault.comments.append(f"it returned with a shorter log of {shorter.partition}, as after a power failure")


def merge_followers(faults: list[PlannedFault]) -> list[PlannedFault]:
    """Return the faults, with simultaneous outages of followers of one partition as a single fault.

    Two faults with one follower each might select the same broker.
    """
    merged: list[PlannedFault] = []
    for fault in faults:
        partition = fault.target.get("follower_of")
        twins = (
            other
            for other in merged
            if other.kind == fault.kind
            and abs(other.at_us - fault.at_us) <= TOGETHER_US
            and other.target.keys() <= {"follower_of", "followers_of"}
            and partition in other.target.values()
        )
        twin = next(twins, None)
        if twin is None:
            merged.append(fault)
            continue
        twin.target = {"followers_of": partition}
        twin.comments += fault.comments
        twin.signs += fault.signs
        if twin.back_us is not None and fault.back_us is not None:
            twin.back_us = max(twin.back_us, fault.back_us)
    return merged


def explained_by_outage(
    member: PlannedFault, outages: list[Outage], state: ClusterState, faults: list[PlannedFault]
) -> bool:
    """Return whether a member timed out only because its coordinator was away; add a comment to that outage's fault."""
    if member.kind != "consumer.crash":
        return False
    group, _ = member.target["member"]
    for outage in outages:
        until_us = (outage.back_us if outage.back_us is not None else member.at_us) + AFTERMATH_US
        if not outage.at_us <= member.at_us <= until_us:
            continue
        if group in state.coordinated_by(outage.broker, outage.at_us):
            fault = next((f for f in faults if f.outage == outage), None)
            comment = f"members of group {group} timed out because of it"
            if fault and comment not in fault.comments:
                fault.comments.append(comment)
                fault.signs += member.signs[:1]
            return True
    return False


def _first_four(names: Sequence[object]) -> str:
    return ", ".join(map(str, names[:4])) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
