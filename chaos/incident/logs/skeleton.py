"""The scenario as YAML: each part with the lines that it rests on, and a TODO for what they do not tell.

What is written is read back as a scenario before anybody gets it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from chaos.cluster.metadata import choose
from chaos.errors import UsageError
from chaos.incident.logs import chronicle
from chaos.incident.logs.clients import Settings
from chaos.incident.logs.history import History
from chaos.incident.logs.inventory import Group, Inventory, Topic
from chaos.incident.logs.plan import Plan
from chaos.incident.logs.text import Page, name_for
from chaos.incident.logs.timing import Planned
from chaos.scenario import parse
from chaos.scenario.model import DEFAULT_KAFKA

MOST_BROKERS, MOST_TOPICS, MOST_GROUPS = 9, 5, 5
USUAL_RATE, USUAL_RECORDS = 500, 8000
DRIVE_S, MARGIN_S = 180, 120
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


@dataclass
class Names:
    """The scenario's names, by those of the incident."""

    brokers: dict[int, int]
    topics: dict[str, str] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)
    """Of consumers, by group; the producer is called `producer`."""


@dataclass(frozen=True)
class Origin:
    """Where it all comes from, for the head of the file."""

    folder: str
    zone: str
    zone_given: bool


def write(history: History, inventory: Inventory, plan: Plan, settings: Settings, origin: Origin) -> str:
    """The text of the file. Raises `ScenarioError` if it were no valid scenario: that would be a bug."""
    names = Names(numbers(inventory))
    page = Page()
    _head(page, history, inventory, plan, settings, origin)
    topics, left = _of_interest(inventory, plan)
    for topic in topics:
        names.topics[topic.name] = _topic_name(topic.name, set(names.topics.values()))
    taken_entries = {"producer": "\0"}
    for group in _groups(inventory, plan):
        names.entries[group.name] = name_for(group.name, taken_entries)
    _cluster(page, inventory, names)
    _topics(page, topics, left, names)
    _producers(page, inventory, plan, settings, names)
    _consumers(page, inventory, plan, settings, names)
    _faults(page, plan, names)
    _contract(page, inventory, plan, settings)
    chronicle.write(page, history, inventory)
    parse(page.text(), "the skeleton")
    return page.text()


def _topic_name(text: str, taken: set[str]) -> str:
    """A topic's own name where a scenario allows it, else one near it."""
    name = base = re.sub(r"[^A-Za-z0-9._-]", "-", text)[:200] or "topic"
    n = 1
    while name in taken:
        n += 1
        name = f"{base}-{n}"
    return name


def numbers(inventory: Inventory) -> dict[int, int]:
    """The scenario's numbers of the brokers, from 1 in the order of their ids."""
    return {broker: i % MOST_BROKERS + 1 for i, broker in enumerate(inventory.brokers)}


def _head(page: Page, history: History, inventory: Inventory, plan: Plan, settings: Settings, origin: Origin) -> None:
    begin, end = (datetime.fromtimestamp(us / 1e6, UTC) for us in (history.began_us, history.ended_us))
    page.comment("The skeleton of a scenario, written from logs by: python -m chaos incident from-logs")
    page.comment(f"Logs: {origin.folder}: {', '.join(history.files)}")
    if history.skipped:
        page.comment(f"Not read: {', '.join(history.skipped)}")
    page.comment(f"They tell of {begin:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC. All times here are UTC.")
    page.comment("Comments name the file and line that a value comes from. Look for TODO: that is what no log tells.")
    if history.guessed_zone and not origin.zone_given:
        page.todo("the logs write times without a zone, and UTC was assumed; --timezone says otherwise")
    elif history.guessed_zone:
        page.comment(f"The logs write times without a zone; --timezone says {origin.zone}.")
    for problem in history.problems:
        page.todo(problem)
    without = [str(b) for b in inventory.brokers if b not in history.nodes]
    if without:
        page.todo(f"there is no log of broker {', '.join(without)}; what others say of it is all that is known")
    page.gap()
    begins = datetime.fromtimestamp((plan.faults[0].at_us if plan.faults else history.began_us) / 1e6, UTC)
    page.put("title", f"Incident of {begins:%Y-%m-%d %H:%M:%S} UTC: {_summary(plan)}"[:200])
    page.gap()


def _summary(plan: Plan) -> str:
    words = list(dict.fromkeys(f.says[0].split(";")[0] for f in plan.faults if f.name != "freeze" and f.says))
    return "; ".join(words[:3]) or "nothing was seen to fail"


def _cluster(page: Page, inventory: Inventory, names: Names) -> None:
    page.head("cluster")
    ids = inventory.brokers
    if ids != list(names.brokers.values()):
        page.comment(
            f"brokers of the incident by number here: {', '.join(f'{n} is {b}' for b, n in names.brokers.items())}", 2
        )
    if len(ids) > MOST_BROKERS:
        page.todo(f"{len(ids)} brokers were seen; a scenario has at most {MOST_BROKERS}", 2)
    page.put("brokers", min(len(ids), MOST_BROKERS), 2)
    if inventory.version and _RELEASE.fullmatch(inventory.version):
        page.put("kafka", inventory.version, 2, inventory.version_source)
    else:
        page.todo("which release? The logs do not tell it", 2)
        page.put("kafka", "3.2.3" if inventory.zookeeper else DEFAULT_KAFKA, 2)
    if inventory.zookeeper:
        try:
            choose(inventory.version or "3.2.3", "zookeeper", "process")
            page.put("metadata", "zookeeper", 2)
        except UsageError as e:
            page.todo(f"the cluster had ZooKeeper, which a scenario cannot have with this release ({e})", 2)
    config = {key: _scalar(text) for key, text in inventory.settings_of_interest().items()}
    if config:
        page.comment(f"settings of a broker that are not Kafka's defaults: {inventory.settings_source}", 2)
        page.head("config", 2)
        for key, setting in config.items():
            page.put(key, setting, 4)
    elif not inventory.settings:
        page.todo("the settings of the brokers are unknown (they are logged at a start): is any not the default?", 2)
    page.gap()


def _of_interest(inventory: Inventory, plan: Plan) -> tuple[list[Topic], list[str]]:
    """Topics that a fault aims at first; the names of those for which there is no room."""
    aimed = {str(p).rpartition("/")[0] for f in plan.faults for p in f.target.values()}
    ordered = sorted(inventory.topics.values(), key=lambda t: (t.name not in aimed, t.name))
    return ordered[:MOST_TOPICS] or [Topic("orders", 1, min(3, len(inventory.brokers)))], [
        t.name for t in ordered[MOST_TOPICS:]
    ]


def _topics(page: Page, topics: list[Topic], left: list[str], names: Names) -> None:
    page.head("topics")
    for topic in topics:
        if topic.source is None:
            page.todo("no topic was seen; this one is made up", 2)
        if names.topics[topic.name] != topic.name:
            page.comment(f"called {topic.name!r} in the incident", 2)
        if topic.source is not None and not topic.sized:
            page.todo("how many partitions? So many were seen", 2)
        page.put("name", names.topics[topic.name], 2, topic.source or "", item=True)
        page.put("partitions", min(topic.partitions, 1000), 4)
        page.put("replication_factor", min(topic.replicas, len(set(names.brokers.values()))), 4)
        kept = {k: _scalar(v) for k, v in topic.properties.items() if re.fullmatch(r"[a-z][a-z.]*", k)}
        if kept:
            page.put("config", kept, 4)
    if left:
        page.comment(f"{len(left)} more topics were seen: {', '.join(left[:20])}{', …' if len(left) > 20 else ''}", 2)
    page.gap()


def _producers(page: Page, inventory: Inventory, plan: Plan, settings: Settings, names: Names) -> None:
    page.head("producers")
    transactional = settings.transactional or bool(inventory.transactional_ids)
    acked = [f.when["acked"] for f in plan.faults if "acked" in f.when]
    records = max([USUAL_RECORDS, *(2 * a for a in acked)])
    for i, topic in enumerate(names.topics.values()):
        entry = "producer" if i == 0 else f"producer-{i + 1}"
        if i == 0:
            page.todo("how many producers, how fast, how large records, which keys? No log of a broker tells", 2)
        page.put("name", entry, 2, item=True)
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


def _groups(inventory: Inventory, plan: Plan) -> list[Group]:
    aimed = {f.target["member"][0] for f in plan.faults if "member" in f.target}
    aimed |= {f.target["coordinator_of"] for f in plan.faults if "coordinator_of" in f.target}
    ordered = sorted(inventory.groups.values(), key=lambda g: (g.name not in aimed, g.name))
    return ordered[: max(MOST_GROUPS, len(aimed))]


def _consumers(page: Page, inventory: Inventory, plan: Plan, settings: Settings, names: Names) -> None:
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


def _faults(page: Page, plan: Plan, names: Names) -> None:
    if not plan.faults:
        page.todo("no fault was found in the logs; what broke? (see what they say below)")
        return
    page.head("faults")
    for fault in plan.faults:
        when = datetime.fromtimestamp(fault.at_us / 1e6, UTC)
        page.comment(f"{when:%H:%M:%S.%f}"[:-3] + f" {'; '.join(fault.says)}", 2)
        for source in fault.signs:
            page.comment(f"  {source}: {source.text[:84]}", 2)
        for doubt in fault.todo:
            page.todo(doubt, 2)
        page.put("name", fault.name, 2, item=True)
        page.put("kind", fault.kind, 4)
        page.put("target", _target(fault, names), 4)
        page.put("when", fault.when, 4, ", ".join(map(str, plan.records_sources)) if "acked" in fault.when else "")
        for key, data in fault.more.items():
            page.put(key, data, 4)
        if fault.heal:
            page.put("heal", fault.heal, 4)
    if plan.left_out:
        page.todo(f"{plan.left_out} later faults were left out: see what the logs say below", 2)
    page.gap()


def _target(fault: Planned, names: Names) -> dict[str, Any]:
    ((kind, what),) = fault.target.items()
    if kind == "member":
        group, number = what
        return {"member": f"{names.entries.get(group, 'producer')}/{number}"}
    if kind in ("leader_of", "follower_of", "followers_of"):
        topic, _, number = what.rpartition("/")
        return {kind: f"{names.topics.get(topic, topic)}/{number}"}
    return {kind: group_id(what) if kind == "coordinator_of" else what}


def _contract(page: Page, inventory: Inventory, plan: Plan, settings: Settings) -> None:
    page.comment("What is not named here must not appear at all.")
    page.todo("what did the users see? Demand it, such as skipped_delivery: {min: 1}, until the replay shows it")
    expect: dict[str, Any] = {}
    if plan.loses:
        page.comment("records that were acknowledged are gone: see the lines above each fault, and below")
        expect |= {"lost_write": {"min": 1}, "offset_reuse": {"min": 0}, "dirty_read": {"min": 0}}
    if settings.producer.get("enable.idempotence") is False:
        page.comment("without idempotence, retries may write a record twice, or out of order")
        expect |= {"duplicate_write": {"min": 0}, "reordered_write": {"min": 0}}
    if inventory.groups:
        expect["duplicate_delivery"] = {"illegal": 0}
    page.put("expect", expect)
    drive = sum(_seconds(f) for f in plan.faults) + MARGIN_S
    if drive > DRIVE_S:
        page.put("limits", {"drive": f"{round(drive)}s"})
    page.gap()


def _seconds(fault: Planned) -> float:
    found = re.findall(r"(\d+(?:\.\d+)?)(ms|s)\b", f"{fault.when} {fault.heal}")
    return sum(float(n) / (1000 if unit == "ms" else 1) for n, unit in found)


def group_id(name: str) -> str:
    """A group id that a scenario allows."""
    return re.sub(r"[/\s\x00-\x1f\x7f]", "-", name)[:200] or "group"


def _scalar(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d{1,19}", text) else text
