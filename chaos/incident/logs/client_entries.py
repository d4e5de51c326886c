"""Producers and consumers of the draft. Logs of brokers contain little about them: most is a TODO or from a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chaos.incident.logs.client_settings import ClientSettings
from chaos.incident.logs.cluster_state import ClusterState, Group
from chaos.incident.logs.fault_plan import Plan
from chaos.incident.logs.planned_faults import NO_GROUP
from chaos.incident.logs.yaml_page import YamlPage

MAX_GROUPS = 5
DEFAULT_RATE, DEFAULT_RECORDS = 500, 8000


def producer_name(i: int) -> str:
    """Return the name of the producer of topic number i, from 0."""
    return "producer" if i == 0 else f"producer-{i + 1}"


def group_id(name: str) -> str:
    """Return a group id that scenarios allow."""
    return re.sub(r"[/\s\x00-\x1f\x7f]", "-", name)[:200] or "group"


def groups_of_interest(state: ClusterState, plan: Plan) -> list[Group]:
    """Return the groups of the draft: the targets of faults first, then others up to `MAX_GROUPS`."""
    targets = {f.target["member"][0] for f in plan.faults if "member" in f.target} - {NO_GROUP}
    targets |= {f.target["coordinator_of"] for f in plan.faults if "coordinator_of" in f.target}
    ordered = sorted(state.groups.values(), key=lambda g: (g.name not in targets, g.name))
    return ordered[: max(MAX_GROUPS, len(targets))]


def write_producers(
    page: YamlPage, topics: list[str], state: ClusterState, plan: Plan, settings: ClientSettings
) -> None:
    """Write one producer for each topic."""
    is_fenced = any(f.kind == "producer.fence" for f in plan.faults)
    transactional = settings.transactional or is_fenced or bool(state.transactional_ids)
    acked = [f.when["acked"] for f in plan.faults if "acked" in f.when]
    records = max([DEFAULT_RECORDS, *(2 * a for a in acked)])
    config = dict(settings.producer)
    if transactional:
        config = {k: v for k, v in config.items() if k not in ("acks", "enable.idempotence")}
    page.head("producers")
    page.todo("how many producers, how fast, how large records, which keys? Logs of brokers do not show it", 2)
    if transactional:
        page.todo("how many records has a transaction?", 2)
    if not settings.file:
        page.todo("acks, enable.idempotence, retries of producers? Give --clients FILE; the default is acks=all", 2)
    elif "acks" not in config and not transactional:
        page.todo(f"{settings.file} has no acks; a Java producer before 3.0 has acks=1, all others all", 2)
    source = next(iter(state.transactional_ids.values()), settings.file)
    for i, topic in enumerate(topics):
        producer = {
            "name": producer_name(i),
            "topic": topic,
            "rate": f"{DEFAULT_RATE}/s",
            "records": records,
            "outlast_faults": True,
            "transactions": {"records": 100} if transactional else None,
            "config": config or None,
        }
        page.item(producer, {"transactions": source, "config": settings.file})
    if settings.ignored:
        page.comment(f"keys of {settings.file} that are not used: {', '.join(settings.ignored)}", 2)
    page.gap()


def write_consumers(
    page: YamlPage,
    entries: Mapping[str, str],
    topics: list[str],
    state: ClusterState,
    plan: Plan,
    settings: ClientSettings,
) -> None:
    """Write one consumer entry for each group. `entries` are the names of the entries by group."""
    if not entries:
        page.todo("the logs name no group: consumers that assign partitions themselves leave no trace in broker logs")
        return
    page.head("consumers")
    page.todo("which topics does each group read, when does it commit, how long does a record take?", 2)
    if not settings.file:
        page.todo("auto.offset.reset, session.timeout.ms, max.poll.interval.ms? Give --clients FILE", 2)
    for name, entry in entries.items():
        group = state.groups[name]
        config: dict[str, Any] = {"auto.offset.reset": "earliest"} | settings.consumer
        if group.consumer_protocol:
            config["group.protocol"] = "consumer"
            for key in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
                config.pop(key, None)
        is_slow = any(f.kind == "consumer.slow" and f.target["member"][0] == name for f in plan.faults)
        if is_slow and "max.poll.interval.ms" not in settings.consumer:
            page.todo("max.poll.interval.ms is unknown; with 6 s a replay takes seconds", 2)
            config |= {"max.poll.interval.ms": 6000} | ({} if group.consumer_protocol else {"session.timeout.ms": 6000})
        consumer = {
            "mode": "subscribe",
            "name": entry,
            "group": group_id(name),
            "members": _members(plan, group),
            "topics": topics,
            "commit": {"when": "after_batch", "kind": "auto"} if settings.auto_commit else None,
            "max_poll_records": settings.max_poll_records or None,
            "config": config,
        }
        sources = {"mode": group.source} | dict.fromkeys(("commit", "max_poll_records", "config"), settings.file)
        page.item(consumer, sources)
    page.gap()


def _members(plan: Plan, group: Group) -> int:
    targets = [int(f.target["member"][1]) for f in plan.faults if f.target.get("member", ("",))[0] == group.name]
    return min(50, max([group.members, *targets]))
