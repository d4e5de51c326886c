"""The scenario as YAML: each part with the lines that it rests on, and a TODO for what they do not tell.

What is written is read back as a scenario before anybody gets it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from chaos.cluster.metadata_mode import Metadata, choose
from chaos.errors import UsageError
from chaos.incident.logs import chronicle, clientparts
from chaos.incident.logs.clients import Settings
from chaos.incident.logs.history import History
from chaos.incident.logs.inventory import Inventory, Topic
from chaos.incident.logs.plan import Plan
from chaos.incident.logs.text import Page, name_for
from chaos.incident.logs.timing import Planned
from chaos.scenario.load import parse
from chaos.scenario.setup import DEFAULT_KAFKA

MOST_BROKERS, MOST_TOPICS = 9, 5
DRIVE_S, MARGIN_S = 180, 120
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True)
class Origin:
    """Where it all comes from, for the head of the file."""

    folder: str
    zone: str
    zone_given: bool


def write(history: History, inventory: Inventory, plan: Plan, settings: Settings, origin: Origin) -> str:
    """The text of the file. Raises `ScenarioError` if it were no valid scenario: that would be a bug."""
    names = clientparts.Names(numbers(inventory))
    page = Page()
    _head(page, history, inventory, plan, settings, origin)
    topics, left = _of_interest(inventory, plan)
    for topic in topics:
        names.topics[topic.name] = _topic_name(topic.name, set(names.topics.values()))
    taken_entries = {clientparts.producer_name(i): "\0" for i in range(len(topics))}
    for group in clientparts.groups(inventory, plan):
        names.entries[group.name] = name_for(group.name, taken_entries)
    _cluster(page, inventory, plan, names)
    _topics(page, inventory, topics, left, names)
    clientparts.producers(page, inventory, plan, settings, names)
    clientparts.consumers(page, inventory, plan, settings, names)
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


def _cluster(page: Page, inventory: Inventory, plan: Plan, names: clientparts.Names) -> None:
    page.head("cluster")
    if plan.containers:
        page.put("driver", "docker", 2)
    ids = inventory.brokers
    if ids != list(names.brokers.values()):
        page.comment(
            f"brokers of the incident by number here: {', '.join(f'{n} is {b}' for b, n in names.brokers.items())}", 2
        )
    if len(ids) > MOST_BROKERS:
        page.todo(f"{len(ids)} brokers were seen; a scenario has at most {MOST_BROKERS}", 2)
    page.put("brokers", min(len(ids), MOST_BROKERS), 2)
    _release(page, inventory)
    config = {key: _scalar(text) for key, text in inventory.settings_of_interest().items()}
    if config:
        page.comment(f"settings of a broker that are not Kafka's defaults: {inventory.settings_source}", 2)
        page.head("config", 2)
        for key, setting in config.items():
            page.put(key, setting, 4)
    elif not inventory.settings:
        page.todo("the settings of the brokers are unknown (they are logged at a start): is any not the default?", 2)
    page.gap()


def _release(page: Page, inventory: Inventory) -> None:
    """The release, and where it keeps its metadata."""
    version = inventory.version
    metadata: Metadata = "zookeeper" if inventory.zookeeper else "kraft"
    usual = "3.2.3" if inventory.zookeeper else DEFAULT_KAFKA
    try:
        if version is None:
            raise UsageError("the logs do not tell it")
        if not _RELEASE.fullmatch(version):
            raise UsageError(f"{version} is not one of Apache Kafka's ({inventory.version_source})")
        choose(version, metadata, "process")
    except UsageError as e:
        page.todo(f"which release? {e}", 2)
        version = usual
    page.put("kafka", version, 2, inventory.version_source if version == inventory.version else "")
    if inventory.zookeeper:
        page.put("metadata", metadata, 2)


def _of_interest(inventory: Inventory, plan: Plan) -> tuple[list[Topic], list[str]]:
    """Topics that a fault aims at first; the names of those for which there is no room."""
    aimed = {str(p).rpartition("/")[0] for f in plan.faults for p in f.target.values()}
    ordered = sorted(inventory.topics.values(), key=lambda t: (t.name not in aimed, t.name))
    most = max(MOST_TOPICS, sum(t.name in aimed for t in ordered))
    made_up = Topic("orders", 1, min(3, len(inventory.brokers)))
    return ordered[:most] or [made_up], [t.name for t in ordered[most:]]


def _topics(page: Page, inventory: Inventory, topics: list[Topic], left: list[str], names: clientparts.Names) -> None:
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
        kept = {k: _scalar(v) for k, v in topic.properties.items() if re.fullmatch(r"[a-z][a-z.]*", k)}
        least = kept.get("min.insync.replicas", inventory.settings_of_interest().get("min.insync.replicas", "1"))
        needed = int(least) if str(least).isdigit() else 1
        brokers = len(set(names.brokers.values()))
        if topic.replicas < needed:
            page.todo(f"how many replicas? {topic.replicas} were seen, and min.insync.replicas is {needed}", 4)
        if brokers < needed:
            page.todo(f"min.insync.replicas was {needed}, more than there are brokers in these logs", 4)
            kept["min.insync.replicas"] = brokers
        page.put("replication_factor", min(max(topic.replicas, needed), brokers), 4)
        if kept:
            page.put("config", kept, 4)
    if left:
        page.comment(f"{len(left)} more topics were seen: {', '.join(left[:20])}{', …' if len(left) > 20 else ''}", 2)
    page.gap()


def _faults(page: Page, plan: Plan, names: clientparts.Names) -> None:
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


def _target(fault: Planned, names: clientparts.Names) -> dict[str, Any]:
    ((kind, what),) = fault.target.items()
    if kind == "member":
        group, number = what
        return {"member": f"{names.entries[group] if group else clientparts.producer_name(0)}/{number}"}
    if kind in ("leader_of", "follower_of", "followers_of"):
        topic, _, number = what.rpartition("/")
        return {kind: f"{names.topics.get(topic, topic)}/{number}"}
    return {kind: clientparts.group_id(what) if kind == "coordinator_of" else what}


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


def _scalar(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d{1,19}", text) else text
