"""The situations of a scenario: one of each client and each topic, and one of the KRaft quorum.

A situation has the facts about settings, by the defaults of their release, and about the faults that concern them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.cluster.settings import internal_replicas, line_of
from chaos.faults.base import Effect, FaultSpec
from chaos.faults.clocks import ClockFaultSpec
from chaos.faults.producers import ProducerCrashSpec
from chaos.faults.settings import states_of
from chaos.guarantees import faults
from chaos.guarantees.facts import ClientPart, ClusterPart, TopicPart, cluster_facts, common_settings, producer_facts
from chaos.guarantees.table import anomalies, judge
from chaos.guarantees.values import Facts, Problems, Setting, Settings, setting
from chaos.kafka.settings import Config, as_text
from chaos.scenario.cluster_rules import clock_faults
from chaos.scenario.members import EAGER
from chaos.scenario.model import Scenario
from chaos.scenario.retention import backdated, compacted_topics, delete_retention_ms
from chaos.setup.clients import (
    Assign,
    Consumer,
    Entry,
    Processor,
    Producer,
    Subscribe,
    assignors_of,
    reads_committed,
    settings_of,
    uses_kip_848,
)
from chaos.setup.model import Topic
from chaos.setup.share import ISOLATION, LIMIT, RESET
from chaos.setup.triggers import parse_after

Writer = Producer | Processor
FLINK = ("flink", "flink-legacy")
ADJUSTING = ("java", "confluent", "sarama")
"""Libraries with settings that they change by themselves, as `chaos.guarantees` knows."""
_OF_BROKERS = ("min.insync.replicas", "unclean.leader.election.enable", "flush.messages")
"""Settings of a topic that have no known default on a cluster that exists."""
COMMITS = {"after_batch": "after", "after_record": "after", "before_processing": "before"}
REFRESHES = ("metadata.max.age.ms", "topic.metadata.refresh.interval.ms", "Metadata.RefreshFrequency")
REFRESH_MS = 300_000
"""Interval at which clients look for new partitions, by default."""
_OF_GROUP: tuple[Effect, ...] = ("ends", "hands_over", "seeks")
_OF_CLIENT: tuple[Effect, ...] = ("restarts", "crashes")
"""Effects of faults on the clients of a reader: on all members of its group, and on its own clients."""
RESIGNS_SINCE = (3, 7)
"""The first release with an active controller that gives up without a majority (KAFKA-15489)."""


@dataclass(frozen=True)
class Situation:
    """The facts about one client and one topic. who: the client and the topic, for reasons."""

    who: str
    facts: Facts


def truth(name: str, value: bool) -> Setting:
    """Return a fact that is true or false."""
    return Setting(name, "true" if value else "false", "")


def settings_in(config: Config, where: str) -> Settings:
    """Return settings of a scenario; their origin is the key that has them."""
    return {name: setting(name, value, where) for name, value in config.items()}


def writing(scenario: Scenario) -> Iterator[Situation]:
    """Yield the situations of all producers and processors, each with every state of the settings of its topic."""
    writers: list[Writer] = [*scenario.producers, *scenario.processors]
    for entry in writers:
        yield from writing_by(scenario, entry)


def writing_by(scenario: Scenario, entry: Writer) -> Iterator[Situation]:
    """Yield the situations of one producer or processor."""
    of_entry = _writer_facts(scenario, entry)
    for name in entry.written if isinstance(entry, Producer) else [entry.to]:
        for of_topic in topic_states(scenario, scenario.topic(name)):
            yield Situation(f"{entry.name} to {name}", of_entry | of_topic)


def _writer_facts(scenario: Scenario, entry: Writer) -> Facts:
    """Return the facts of one client that writes: its settings, and the faults of its process and its connections."""
    client = scenario.client_of(entry)
    part = ClientPart("producer", client, settings_in(entry.config, f"{entry.name}.config"))
    if entry.transactions:
        part.settings["transactional.id"] = setting("transactional.id", entry.name, entry.name)
    found = _settings_of(part)
    own = faults.client_faults(scenario, [entry], getattr(entry, "group", None))
    crashes = faults.having(own, "crashes")
    count = entry.count if isinstance(entry, Producer) else entry.members
    ids = [f"{entry.name}/{n}" for n in range(1, count + 1)]
    wire = faults.on_wire(scenario, ids, writes=True, reads=False, transactions=entry.transactions is not None)
    cut = faults.having(wire, "connections")
    late = [f for f in faults.having(faults.of_data(scenario), "late") if f in cut or not faults.having([f], "wire")]
    producer = entry if isinstance(entry, Producer) else None
    flink = producer is not None and client.runtime in FLINK
    facts: Facts = {
        "writes.transactional": truth("transactions", entry.transactions is not None),
        "writes.flink": truth("flink", flink),
        "writes.replays": truth("checkpoints", flink and not entry.transactions),
        "writes.repeats": truth("restarts", producer is not None and not flink and not entry.transactions),
        "writes.mode": Setting("mode", producer.mode if producer else "callback", entry.name),
        "writes.tombstones": truth("tombstone_every", producer is not None and producer.tombstone_every is not None),
        **faults.fact("crashes", crashes),
        **faults.fact("cut", cut),
        **faults.fact("late", late),
    }
    if entry.transactions:
        timeout_ms = round(entry.transactions.timeout * 1000)
        facts["writes.transaction.timeout.ms"] = setting("transaction.timeout.ms", timeout_ms, entry.name)
        facts["writes.down.ms"] = setting("down", max(map(_down_ms, crashes), default=0), entry.name)
    return {**found, **facts}


def _settings_of(part: ClientPart) -> Facts:
    """Return what a client really uses, also what it changes by itself, as far as the rules know its library.

    A scenario with settings that its client refuses is not loaded, so there are no problems here.
    """
    problems = Problems()
    if part.client.runtime in ADJUSTING:
        return producer_facts(part, problems)
    found = {f"producer.{name}": value for name, value in common_settings(part, problems).items()}
    return found | {"producer.client": Setting("client", part.client.runtime, "given")}


def _down_ms(fault: FaultSpec) -> int:
    """Return how long a client that crashes is down at least, in ms; 0 if that is not known."""
    if not isinstance(fault, ProducerCrashSpec) or fault.heal is None:
        return 0
    if fault.heal.after is not None:
        return round(fault.heal.after * 1000)
    if fault.heal.when is not None and fault.heal.when.after is not None:
        after = parse_after(fault.heal.when.after)
        return round(after.delay_s * 1000) if after.fault == fault.name else 0
    return 0


def topic_states(scenario: Scenario, topic: Topic) -> Iterator[Facts]:
    """Yield the facts about a topic, about its cluster and its faults: once for each state of its settings."""
    for config, fault in states_of(topic, scenario.faults):
        origin = f"topic {topic.name}, {fault.name}" if fault else f"topic {topic.name}"
        yield _topic_facts(scenario, topic, settings_in(config, origin))


def _topic_facts(scenario: Scenario, topic: Topic, settings: Settings) -> Facts:
    replicas = faults.replicas_after(scenario, topic.name, topic.replication_factor)
    part = TopicPart(settings, setting("replication factor", replicas, f"topic {topic.name}"))
    facts = {**cluster_facts(part, _cluster(scenario), Problems())}
    if scenario.unasked:  # what the brokers have by default there is not known
        given = {f"topic.{name}" for name in settings}
        facts = {n: f for n, f in facts.items() if n.removeprefix("topic.") not in _OF_BROKERS or n in given}
    flushes = facts.get("topic.flush.messages")
    facts |= faults.topic_faults(scenario, topic.name, replicas, flushes is not None and int(flushes.value) <= 1)
    run_ms = run_time_ms(scenario)
    facts |= faults.fact("ages", _aging(scenario, facts, run_ms))
    facts |= _stamps(scenario, topic.name, run_ms)
    facts |= faults.fact("misdates", _misdating(scenario, topic.name, run_ms))
    evicts = topic.name in scenario.retained(run_ms)
    if not (scenario.unasked and evicts):
        facts["topic.evicts"] = Setting("retention", "true" if evicts else "false", f"topic {topic.name}")
    held_ms = delete_retention_ms(scenario, scenario.faults, topic.name)
    return facts | {
        "topic.compacted": truth("compact", topic.name in compacted_topics(scenario, scenario.faults)),
        "topic.delete.retention.ms": setting("delete.retention.ms", held_ms, f"topic {topic.name}"),
        "topic.transactional": truth("transactions", topic.name in scenario.written_in_transactions()),
        "run.ms": setting("longest run", run_ms, "limits"),
    }


def _aging(scenario: Scenario, facts: Facts, run_ms: int) -> list[FaultSpec]:
    """Return the faults with which the clock of a broker is so far ahead that retention may delete records."""
    policy, kept = facts.get("topic.cleanup.policy"), facts.get("topic.retention.ms")
    if kept is None or int(kept.value) < 0 or (policy is not None and "delete" not in policy.value):
        return []
    run_s, kept_s = run_ms / 1000, int(kept.value) / 1000
    brokers = [f for f in clock_faults(scenario.faults) if f.client is None]
    return [f for f in brokers if f.furthest_s(run_s)[1] + run_s >= kept_s]


def _misdating(scenario: Scenario, topic: str, run_ms: int) -> list[FaultSpec]:
    """Return the faults of clocks of brokers, if records of a topic are due to be deleted during the run."""
    kept = scenario.kept(topic)
    if kept is None or kept.retention_ms + kept.check_ms > run_ms:
        return []
    return [f for f in faults.of_data(scenario) if isinstance(f, ClockFaultSpec)]


def _stamps(scenario: Scenario, topic: str, run_ms: int) -> Facts:
    """Return whether producers give records times so far behind that retention may delete them, and how they do."""
    entries = backdated(scenario, scenario.faults, topic, run_ms)
    changed = [f"{f.name} ({f.kind})" for f in clock_faults(scenario.faults) if f.client in entries]
    own = [f"{p.name} (timestamps)" for p in scenario.producers if p.name in entries and p.timestamps is not None]
    origin = ", ".join([*changed, *own])
    return {"fault.backdates": Setting("backdates", "true" if entries else "false", origin, bool(entries))}


def run_time_ms(scenario: Scenario) -> int:
    """Return how long a run takes at most, in ms."""
    return round(1000 * (scenario.limits.drive + scenario.limits.drain + scenario.limits.clients))


def _cluster(scenario: Scenario) -> ClusterPart:
    """Return the settings of the brokers, with the settings that Aftershock gives to a new cluster."""
    cluster = scenario.cluster
    if scenario.unasked:
        return ClusterPart()
    if cluster.asked:
        answered = settings_in(cluster.config, "the cluster")
        internal = {name: found for name, found in answered.items() if name == "offsets.min.insync.replicas"}
        return ClusterPart(answered, given=True, internal=internal)
    own = internal_replicas(cluster.brokers)
    return ClusterPart(settings_in(own | cluster.config, "cluster.config"), cluster.kafka, given=True)


def reading(scenario: Scenario) -> Iterator[Situation]:
    """Yield the situations of all readers: consumers, and the reading sides of processors."""
    processors = {p.name: p for p in scenario.processors}
    for entry in scenario.readers:
        own: Entry = processors.get(entry.name, entry)
        of_entry = _reader_facts(scenario, entry, own)
        for name in entry.topics_among(t.name for t in scenario.topics):
            for of_topic in topic_states(scenario, scenario.topic(name)):
                yield Situation(f"{entry.name} on {name}", of_entry | of_topic)


def sharing(scenario: Scenario) -> Iterator[Situation]:
    """Yield the situations of all share groups."""
    for entry in scenario.shares:
        facts: Facts = {
            "share.committed": truth("read_committed", entry.setting(ISOLATION) == "read_committed"),
            "share.reset": Setting(RESET, entry.setting(RESET), entry.name),
            "share.limit": Setting(LIMIT, entry.setting(LIMIT), entry.name),
            **faults.group_facts(scenario, entry.group),
            **_client_facts(scenario, [entry], [entry], entry.group),
        }
        for name in entry.topics:
            for of_topic in topic_states(scenario, scenario.topic(name)):
                yield Situation(f"{entry.name} on {name}", facts | of_topic)


def _reader_facts(scenario: Scenario, entry: Consumer, own: Entry) -> Facts:
    mates = _mates(scenario, entry, own)
    settings = settings_of(entry)
    defaults = entry.client.traits.defaults(scenario.client_of(own).release)
    facts: Facts = {
        "reads.mode": Setting("mode", entry.mode, entry.name),
        "reads.committed": truth("read_committed", reads_committed(entry)),
        "reads.resumes": truth("resumes", isinstance(entry, Subscribe) or _from_group(entry)),
        "reads.members": setting("members", sum(getattr(e, "members", 1) for e in mates), entry.name),
        **faults.group_facts(scenario, entry.group),
        **_client_facts(scenario, [own] if isinstance(entry, Assign) else mates, [own], entry.group),
        **faults.fact("deserts", faults.deserts(scenario, mates)),
    }
    reset = str(settings.get("auto.offset.reset", defaults.get("auto.offset.reset", "latest"))).lower()
    given = "auto.offset.reset" in settings
    origin = f"{entry.name}.config" if given else f"default of {entry.client.traits.library}"
    if entry.client.runtime == "spark":
        reset = "own"  # it reads at explicit offsets only
    resets = {"largest": "latest", "end": "latest", "smallest": "earliest", "beginning": "earliest", "error": "none"}
    facts["consumer.auto.offset.reset"] = Setting("auto.offset.reset", resets.get(reset, reset), origin, given)
    facts |= _refresh(scenario, entry)
    facts |= _processor_facts(scenario, own) if isinstance(own, Processor) else _commit_facts(entry)
    facts |= _assign_facts(scenario, entry) if isinstance(entry, Assign) else _group_facts(scenario, entry)
    return facts | _offsets_retention(scenario)


def _mates(scenario: Scenario, entry: Consumer, own: Entry) -> list[Entry]:
    """Return the entries that are members of the group of a reader; itself if it has no group or assigns."""
    if isinstance(entry, Assign):
        return [own]
    members: list[Entry] = [c for c in scenario.consumers if isinstance(c, Subscribe) and c.group == entry.group]
    return [*members, *(p for p in scenario.processors if p.group == entry.group)]


def _client_facts(scenario: Scenario, mates: Sequence[Entry], own: Sequence[Entry], group: str | None) -> Facts:
    """Return the facts about faults of the clients of a reader, and of their connections."""
    of_group = faults.client_faults(scenario, mates, group)
    of_own = faults.client_faults(scenario, own, group)
    ids = [f"{e.name}/{n}" for e in mates for n in range(1, getattr(e, "members", 1) + 1)]
    wire = faults.on_wire(scenario, ids, writes=False, reads=True, transactions=False)
    cut = faults.having(wire, "connections")
    facts: Facts = faults.fact("repeats", faults.having(wire, "repeats"))
    for name in _OF_GROUP:
        facts |= faults.fact(name, faults.having(of_group, name))
    for name in _OF_CLIENT:
        facts |= faults.fact(name, faults.having(of_own, name))
    outage = faults.having(faults.of_data(scenario), "outage")
    return facts | faults.fact("cut", cut) | faults.fact("disturbs", [*outage, *cut])


def _refresh(scenario: Scenario, entry: Consumer) -> Facts:
    """Return whether the client looks for new partitions in time: before the drain would be over."""
    found = next((entry.config[name] for name in REFRESHES if name in entry.config), REFRESH_MS)
    try:
        interval_ms = int(as_text(found))
    except ValueError:  # a duration of sarama
        return {}
    in_time = interval_ms < scenario.limits.drain * 1000 or uses_kip_848(entry.config)
    return {"reads.refreshes": truth("refreshes", in_time)}


def _processor_facts(scenario: Scenario, entry: Processor) -> Facts:
    how = entry.plain.commit if entry.plain else "transactions"
    outputs = list(writing_by(scenario, entry))
    return {
        "writes.losses": Setting("losses", _worst("lost_write", outputs), entry.name),
        "writes.duplicates": Setting("duplicates", _worst("duplicate_write", outputs), entry.name),
        "reads.processor": Setting("processing", how, entry.name),
        "reads.state": truth("state", entry.state is not None),
        "reads.commit": Setting("commit", "with output", entry.name),
        "reads.kind": Setting("commit.kind", "sync", entry.name),
        "reads.hands_over": truth("commits on revocation", False),
        "reads.commits": truth("commits", True),
        "reads.workers": Setting("workers", "none", entry.name),
    }


def _worst(kind: str, situations: Sequence[Situation]) -> str:
    """Return what a line is in the situation that promises least."""
    states = {found.state for s in situations if (found := judge(anomalies()[kind, ""], s.facts)) is not None}
    return next((state for state in ("allowed", "not decided") if state in states), "forbidden")


def _commit_facts(entry: Consumer) -> Facts:
    commit = entry.commit
    workers = entry.workers.tracking if isinstance(entry, Subscribe) and entry.workers else "none"
    eager = isinstance(entry, Subscribe) and all(
        EAGER.get(name) == "eager" for name in assignors_of(entry.config, entry.client)
    )
    at_once = commit.kind == "sync" and commit.when in COMMITS and workers == "none"
    return {
        "reads.processor": Setting("processing", "no", entry.name),
        "reads.state": truth("state", False),
        "reads.commit": Setting("commit", COMMITS.get(commit.when, commit.when), entry.name),
        "reads.kind": Setting("commit.kind", commit.kind, entry.name),
        "reads.hands_over": truth("commits on revocation", eager and (at_once or commit.on_revoke or _auto(entry))),
        "reads.commits": truth("commits", commit.when != "never"),
        "reads.workers": Setting("workers", workers, entry.name),
    }


def _auto(entry: Consumer) -> bool:
    return entry.commit.kind == "auto"


def _group_facts(scenario: Scenario, entry: Subscribe) -> Facts:
    """Return the facts about a group. sharers: clients in assign mode that commit to the same group id."""
    sharers = [c for c in scenario.consumers if isinstance(c, Assign) and c.group == entry.group and _commits(c)]
    return {
        "reads.sharers": setting("sharers", sum(c.members for c in sharers), entry.name),
        "reads.position": Setting("position", "group", entry.name),
        "reads.start": Setting("start", "group", entry.name),
        "reads.discovers": truth("discovers", True),
        "reads.deduplicates": truth("deduplicates", False),
        "reads.savepoint": truth("savepoint", False),
        "reads.fails_on_loss": truth("fails on loss", False),
    }


def _assign_facts(scenario: Scenario, entry: Assign) -> Facts:
    """Return the facts about consumers in assign mode. position: what they go on at after a restart."""
    position = "start"
    if entry.checkpoint:
        position = "results" if entry.checkpoint_interval is None else "interval"
    start = entry.start if isinstance(entry.start, str) else "explicit"
    spark = entry.client.runtime == "spark"
    fails = spark and as_text(entry.config.get("failOnDataLoss", True)).lower() != "false"
    return {
        "reads.position": Setting("position", position, entry.name),
        "reads.start": Setting("start", start, entry.name),
        "reads.discovers": truth("discovers", spark or entry.discover is not None),
        "reads.deduplicates": truth("deduplicates", entry.idempotent_results),
        "reads.savepoint": truth("savepoint", entry.savepoint and entry.client.runtime in FLINK),
        "reads.fails_on_loss": truth("fails on loss", fails),
        "reads.sharers": setting("sharers", jobs_of(scenario, entry.group) - _commits(entry), entry.name),
    }


def _from_group(entry: Assign) -> bool:
    """Return whether each restart goes on at the committed offset, because no checkpoint is restored."""
    return entry.start == "group" and not entry.checkpoint


def _commits(entry: Consumer) -> bool:
    return entry.commit.when != "never"


def jobs_of(scenario: Scenario, group: str | None) -> int:
    """Return how many independent clients commit to a group: each one in assign mode, and all its members as one."""
    entries = [c for c in scenario.readers if group is not None and c.group == group and _commits(c)]
    assigned = sum(c.members for c in entries if isinstance(c, Assign))
    return assigned + any(isinstance(c, Subscribe) for c in entries)


def _offsets_retention(scenario: Scenario) -> Facts:
    if scenario.unasked:
        return {}
    found = settings_in(scenario.cluster.config, "cluster.config").get("offsets.retention.minutes")
    minutes = found or setting("offsets.retention.minutes", 10_080, "Kafka's default", False)
    kept_ms = minutes.meaning(str(int(minutes.value) * 60_000))
    return {"cluster.offsets.kept.ms": kept_ms}


def governing(scenario: Scenario) -> Iterator[Situation]:
    """Yield the situation of dedicated controllers; nothing if there are none."""
    cluster = scenario.cluster
    if cluster.controllers is None:
        return
    resigns = "true" if line_of(cluster.kafka) >= RESIGNS_SINCE else "false"
    facts = {"quorum.resigns": setting("resigns", resigns, f"Kafka {cluster.kafka}", given=False)}
    yield Situation("the controllers", facts | faults.fact("isolates", faults.having(scenario.faults, "isolates")))
