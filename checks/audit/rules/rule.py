"""A rule: the scopes of an anomaly, the rows it examines, when it applies, how it judges and how it explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chaos.clients.choice import Client
from chaos.clients.libraries import DEFAULT
from chaos.kafka.settings import as_text
from chaos.scenario.clock_rules import clock_faults
from chaos.scenario.model import Scenario
from chaos.setup.clients import Processor, Producer, settings_of
from checks.audit.engine.commits import CommitBlock
from checks.audit.engine.keys import KeyBlock
from checks.audit.engine.outputs import CountBlock
from checks.audit.engine.survey import RowRule
from checks.audit.engine.tally import Aggregate, Tally
from checks.audit.facts.epochs import Row
from checks.audit.facts.observed import Observed
from checks.audit.facts.readers import Reader, commits_offsets, entry_of
from checks.audit.facts.run_facts import RunFacts
from checks.audit.facts.starts import CommittedOffsets
from checks.audit.findings import Finding
from checks.audit.rules.partition_block import PartitionBlock, ReaderBlock
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.share_block import ShareBlock
from checks.evidence import json_object

Evidence = dict[str, Any]


@dataclass(frozen=True)
class RunData:
    """The run as rules of a whole run and explanations see it, on the driver.

    committed: by index of the epoch. transactions: rows of table `transactions`. survey: the result of the first pass.
    lifecycle: rows of that table.
    """

    scenario: Scenario
    readers: list[Reader]
    facts: RunFacts
    committed: dict[int, CommittedOffsets]
    observed: Observed
    transactions: list[Row]
    survey: Tally
    lifecycle: Sequence[Row] = ()

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

    def last_fault(self, at_us: int) -> str | None:
        """Return the fault injected last at or before a moment, None if there was none."""
        earlier = [(time_us, fault) for fault, time_us in self.facts.injected.items() if time_us <= at_us]
        return max(earlier)[1] if earlier else None


Scopes = Callable[[list[str], list[Reader]], list[str]]
"""From topics and readers to the scopes of an anomaly."""
Inapplicable = Callable[[Scenario], str]
"""Returns why a scenario gives a rule nothing to examine, empty if it does."""


def topics(topics: list[str], readers: list[Reader]) -> list[str]:
    """Return all topics."""
    return topics


def groups(topics: list[str], readers: list[Reader]) -> list[str]:
    """Return the group ids of all readers, sorted."""
    return sorted({r.group for r in readers if r.group is not None})


def readers_with(condition: Callable[[Reader], bool]) -> Scopes:
    """Return the scopes of an anomaly that concerns the readers with a condition."""
    return lambda topics, readers: [r.name for r in readers if condition(r)]


all_readers = readers_with(lambda r: True)


def unless(condition: Callable[[Scenario], bool], reason: str) -> Inapplicable:
    """Return `Rule.inapplicable` of a rule that examines only scenarios with a condition."""
    return lambda scenario: "" if condition(scenario) else reason


_applies = unless(lambda scenario: True, "")


no_members = unless(lambda s: any(c.mode == "subscribe" for c in s.readers), "no consumer subscribes")
no_commits = unless(lambda s: any(commits_offsets(c) for c in s.readers), "no consumer commits offsets")
no_transactions = unless(lambda s: s.transactional, "no producer uses transactions")
no_transactional_client = unless(
    lambda s: any(p.transactions for p in s.producers) or any(p.transactions for p in s.processors),
    "no producer uses transactions",
)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The rule of one anomaly.

    examines: counters that add up to the rows examined in a scope. explain: the mechanism of a finding in one sentence,
    empty if the evidence does not show it; a text with the names of columns and evidence in braces, or a function,
    which may add to the evidence. scopes: where it is counted. counts_undetermined: whether `examines` includes
    undetermined rows. needs_clock: whether it compares times, so that a clock that ran backwards makes it undecidable.
    needs_log_times: whether it compares times of records in the log, which clients or brokers have set, with others.

    The rule judges at one or more levels: single rows of the first pass, a block of writes, one reader's rows in a
    block of reads, a block of reads, one share group's rows in it, a block of commits, a block of keys, a block of
    counted keys, or the whole run. Rules may share a function, which is then called once.
    """

    examines: tuple[Aggregate[int], ...]
    explain: str | Callable[[Finding, Evidence, RunData], str]
    scopes: Scopes = topics
    inapplicable: Inapplicable = _applies
    counts_undetermined: bool = False
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
