"""Faults changed so that a replay loses what the incident lost, and by the same way."""

from __future__ import annotations

from chaos.incident.logs.inventory import Inventory
from chaos.incident.logs.losses import Cut, Shorter, Unclean
from chaos.incident.logs.outages import Outage
from chaos.incident.logs.timing import Planned


def had_led(c: Cut, outages: list[Outage], inventory: Inventory) -> bool:
    """Whether what was cut off was written by its leader, before it was away; followers cut off what they ran ahead."""
    return any(
        o.broker == c.broker and o.at_us <= c.at_us and c.partition in inventory.led_by(o.broker, o.at_us)
        for o in outages
    )


def of_its_disk(short: Shorter, faults: list[Planned]) -> None:
    """A kill that also took records from the broker's disk."""
    fault = next((f for f in reversed(faults) if f.broker == short.broker and f.at_us < short.at_us), None)
    if fault is None or fault.kind != "broker.kill":
        return
    fault.signs += short.signs
    if short.wiped:
        fault.kind = "broker.wipe"
        fault.says.append("it came back with an empty disk")
    else:
        fault.kind, fault.target = "log.truncate", {"leader_of": short.partition}
        fault.says.append(
            f"it came back with less of {short.partition} than it must have had, as after a loss of power"
        )


def alone(election: Unclean, faults: list[Planned]) -> None:
    """Before an unclean election the one that was behind must not come back while the last leader still runs."""
    behind = next((f for f in faults if f.broker == election.leader and f.at_us < election.at_us), None)
    last = next(
        (
            f
            for f in reversed(faults)
            if f.target == {"leader_of": election.partition} and f is not behind and f.at_us <= election.at_us
        ),
        None,
    )
    if behind is None or last is None or faults.index(behind) > faults.index(last):
        return
    behind.heal = {"when": {"after": last.name}}
    last.when = {"after": f"{behind.name}.proven + 2s"}
    last.heal = {"when": {"after": f"{last.name}.proven + 1s"}}
    last.says.append(f"it led {election.partition} alone; then broker {election.leader}, which was behind, was elected")
    last.signs += election.signs


def frozen(faults: list[Planned], cuts: list[Cut], inventory: Inventory) -> list[Planned]:
    """Where a leader died with records that nobody else had, followers must have lagged: they stand still before."""
    for i, fault in enumerate(faults):
        partition = fault.target.get("leader_of")
        cut = next((c for c in cuts if c.partition == partition and c.at_us > fault.at_us), None)
        topic = inventory.topics.get((partition or "").rpartition("/")[0])
        if fault.kind != "broker.kill" or cut is None or topic is None or topic.replicas < 2:
            continue
        freeze = Planned("freeze", "broker.pause", {"followers_of": partition}, fault.when, fault.at_us)
        freeze.heal = {"when": {"after": fault.name}}
        freeze.says.append(
            f"not in the logs, but inferred: broker {cut.broker} threw away {_count(cut.records)} from offset "
            f"{cut.offset} on, so the followers of {partition} lagged when it died; they stand still for less than "
            "a session"
        )
        freeze.todo.append("why did they lag? (slow disks or network, replica.lag.time.max.ms)")
        freeze.signs = cut.signs
        fault.when = {"after": f"{freeze.name}.proven + 500ms"}
        return [*faults[:i], freeze, *faults[i:]]
    return faults


def _count(records: int | None) -> str:
    return "records" if records is None else f"{records:,} records"
