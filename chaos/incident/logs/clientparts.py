"""The producers and consumers of the skeleton: little of them is in logs of brokers, so most is TODO or from a file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from chaos.incident.logs.clients import Settings
from chaos.incident.logs.inventory import Group, Inventory
from chaos.incident.logs.plan import NO_GROUP, Plan
from chaos.incident.logs.text import Page

MOST_GROUPS = 5
USUAL_RATE, USUAL_RECORDS = 500, 8000


@dataclass
class Names:
    """The scenario's names, by those of the incident."""

    brokers: dict[int, int]
    topics: dict[str, str] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)
    """Of consumers, by group; the producer is called `producer`."""


def producers(page: Page, inventory: Inventory, plan: Plan, settings: Settings, names: Names) -> None:
    """The producers: one for each topic."""
    page.head("producers")
    fenced = any(f.kind == "producer.fence" for f in plan.faults)
    transactional = settings.transactional or fenced or bool(inventory.transactional_ids)
    acked = [f.when["acked"] for f in plan.faults if "acked" in f.when]
    records = max([USUAL_RECORDS, *(2 * a for a in acked)])
    for i, topic in enumerate(names.topics.values()):
        if i == 0:
            page.todo("how many producers, how fast, how large records, which keys? No log of a broker tells", 2)
        page.put("name", producer_name(i), 2, item=True)
        page.put("topic", topic, 4)
        page.put("rate", f"{USUAL_RATE}/s", 4)
        page.put("records", records, 4)
        page.put("outlast_faults", True, 4)
        if transactional:
            page.todo("how many records has a transaction?", 4)
            page.put(
                "transactions", {"records": 100}, 4, next(iter(inventory.transactional_ids.values()), settings.file)
            )
        config = dict(settings.producer)
        if transactional:
            config = {k: v for k, v in config.items() if k not in ("acks", "enable.idempotence")}
        if not settings.given:
            page.todo("acks, enable.idempotence, retries of producers? Give --clients FILE; the default is acks=all", 4)
        elif "acks" not in config and not transactional:
            page.todo(f"{settings.file} has no acks; a Java producer before 3.0 has acks=1, all others all", 4)
        if config:
            page.put("config", config, 4, settings.file)
    if settings.left_out:
        page.comment(f"keys of {settings.file} that were not taken over: {', '.join(settings.left_out)}", 2)
    page.gap()


def producer_name(i: int) -> str:
    """Of the producer of the i-th topic."""
    return "producer" if i == 0 else f"producer-{i + 1}"


def groups(inventory: Inventory, plan: Plan) -> list[Group]:
    """The groups that the scenario has: those that a fault aims at first."""
    aimed = {f.target["member"][0] for f in plan.faults if "member" in f.target} - {NO_GROUP}
    aimed |= {f.target["coordinator_of"] for f in plan.faults if "coordinator_of" in f.target}
    ordered = sorted(inventory.groups.values(), key=lambda g: (g.name not in aimed, g.name))
    return ordered[: max(MOST_GROUPS, len(aimed))]


def consumers(page: Page, inventory: Inventory, plan: Plan, settings: Settings, names: Names) -> None:
    """The consumers: an entry for each group."""
    if not names.entries:
        page.todo("no group was seen: consumers that assign partitions themselves leave no trace in logs of brokers")
        return
    page.head("consumers")
    page.todo("which topics does each group read, when does it commit, how long does a record take?", 2)
    if not settings.given:
        page.todo("auto.offset.reset, session.timeout.ms, max.poll.interval.ms? Give --clients FILE", 2)
    slow = {f.target["member"][0] for f in plan.faults if f.kind == "consumer.slow"}
    for name, entry in names.entries.items():
        group = inventory.groups[name]
        page.put("mode", "subscribe", 2, group.source, item=True)
        page.put("name", entry, 4)
        page.put("group", group_id(name), 4)
        page.put("members", _members(plan, group), 4)
        page.put("topics", list(names.topics.values()), 4)
        if settings.auto_commit:
            page.put("commit", {"when": "after_batch", "kind": "auto"}, 4, settings.file)
        if settings.max_poll_records:
            page.put("max_poll_records", settings.max_poll_records, 4, settings.file)
        config: dict[str, Any] = {"auto.offset.reset": "earliest"} | settings.consumer
        if group.consumer_protocol:
            config["group.protocol"] = "consumer"
            for key in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
                config.pop(key, None)
        if name in slow and "max.poll.interval.ms" not in settings.consumer:
            page.todo("max.poll.interval.ms is unknown; 6 s lets a replay take seconds", 4)
            config |= {"max.poll.interval.ms": 6000} | ({} if group.consumer_protocol else {"session.timeout.ms": 6000})
        page.put("config", config, 4, settings.file)
    page.gap()


def _members(plan: Plan, group: Group) -> int:
    aimed = [int(f.target["member"][1]) for f in plan.faults if f.target.get("member", ("",))[0] == group.name]
    return min(50, max([group.members, *aimed]))


def group_id(name: str) -> str:
    """A group id that a scenario allows."""
    return re.sub(r"[/\s\x00-\x1f\x7f]", "-", name)[:200] or "group"
