"""Draft of a scenario as YAML: each value with its source in the logs, and a TODO for each open question."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaos.cluster.metadata_mode import Metadata, choose
from chaos.errors import UsageError
from chaos.incident.logs.broker_timeline import Timeline, read_timeline
from chaos.incident.logs.client_entries import (
    group_id,
    groups_of_interest,
    producer_name,
    write_consumers,
    write_producers,
)
from chaos.incident.logs.client_settings import ClientSettings, read_client_settings, scalar
from chaos.incident.logs.cluster_state import ClusterState, Topic, read_state
from chaos.incident.logs.entries import zone_of
from chaos.incident.logs.explain import write_explanation
from chaos.incident.logs.fault_plan import Plan, make_plan
from chaos.incident.logs.planned_faults import PlannedFault
from chaos.incident.logs.yaml_page import YamlPage, client_name, clock_time
from chaos.kafka.partition import TopicPartition
from chaos.scenario.load import parse
from chaos.scenario.setup import DEFAULT_KAFKA

MAX_BROKERS, MAX_TOPICS = 9, 5
DRIVE_S, MARGIN_S = 180, 120
"""Default of `limits.drive`, and time in addition to the triggers of the faults, in seconds."""
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


def draft_scenario(
    folder: Path,
    timezone: str | None = None,
    client_settings: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> str:
    """Return a scenario for the incident in the logs below a folder, as YAML with comments.

    Times without a zone are of `timezone`, by default UTC. Raises `UsageError` for invalid input, and `ScenarioError`
    if the text is no valid scenario, which would be a bug.
    """
    zone = zone_of(timezone or "UTC")
    settings = read_client_settings(client_settings)
    timeline = read_timeline(folder, zone, progress)
    state = read_state(timeline)
    numbers = {broker: i % MAX_BROKERS + 1 for i, broker in enumerate(state.brokers)}
    draft = _Draft(timeline, state, make_plan(timeline, state, settings, numbers), settings, numbers)
    draft.write_head(str(folder), timezone)
    draft.write_cluster()
    draft.write_topics()
    topics = list(draft.topic_names.values())
    write_producers(draft.page, topics, state, draft.plan, settings)
    write_consumers(draft.page, draft.entry_names, topics, state, draft.plan, settings)
    draft.write_faults()
    draft.write_contract()
    write_explanation(draft.page, timeline)
    text = draft.page.text()
    parse(text, "the draft")
    return text


@dataclass
class _Draft:
    """Writer of the parts. The fields from `topics` on are the scenario's topics and names."""

    timeline: Timeline
    state: ClusterState
    plan: Plan
    settings: ClientSettings
    broker_numbers: dict[int, int]
    page: YamlPage = field(default_factory=YamlPage)
    topics: list[Topic] = field(default_factory=list)
    topic_names: dict[str, str] = field(default_factory=dict)
    entry_names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the topics, targets of faults first, and the names of topics and consumer entries."""
        targets = {t.topic for f in self.plan.faults for t in f.target.values() if isinstance(t, TopicPartition)}
        self.topics = sorted(self.state.topics.values(), key=lambda t: (t.name not in targets, t.name))
        self.topics = self.topics[: max(MAX_TOPICS, sum(t.name in targets for t in self.topics))]
        self.topics = self.topics or [Topic("orders", 1, min(3, len(self.state.brokers)))]
        for topic in self.topics:
            self.topic_names[topic.name] = _topic_name(topic.name, set(self.topic_names.values()))
        used = {producer_name(i): "\0" for i in range(len(self.topics))}
        for group in groups_of_interest(self.state, self.plan):
            self.entry_names[group.name] = client_name(group.name, used)

    def write_head(self, folder: str, timezone: str | None) -> None:
        """Write the comments on the logs, and the title."""
        page, timeline = self.page, self.timeline
        begin, end = (_utc(us) for us in (timeline.began_us, timeline.ended_us))
        page.comment("Draft of a scenario, written from logs by: python -m chaos incident from-logs")
        page.comment(f"Logs: {folder}: {', '.join(log.name for log in timeline.files.logs)}")
        if timeline.files.skipped:
            page.comment(f"Not read: {', '.join(timeline.files.skipped)}")
        page.comment(f"They cover {begin} to {end} UTC. All times in this file are UTC.")
        page.comment("A comment names the file and line behind a value. Answer each TODO: the logs do not.")
        if timeline.assumed_zone and timezone is None:
            page.todo("the logs write times without a zone, and UTC was assumed; --timezone sets another zone")
        elif timeline.assumed_zone:
            page.comment(f"The logs write times without a zone; --timezone says {timezone}.")
        for problem in timeline.files.problems:
            page.todo(problem)
        if missing := [str(b) for b in self.state.brokers if b not in timeline.nodes]:
            page.todo(f"the folder has no log of broker {', '.join(missing)}; only the logs of others mention it")
        page.gap()
        faults = self.plan.faults
        summary = dict.fromkeys(f.comments[0].split(";")[0] for f in faults if f.name != "freeze" and f.comments)
        title = "; ".join([*summary][:3]) or "no failure was found"
        at = _utc(faults[0].at_us if faults else timeline.began_us)
        page.put("title", f"Incident of {at} UTC: {title}"[:200])
        page.gap()

    def write_cluster(self) -> None:
        """Write the cluster."""
        page, state = self.page, self.state
        page.head("cluster")
        if self.plan.containers:
            page.put("driver", "docker", 2)
        ids = state.brokers
        if ids != list(self.broker_numbers.values()):
            pairs = ", ".join(f"{number} is {broker}" for broker, number in self.broker_numbers.items())
            page.comment(f"numbers of the brokers in the incident: {pairs}", 2)
        if len(ids) > MAX_BROKERS:
            page.todo(f"the logs name {len(ids)} brokers; a scenario has at most {MAX_BROKERS}", 2)
        page.put("brokers", min(len(ids), MAX_BROKERS), 2)
        self._write_release()
        if config := state.changed_settings():
            page.comment(f"settings of a broker that are not Kafka's defaults: {state.settings_source}", 2)
            page.head("config", 2)
            for key, setting in config.items():
                page.put(key, scalar(setting), 4)
        elif not state.settings:
            page.todo("the broker settings are unknown (a broker logs them when it starts): which are no defaults?", 2)
        page.gap()

    def _write_release(self) -> None:
        version = self.state.version
        metadata: Metadata = "zookeeper" if self.state.zookeeper else "kraft"
        try:
            if version is None:
                raise UsageError("the logs do not name it")
            if not _RELEASE.fullmatch(version.version):
                raise UsageError(f"{version.version} is not one of Apache Kafka's ({version.source})")
            choose(version.version, metadata, "process")
            self.page.put("kafka", version.version, 2, version.source)
        except UsageError as e:
            self.page.todo(f"which release? {e}", 2)
            self.page.put("kafka", "3.2.3" if self.state.zookeeper else DEFAULT_KAFKA, 2)
        if self.state.zookeeper:
            self.page.put("metadata", metadata, 2)

    def write_topics(self) -> None:
        """Write the topics, and the names of those beyond `MAX_TOPICS`."""
        page = self.page
        page.head("topics")
        for topic in self.topics:
            self._write_topic(topic)
        if omitted := sorted(self.state.topics.keys() - self.topic_names.keys()):
            names = ", ".join(omitted[:20]) + (", …" if len(omitted) > 20 else "")
            page.comment(f"{len(omitted)} more topics in the logs: {names}", 2)
        page.gap()

    def _write_topic(self, topic: Topic) -> None:
        page = self.page
        name = self.topic_names[topic.name]
        if topic.source is None:
            page.todo("the logs name no topic; this one is an example", 2)
        elif not topic.is_sized:
            page.todo("how many partitions? The logs imply at least these", 2)
        if name != topic.name:
            page.comment(f"called {topic.name!r} in the incident", 2)
        config = {k: scalar(v) for k, v in topic.properties.items() if re.fullmatch(r"[a-z][a-z.]*", k)}
        min_isr = str(config.get("min.insync.replicas", self.state.settings.get("min.insync.replicas", "1")))
        needed = int(min_isr) if min_isr.isdigit() else 1
        brokers = len(set(self.broker_numbers.values()))
        if topic.replicas < needed:
            page.todo(f"how many replicas? The logs name {topic.replicas}, and min.insync.replicas is {needed}", 2)
        if brokers < needed:
            page.todo(f"min.insync.replicas was {needed}, more than the number of brokers in these logs", 2)
            config["min.insync.replicas"] = brokers
        entry = {
            "name": name,
            "partitions": min(topic.partitions, 1000),
            "replication_factor": min(max(topic.replicas, needed), brokers),
            "config": config or None,
        }
        page.item(entry, {"name": topic.source or ""})

    def write_faults(self) -> None:
        """Write the faults, each below its comments, sources and open questions."""
        page, plan = self.page, self.plan
        if not plan.faults:
            page.todo("the logs show no fault; what failed? (see the events below)")
            return
        page.head("faults")
        for fault in plan.faults:
            page.comment(f"{clock_time(fault.at_us)} {'; '.join(fault.comments)}", 2)
            for source in fault.signs:
                page.comment(f"  {source}: {source.text[:84]}", 2)
            for todo in fault.todos:
                page.todo(todo, 2)
            entry = {"name": fault.name, "kind": fault.kind, "target": self._target(fault), "when": fault.when}
            sources = {"when": ", ".join(map(str, plan.records_sources))} if "acked" in fault.when else {}
            page.item({**entry, **fault.options, "heal": fault.heal}, sources)
        if plan.left_out:
            page.todo(f"{plan.left_out} later faults are left out: see the events below", 2)
        page.gap()

    def _target(self, fault: PlannedFault) -> dict[str, Any]:
        """Return the target with the scenario's names."""
        ((kind, target),) = fault.target.items()
        if kind == "member":
            group, number = target
            return {"member": f"{self.entry_names[group] if group else producer_name(0)}/{number}"}
        if isinstance(target, TopicPartition):
            return {kind: f"{self.topic_names[target.topic]}/{target.number}"}
        return {kind: group_id(target) if kind == "coordinator_of" else target}

    def write_contract(self) -> None:
        """Write the expected anomalies, and a longer limit if the faults need it."""
        page = self.page
        page.comment("Anomalies that are not listed here must not occur.")
        page.todo("what did the users see? Demand it, such as skipped_delivery: {min: 1}, until the replay shows it")
        expect: dict[str, Any] = {}
        if self.plan.loses_records:
            page.comment("acknowledged records are lost: see the lines above each fault, and below")
            expect |= {"lost_write": {"min": 1}, "offset_reuse": {"min": 0}, "dirty_read": {"min": 0}}
        if self.settings.producer.get("enable.idempotence") is False:
            page.comment("without idempotence, retries may write a record twice, or out of order")
            expect |= {"duplicate_write": {"min": 0}, "reordered_write": {"min": 0}}
        if self.state.groups:
            expect["duplicate_delivery"] = {"illegal": 0}
        page.put("expect", expect)
        drive_s = sum(_trigger_seconds(f) for f in self.plan.faults) + MARGIN_S
        if drive_s > DRIVE_S:
            page.put("limits", {"drive": f"{round(drive_s)}s"})
        page.gap()


def _topic_name(text: str, used: set[str]) -> str:
    """Return the name of a topic, changed where scenarios do not allow it or it is used already."""
    name = base = re.sub(r"[^A-Za-z0-9._-]", "-", text)[:200] or "topic"
    n = 1
    while name in used:
        n += 1
        name = f"{base}-{n}"
    return name


def _trigger_seconds(fault: PlannedFault) -> float:
    """Return the sum of all durations in the triggers of a fault."""
    durations = re.findall(r"(\d+(?:\.\d+)?)(ms|s)\b", f"{fault.when} {fault.heal}")
    return sum(float(n) / (1000 if unit == "ms" else 1) for n, unit in durations)


def _utc(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}"
