"""A rule: the scopes of an anomaly, the rows it examines, when it applies, how it judges and how it explains."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

from chaos.clients.choice import DEFAULT, Client
from chaos.kafka.settings import as_text
from chaos.run.directory import json_object
from chaos.scenario.cluster_rules import clock_faults
from chaos.scenario.model import Scenario
from chaos.setup.clients import Processor, Producer, settings_of
from checks.audit.engine.commits import CommitBlock
from checks.audit.engine.keys import KeyBlock
from checks.audit.engine.outputs import CountBlock
from checks.audit.engine.survey import RowRule
from checks.audit.engine.tally import Aggregate, Tally
from checks.audit.facts.epochs import Row
from checks.audit.facts.observed import Observed
from checks.audit.facts.readers import Reader, entry_of, readers_of
from checks.audit.facts.run_facts import RunFacts
from checks.audit.facts.shares import ShareGroup, share_groups
from checks.audit.facts.starts import CommittedOffsets
from checks.audit.facts.topic_lives import topic_of
from checks.audit.findings import Finding
from checks.audit.rules.partition_block import PartitionBlock, ReaderBlock
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.share_block import ShareBlock

Evidence = dict[str, Any]


@dataclass(frozen=True)
class RunData:
    """The run as rules of a whole run and explanations see it, on the driver.

    committed: by index of the epoch. transactions: rows of table `transactions`. survey: the result of the first pass.
    lifecycle, batches: rows of these tables.
    """

    scenario: Scenario
    readers: list[Reader]
    facts: RunFacts
    committed: dict[int, CommittedOffsets]
    observed: Observed
    transactions: list[Row]
    survey: Tally
    lifecycle: Sequence[Row] = ()
    batches: Sequence[Row] = ()

    def setting(self, client: str | None, name: str, default: str) -> str:
        """Return a setting of a producer client such as `shop/1`: the scenario's value, else the library's default."""
        entry = entry_of(client or "")
        writers: list[Producer | Processor] = [*self.scenario.producers, *self.scenario.processors]
        producer = next((writer for writer in writers if writer.name == entry), None)
        if producer is None:
            return default
        library = self.scenario.client_of(producer)
        return as_text(settings_of(producer).get(name, library.traits.defaults(library.release).get(name, default)))

    @cached_property
    def libraries(self) -> dict[str, Client]:
        """The client library of each entry, by the name of the entry."""
        return {entry.name: self.scenario.client_of(entry) for entry in self.scenario.entries}

    def library(self, client: str) -> Client | None:
        """Return the client library of a client such as `shop/1`; None if the scenario has no such client."""
        return self.libraries.get(entry_of(client))

    def release(self, client: str) -> str:
        """Return the release of a client's library: as the client reports it, else as the scenario gives it."""
        library = self.library(client)
        if library is None:
            return ""
        keys = [key for key, package in library.traits.reported.items() if package == library.traits.library]
        reported = (str(self._started.get(client, {}).get(key, "")) for key in keys)
        return next(filter(None, reported), library.release or "as installed")

    @cached_property
    def _started(self) -> dict[str, dict[str, Any]]:
        """What each client reported at its last start."""
        rows = sorted(self.lifecycle, key=lambda row: (row["incarnation"], row["at_us"]))
        return {row["client"]: json_object(row["detail"]) for row in rows if row["event"] == "started"}

    @cached_property
    def names_libraries(self) -> bool:
        """Whether a finding names the library of its clients: not if all clients have the default one."""
        return any(library.runtime != DEFAULT for library in self.libraries.values())

    def batch(self, topic: str, partition: int, offset: int) -> Row | None:
        """Return the batch of a record in the log; None if the read-back noted none (see `batches` of the ledger)."""
        place = topic_of(topic), partition
        here = (b for b in self.batches if (b["topic"], b["partition"]) == place)
        return next((b for b in here if b["base_offset"] <= offset <= b["last_offset"]), None)

    def last_fault(self, at_us: int) -> str | None:
        """Return the fault injected last at or before a moment, None if there was none."""
        earlier = [(time_us, fault) for fault, time_us in self.facts.injected.items() if time_us <= at_us]
        return max(earlier)[1] if earlier else None


@dataclass(frozen=True)
class Parties:
    """What an anomaly may be counted of. topics: names of the scenario, or names and labels of lives of a ledger."""

    scenario: Scenario
    topics: Sequence[str]

    @classmethod
    def of(cls, scenario: Scenario) -> Parties:
        """Return the parties as the scenario alone has them."""
        return cls(scenario, [topic.name for topic in scenario.topics])

    @cached_property
    def readers(self) -> list[Reader]:
        """The readers."""
        return readers_of(self.scenario)

    @cached_property
    def shares(self) -> list[ShareGroup]:
        """The share groups."""
        return share_groups(self.scenario)


Names = Callable[[Scenario], Container[str]]
"""From a scenario to some of its topics."""


@dataclass(frozen=True)
class Scopes:
    """Where an anomaly is counted. A scenario with no such scope gives the rule nothing to examine.

    every: the parties that it may concern. name: of one party. wanted: functions that return the parties
    that meet a condition, in their order, each with the reason that holds if it returns None: nothing meets it.
    """

    every: Callable[[Parties], Iterable[Any]]
    name: Callable[[Any], str] = str
    wanted: tuple[tuple[Callable[[Scenario, list[Any]], list[Any] | None], str], ...] = ()

    def of(self, parties: Parties) -> tuple[list[str], str]:
        """Return the scopes, and why there is none, empty if there is one."""
        left = list(self.every(parties))
        for reduced, reason in self.wanted:
            kept = reduced(parties.scenario, left)
            if kept is None:
                return [], reason
            left = kept
        return sorted(set(map(self.name, left))), ""

    def _if(self, reduced: Callable[[Scenario, list[Any]], list[Any] | None], reason: str) -> Scopes:
        return replace(self, wanted=(*self.wanted, (reduced, reason)))

    def if_any(self, condition: Callable[[Scenario], object], reason: str) -> Scopes:
        """Add a condition that the scenario as a whole meets: something true, or not empty."""
        return self._if(lambda scenario, left: left if condition(scenario) else None, reason)

    def reduced(self, reduced: Callable[[list[Any]], list[Any]], reason: str) -> Scopes:
        """Keep the parties that a function returns of all that are left."""
        return self._if(lambda scenario, left: reduced(left) or None, reason)

    def that(self, condition: Callable[[Any], bool], reason: str) -> Scopes:
        """Add a condition that a party meets."""
        return self._if(lambda scenario, left: [party for party in left if condition(party)] or None, reason)

    def among(self, names: Names, reason: str) -> Scopes:
        """Add the condition that a topic is one of some."""

        def reduced(scenario: Scenario, left: list[str]) -> list[str] | None:
            some = names(scenario)
            return [label for label in left if topic_of(label) in some] or None

        return self._if(reduced, reason)

    def reading(self, names: Names, reason: str) -> Scopes:
        """Add the condition that a reader or share group reads one of some topics."""

        def reduced(scenario: Scenario, left: list[Any]) -> list[Any] | None:
            some = names(scenario)
            return [party for party in left if any(topic in some for topic in party.topics)] or None

        return self._if(reduced, reason)


def learns(client: Client) -> bool:
    """Return whether a library reports the outcome of a send, with the offset of its record."""
    return not client.missing("send outcomes")


NO_TRANSACTIONS = "no producer uses transactions"
TOPICS = Scopes(lambda parties: parties.topics).that(bool, "no client of the run writes to a topic")
READERS = (
    Scopes(lambda parties: parties.readers, attrgetter("name"))
    .if_any(lambda s: s.readers or not s.shares, "only share groups read")
    .that(lambda r: True, "the scenario has no consumers")
)
MEMBERS = READERS.that(lambda r: r.mode == "subscribe", "no consumer subscribes")
COMMITTING = READERS.that(lambda r: r.commits, "no consumer commits offsets")
GROUPS = replace(READERS, name=attrgetter("group")).that(lambda r: r.group is not None, "no consumer has a group id")
SHARES = Scopes(lambda parties: parties.shares, attrgetter("name")).that(lambda g: True, "there is no share group")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The rule of one anomaly.

    examines: counters that add up to the rows examined in a scope. explain: the mechanism of a finding in one sentence,
    empty if the evidence does not show it; a text with the names of columns and evidence in braces, or a function,
    which may add to the evidence. scopes: where it is counted, and so whether it applies. leaves_out: counters of rows
    among those that the rule does not judge, with the reason. vacant: why a run may give it nothing to examine, though
    it applies and nothing is wrong; empty if that needs an explanation. counts_undecided: whether `examines`
    includes undecided rows. needs_clock: whether it compares times, so that a clock that ran backwards makes it
    undecidable. needs_log_times: whether it compares times of records in the log, which clients or brokers have set,
    with others.

    The rule judges at one or more levels: single rows of the first pass, a block of writes, one reader's rows in a
    block of reads, a block of reads, one share group's rows in it, a block of commits, a block of keys, a block of
    counted keys, or the whole run. Rules may share a function, which is then called once.
    """

    examines: tuple[Aggregate[int], ...]
    explain: str | Callable[[Finding, Evidence, RunData], str]
    scopes: Scopes
    leaves_out: Mapping[Aggregate[int], str] = field(default_factory=dict)
    vacant: str = ""
    counts_undecided: bool = False
    needs_clock: bool = False
    needs_log_times: bool = False
    rows: RowRule | None = None
    writes: Callable[[ProducerBlock, Tally], None] | None = None
    reader: Callable[[ReaderBlock, Tally], None] | None = None
    reads: Callable[[PartitionBlock, Tally], None] | None = None
    shares: Callable[[ShareBlock, Tally], None] | None = None
    commits: Callable[[CommitBlock, Tally], None] | None = None
    keys: Callable[[KeyBlock, Tally], None] | None = None
    counts: Callable[[CountBlock, Tally], None] | None = None
    run: Callable[[RunData, Tally], None] | None = None

    def explanation(self, finding: Finding, evidence: Evidence, run: RunData) -> str:
        """Return the mechanism of a finding; see `explain`."""
        if isinstance(self.explain, str):
            return self.explain.format(**finding | evidence)
        return self.explain(finding, evidence, run)


def moved_start(f: Finding, e: Evidence, c: RunData) -> str:
    """Return that the log begins after a record, if it does, of a topic from which nothing deletes records in time."""
    if f["offset"] is None or e.get("log_start") is None or f["offset"] >= e["log_start"]:
        return ""
    if f["topic"] in c.facts.backdated:
        return f"the log begins at {e['log_start']}, and the timestamp of the record lets retention delete nothing"
    if clocks := [fault.name for fault in clock_faults(c.scenario.faults) if fault.client is None]:
        wrong = f"retention was not due by the clock of the machine; {', '.join(clocks)} changed clocks"
        return f"the log begins at {e['log_start']}, and {wrong}"
    return f"the log begins at {e['log_start']}, and neither retention nor a fault deletes records of {f['topic']}"


def present(**values: Any) -> Evidence:
    """Return the values that are not null."""
    return {name: value for name, value in values.items() if value is not None}
