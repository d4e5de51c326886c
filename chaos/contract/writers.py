"""One situation of each client that writes: its settings, those of its topic, and the faults that concern both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaos.contract import faults
from chaos.kafka.settings import Config
from chaos.promise.client_settings import ClientPart, common_settings
from chaos.promise.cluster_facts import ClusterPart, TopicPart, cluster_facts
from chaos.promise.problems import Problems
from chaos.promise.producer_facts import producer_facts
from chaos.promise.settings import Facts, Setting, Settings, setting
from chaos.scenario.clock_rules import clock_faults
from chaos.scenario.compaction import compacted_topics, delete_retention_ms
from chaos.scenario.faults.admin import states_of
from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.faults.clients import ProducerCrash
from chaos.scenario.faults.clocks import ClockFault
from chaos.scenario.model import Scenario
from chaos.scenario.retention import backdated
from chaos.setup.clients import Processor, Producer
from chaos.setup.model import Topic
from chaos.setup.triggers import parse_after

Writer = Producer | Processor
FLINK = ("flink", "flink-legacy")
ADJUSTING = ("java", "confluent", "sarama")
"""Libraries of which `chaos.promise` knows how they change settings by themselves."""
DEFAULT_REPLICAS = 3
"""Replicas of the internal topics of a new cluster, if it has that many brokers."""
_OF_BROKERS = ("min.insync.replicas", "unclean.leader.election.enable", "flush.messages")
"""Settings of a topic that have no known default on a cluster that exists."""


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
    crashes = faults.of_class(own, "crashes")
    count = entry.count if isinstance(entry, Producer) else entry.members
    ids = [f"{entry.name}/{n}" for n in range(1, count + 1)]
    cut = faults.cuts(scenario, ids, writes=True, reads=False, transactions=entry.transactions is not None)
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
        **faults.fact("late", [f for f in faults.of_data(scenario) if _is_late(f.kind, f in cut)]),
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


def _is_late(kind: str, cut: bool) -> bool:
    return kind in faults.classes()["late"] and (cut or kind not in faults.classes()["wire"])


def _down_ms(fault: FaultSpec) -> int:
    """Return how long a client that crashes is down at least, in ms; 0 if that is not known."""
    if not isinstance(fault, ProducerCrash) or fault.heal is None:
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
        "topic.transactional": truth("transactions", _in_transactions(scenario, topic.name)),
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
    return [f for f in faults.of_data(scenario) if isinstance(f, ClockFault)]


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


def _in_transactions(scenario: Scenario, topic: str) -> bool:
    return any(p.transactions for p in scenario.producers if topic in p.written) or any(
        p.transactions for p in scenario.processors if p.to == topic
    )


def _cluster(scenario: Scenario) -> ClusterPart:
    """Return the settings of the brokers, with those that Aftershock gives to a new cluster."""
    cluster = scenario.cluster
    if scenario.unasked:
        return ClusterPart()
    if cluster.asked:
        answered = settings_in(cluster.config, "the cluster")
        internal = {name: found for name, found in answered.items() if name == "offsets.min.insync.replicas"}
        return ClusterPart(answered, given=True, internal=internal)
    replicas = min(DEFAULT_REPLICAS, cluster.brokers)
    own: Config = {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
    }
    return ClusterPart(settings_in(own | cluster.config, "cluster.config"), cluster.kafka, given=True)
