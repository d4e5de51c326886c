"""Draft of a scenario: the values of `draft.yaml.jinja`, which has a TODO for each open question.

A YAML library quotes all values of the template: text from logs cannot break out of one.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from chaos.cluster.settings import choose_metadata
from chaos.errors import UsageError
from chaos.incident.logs import events as e
from chaos.incident.logs.broker_timeline import Timeline, read_timeline
from chaos.incident.logs.client_settings import ClientSettings, read_client_settings, scalar
from chaos.incident.logs.cluster_state import ClusterState, Group, Topic, internal, read_state
from chaos.incident.logs.entries import zone_of
from chaos.incident.logs.fault_plan import NO_GROUP, Plan, PlannedFault, make_plan
from chaos.kafka.partition import TopicPartition
from chaos.scenario.load import parse
from chaos.scenario.members import SESSION_MS
from chaos.scenario.setting_rules import BROKER, LEAST_SESSION, LIMITS_MS, MOST_SESSION, MOST_TRANSACTION, TOPIC
from chaos.settings import setting_problem
from chaos.setup.clients import Transactions
from chaos.setup.model import DEFAULT_KAFKA

WIDTH = 118


def plain(text: str) -> str:
    r"""Return text as one line of printable ASCII; other characters are escaped, such as \x1b or \u2028."""
    return "".join(c if c.isascii() and c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def utc(at_us: int) -> str:
    """Return the date and time in UTC."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}"


def clock(at_us: int) -> str:
    """Return the time of day in UTC, with milliseconds."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%H:%M:%S.%f}"[:-3]


def render(template: str, **values: Any) -> str:
    """Render a template in this folder."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"yaml": _flow, "comment": _comment, "todo": _todo, "source": _source}
    environment.filters |= {"utc": utc, "clock": clock}
    return environment.get_template(template).render(**values)


def _flow(data: Any) -> str:
    """Return a value in flow style, quoted and escaped where necessary."""
    text = yaml.safe_dump(data, default_flow_style=True, width=10**6, allow_unicode=False, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _comment(text: str, indent: int = 0) -> str:
    margin = f"{' ' * indent}# "
    lines = textwrap.wrap(
        plain(text), WIDTH, initial_indent=margin, subsequent_indent=f"{margin}  ", break_on_hyphens=False
    )
    return "\n".join(lines)


def _todo(text: str, indent: int = 0) -> str:
    return _comment(f"TODO: {text}", indent)


def _source(source: object) -> str:
    """Return the source of a value as a comment behind it."""
    return f"  # {plain(str(source))}" if source else ""


MAX_BROKERS, MAX_TOPICS, MAX_GROUPS = 9, 5, 5
BROKERS = 3
"""Brokers of a draft from logs that name none."""
MARGIN_S = 120
"""Time of the drive in addition to the triggers of the faults."""
EXAMPLE = "orders"
"""Topic of a draft from logs that name none."""
RECORDS = 8000
"""Default number of records of a producer."""
TOGETHER_US = 2 * 10**6
"""Maximum time between events of one kind that share a line of the explanation."""
_SEPARATE = (
    e.BrokerFenced,
    e.UncleanElection,
    e.Truncated,
    e.MemberFailed,
    e.MemberLeft,
    e.RebalanceBegan,
    e.RebalanceDone,
)
"""Events that always have a line for themselves."""
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


def draft_scenario(
    folder: Path,
    timezone: str | None = None,
    client_settings: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
    select: tuple[str, ...] = (),
) -> str:
    """Return a scenario for the incident in the logs below a folder, as YAML with comments.

    Times without a zone are of `timezone`, by default UTC. Raises `UsageError` for invalid input, and `ScenarioError`
    if the text is no valid scenario, which would be a bug.
    """
    zone = zone_of(timezone or "UTC")
    settings = read_client_settings(client_settings, select)
    timeline = read_timeline(folder, zone, progress)
    state = read_state(timeline)
    numbers = {broker: i % MAX_BROKERS + 1 for i, broker in enumerate(state.brokers)}
    draft = _Draft(timeline, state, make_plan(timeline, state, settings, numbers), settings, numbers)
    inputs = {"folder": folder, "timezone": timezone, "timeline": timeline, "settings": settings}
    text = render("draft.yaml.jinja", **inputs, state=state, plan=draft.plan, draft=draft)
    parse(text, "the draft")
    return text


@dataclass
class _Draft:
    """Values for the template. `numbers` are the scenario's numbers by broker."""

    timeline: Timeline
    state: ClusterState
    plan: Plan
    settings: ClientSettings
    numbers: dict[int, int]

    @cached_property
    def topic_names(self) -> dict[str, str]:
        """The scenario's names of the topics by name: targets of faults first, then others up to `MAX_TOPICS`."""
        targets = {t.topic for f in self.plan.faults for t in f.target.values() if isinstance(t, TopicPartition)}
        found = sorted(self.state.topics, key=lambda name: (name not in targets, name)) or [EXAMPLE]
        names: dict[str, str] = {}
        for name in found[: max(MAX_TOPICS, sum(name in targets for name in found))]:
            names[name] = _unused(re.sub(r"[^A-Za-z0-9._-]", "-", name)[:200] or "topic", names.values())
        return names

    @cached_property
    def entry_names(self) -> dict[str, str]:
        """Names of consumer entries by group: the targets of faults first, then others up to `MAX_GROUPS`."""
        faults = self.plan.faults
        targets = {f.target["member"][0] for f in faults if "member" in f.target} - {NO_GROUP}
        targets |= {f.target["coordinator_of"] for f in faults if "coordinator_of" in f.target}
        found = sorted(self.state.groups, key=lambda group: (group not in targets, group))
        names: dict[str, str] = {}
        for group in found[: max(MAX_GROUPS, len(targets))]:
            name = re.sub(r"[^A-Za-z0-9_-]+", "-", group).strip("-_")[:12].strip("-_") or "client"
            producers = map(_producer_name, range(len(self.topic_names)))
            names[group] = _unused(name, {*producers, *names.values()}, cut=10)
        return names

    @property
    def broker_count(self) -> int:
        """The number of brokers of the scenario; `BROKERS` if the logs name none."""
        return min(len(self.state.brokers) or BROKERS, MAX_BROKERS)

    def topics(self) -> list[dict[str, Any]]:
        example = Topic(EXAMPLE, 1, min(3, self.broker_count))
        return [self._topic(self.state.topics.get(found, example), name) for found, name in self.topic_names.items()]

    def explanation(self) -> list[str]:
        """Return the relevant events by time, a line for each group of events of one kind that follow closely."""
        groups: list[list[e.Event]] = []
        latest: dict[tuple[type[e.Event], int], list[e.Event]] = {}
        unclean: set[tuple[TopicPartition | None, int]] = set()
        coordinating: set[tuple[int, TopicPartition]] = set()
        for event in self.timeline.events:
            match event:
                case e.CoordinatorLoaded():
                    coordinating.add((event.node, event.partition))
                case e.CoordinatorUnloaded() if (event.node, event.partition) not in coordinating:
                    continue  # when a broker starts, it resigns from partitions that it did not coordinate
                case e.UncleanElection():
                    if (event.partition, event.leader) in unclean:
                        continue  # another controller logs it, too
                    unclean.add((event.partition, event.leader))
            if not _is_relevant(event):
                continue
            group = latest.get((type(event), event.node))
            if group and event.at_us - group[-1].at_us <= TOGETHER_US and not isinstance(event, _SEPARATE):
                group.append(event)
            else:
                latest[type(event), event.node] = [event]
                groups.append(latest[type(event), event.node])
        return [
            f"{clock(first.at_us)}  {first.describe()}{f' (and {len(others)} more like it)' if others else ''}"
            f"  {first.source}"
            for first, *others in groups
        ]

    def renumbered(self) -> list[str]:
        """Return the scenario's numbers of brokers as text, if any differs."""
        pairs = self.numbers.items()
        return [f"{number} is {broker}" for broker, number in pairs if any(n != b for b, n in pairs)]

    def changed_settings(self) -> dict[str, Any]:
        """Return the broker settings without defaults that the release of the draft takes.

        The logs and the settings of the clients may be of different clusters: then the limits of the brokers give way.
        """
        release = self.release["version"]
        found = {key: scalar(text) for key, text in self.state.changed_settings().items()}
        given = [c["config"].get("session.timeout.ms", SESSION_MS) for c in self.consumers()]
        sessions = [ms for ms in given if isinstance(ms, int)]
        needed = {LEAST_SESSION: (min, sessions), MOST_SESSION: (max, sessions)}
        needed[MOST_TRANSACTION] = (max, [round(Transactions().timeout * 1000)] * self.producers()["transactional"])
        for name, (outer, values) in needed.items():
            limit = found.get(name, LIMITS_MS[name])
            if (bound := outer([limit, *values])) != limit:
                found[name] = bound
        return {k: v for k, v in found.items() if not setting_problem(BROKER, release, f"Kafka {release}", k, v)}

    def title(self) -> str:
        faults = self.plan.faults
        summary = dict.fromkeys(f.comments[0].split(";")[0] for f in faults if f.name != "freeze" and f.comments)
        title = "; ".join([*summary][:3]) or "no failure was found"
        return f"Incident of {utc(faults[0].at_us if faults else self.timeline.began_us)} UTC: {title}"[:200]

    @cached_property
    def release(self) -> dict[str, Any]:
        """The Kafka release with its source; a default with the problem if the logs name no usable one."""
        found = self.state.version
        try:
            if found is None:
                raise UsageError("the logs do not name it")
            if not _RELEASE.fullmatch(found.version):
                raise UsageError(f"{found.version} is not one of Apache Kafka's ({found.source})")
            choose_metadata(found.version, "zookeeper" if self.state.zookeeper else "kraft", "process")
        except UsageError as e:
            default = "3.2.3" if self.state.zookeeper else DEFAULT_KAFKA
            return {"version": default, "source": None, "problem": str(e)}
        return {"version": found.version, "source": found.source, "problem": ""}

    def _topic(self, topic: Topic, name: str) -> dict[str, Any]:
        config = {k: scalar(v) for k, v in topic.properties.items() if re.fullmatch(r"[a-z][a-z.]*", k)}
        release = self.release["version"]
        wrong = {k: p for k, v in config.items() if (p := setting_problem(TOPIC, release, f"Kafka {release}", k, v))}
        config = {k: v for k, v in config.items() if k not in wrong}
        min_isr = str(config.get("min.insync.replicas", self.state.settings.get("min.insync.replicas", "1")))
        needed = int(min_isr) if min_isr.isdigit() else 1
        brokers = self.broker_count
        todos = [f"left out: {name} {problem}" for name, problem in wrong.items()]
        if topic.replicas < needed:
            todos.append(f"how many replicas? The logs name {topic.replicas}, and min.insync.replicas is {needed}")
        if brokers < needed:
            todos.append(f"min.insync.replicas was {needed}, more than the number of brokers in these logs")
            config["min.insync.replicas"] = brokers
        return {
            "found": topic,
            "todos": todos,
            "name": name,
            "partitions": min(topic.partitions, 1000),
            "replicas": min(max(topic.replicas, needed), brokers),
            "config": config,
        }

    def producers(self) -> dict[str, Any]:
        """Return the values that all producers share. There is one producer for each topic."""
        faults, ids = self.plan.faults, self.state.transactional_ids
        fenced = any(f.kind == "producer.fence" for f in faults)
        transactional = self.settings.transactional or fenced or bool(ids)
        left_out = ("acks", "enable.idempotence") if transactional else ()
        return {
            "names": [_producer_name(i) for i in range(len(self.topic_names))],
            "records": max([RECORDS, *(2 * f.when["acked"] for f in faults if "acked" in f.when)]),
            "transactional": transactional,
            "source": next(iter(ids.values()), self.settings.file),
            "config": {k: v for k, v in self.settings.producer.items() if k not in left_out},
        }

    def consumers(self) -> list[dict[str, Any]]:
        return [self._consumer(self.state.groups[group], name) for group, name in self.entry_names.items()]

    def _consumer(self, group: Group, name: str) -> dict[str, Any]:
        config: dict[str, Any] = {"auto.offset.reset": "earliest"} | self.settings.consumer
        is_new_protocol = group.consumer_protocol or config.get("group.protocol") == "consumer"
        is_preview = is_new_protocol and int(self.release["version"].split(".")[0]) < 4
        if is_preview:
            config.pop("group.protocol", None)
        elif is_new_protocol:
            config["group.protocol"] = "consumer"
            for key in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
                config.pop(key, None)
        poll_ms = config.get("max.poll.interval.ms")
        if isinstance(poll_ms, int) and "group.protocol" not in config:  # librdkafka takes no longer session
            session_ms = config.get("session.timeout.ms", SESSION_MS)
            if isinstance(session_ms, int) and session_ms > poll_ms:
                config["session.timeout.ms"] = poll_ms
        members = [(f.kind, int(f.target["member"][1])) for f in self.plan.faults if _is_member_of(group, f)]
        is_guess = "consumer.slow" in dict(members) and "max.poll.interval.ms" not in self.settings.consumer
        if is_guess:
            config |= {"max.poll.interval.ms": 6000} | (
                {} if "group.protocol" in config else {"session.timeout.ms": 6000}
            )
        return {
            "name": name,
            "group": _group_id(group.name),
            "source": group.source,
            "members": min(50, max([group.members, *(number for _, number in members)])),
            "config": config,
            "is_preview": is_preview,
            "guessed_poll_interval": is_guess,
        }

    def expect(self) -> dict[str, Any]:
        expect: dict[str, Any] = {}
        if self.plan.loses_records:
            expect |= {"lost_write": {"min": 1}, "offset_reuse": {"min": 0}, "dirty_read": {"min": 0}}
        if self.settings.producer.get("enable.idempotence") is False:
            expect |= {"duplicate_write": {"min": 0}, "reordered_write": {"min": 0}}
        if self.state.groups:
            expect["duplicate_delivery"] = {"illegal": 0}
        return expect

    def target(self, fault: PlannedFault) -> dict[str, Any]:
        """Return the target with the scenario's names."""
        ((kind, target),) = fault.target.items()
        if kind == "member":
            group, number = target
            return {"member": f"{self.entry_names[group] if group else _producer_name(0)}/{number}"}
        if isinstance(target, TopicPartition):
            return {kind: f"{self.topic_names[target.topic]}/{target.number}"}
        return {kind: _group_id(target) if kind == "coordinator_of" else target}

    def drive_s(self) -> float:
        """Return the sum of all durations in the triggers of the faults, and a margin."""
        triggers = " ".join(f"{fault.when} {fault.heal}" for fault in self.plan.faults)
        durations = re.findall(r"(\d+(?:\.\d+)?)(ms|s)\b", triggers)
        return sum(float(n) / (1000 if unit == "ms" else 1) for n, unit in durations) + MARGIN_S


def _is_member_of(group: Group, fault: PlannedFault) -> bool:
    return "member" in fault.target and fault.target["member"][0] == group.name


def _producer_name(i: int) -> str:
    """Return the name of the producer of topic number i, from 0."""
    return "producer" if i == 0 else f"producer-{i + 1}"


def _group_id(name: str) -> str:
    """Return a group id that scenarios allow."""
    return re.sub(r"[/\s\x00-\x1f\x7f]", "-", name)[:200] or "group"


def _unused(name: str, used: Container[str], cut: int | None = None) -> str:
    """Return the name, or its beginning with the first number that makes it unused."""
    return next(x for x in chain([name], (f"{name[:cut]}-{n}" for n in count(2))) if x not in used)


def _is_relevant(event: e.Event) -> bool:
    match event:
        case e.JvmStep():
            return event.step == 0
        case e.LogLoaded():
            return event.end_offset > 0 and not internal(event.partition.topic)
        case e.UncleanElection():
            return event.partition is not None and not internal(event.partition.topic)
        case e.CoordinatorLoaded() | e.CoordinatorUnloaded():
            return True
        case e.PartitionEvent() if internal(event.partition.topic):
            return False
    return bool(event.summary)


def from_logs(
    folder: Path,
    out: Path | None,
    timezone: str | None,
    clients: Path | None,
    say: Callable[[str], None],
    select: tuple[str, ...] = (),
) -> str:
    """Return a draft from the broker logs below a folder as YAML, and write it to `out` if given.

    timezone: of times without one, UTC if None. clients: a file of client settings; select: what is chosen in it.
    Raises `UsageError` if a file cannot be read or written.
    """
    if out is not None and out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file, such as {out / 'incident.yaml'}")
    text = draft_scenario(folder, timezone, clients, say, select)
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as e:
            raise UsageError(f"--out {out} cannot be written: {e.strerror}") from None
        say(f"{out}: {text.count('# TODO:')} TODOs to complete; then: python -m chaos show {out}")
    return text
