"""One situation of each client that reads: where it begins, when it commits, and the faults that concern it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.contract import faults
from chaos.contract.table import judge, rules
from chaos.contract.writers import FLINK, Situation, settings_in, topic_states, truth, writing_by
from chaos.kafka.settings import as_text
from chaos.promise.settings import Facts, Setting, setting
from chaos.scenario.members import EAGER
from chaos.scenario.model import Scenario
from chaos.setup.clients import (
    Assign,
    Consumer,
    Entry,
    Processor,
    Subscribe,
    assignors_of,
    reads_committed,
    settings_of,
    uses_kip_848,
)
from chaos.setup.share import ISOLATION, LIMIT, RESET

COMMITS = {"after_batch": "after", "after_record": "after", "before_processing": "before"}
REFRESHES = ("metadata.max.age.ms", "topic.metadata.refresh.interval.ms", "Metadata.RefreshFrequency")
REFRESH_MS = 300_000
"""Interval at which clients look for new partitions, by default."""


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
    cut = faults.cuts(scenario, ids, writes=False, reads=True, transactions=False)
    facts: Facts = {}
    for name in ("ends", "hands_over", "seeks"):
        facts |= faults.fact(name, faults.of_class(of_group, name))
    for name in ("restarts", "crashes"):
        facts |= faults.fact(name, faults.of_class(of_own, name))
    outage = faults.of_class(faults.of_data(scenario), "outage")
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
        "writes.copies": Setting("copies", _worst("duplicate_write", outputs), entry.name),
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
    states = {found.state for s in situations if (found := judge(rules("write")[kind, ""], s.facts)) is not None}
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
