"""A rule: the scopes of an anomaly, the rows it examines, when it applies, how it judges and how it explains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos.kafka.settings import as_text
from chaos.scenario.consumers import Assign, Subscribe
from chaos.scenario.model import Scenario
from chaos.scenario.producers import Producer
from checks.audit.engine.survey import RowRule
from checks.audit.engine.tally import Aggregate, Tally
from checks.audit.facts.epochs import Epochs, Row
from checks.audit.facts.leadership import Leadership, last_injected
from checks.audit.facts.moves import Move
from checks.audit.facts.observed import Observed
from checks.audit.facts.readers import Reader
from checks.audit.facts.starts import CommittedOffsets
from checks.audit.findings import Finding
from checks.audit.rules.commit_block import CommitBlock
from checks.audit.rules.partition_block import PartitionBlock, ReaderBlock
from checks.audit.rules.producer_block import ProducerBlock

Evidence = dict[str, Any]


class Context:
    """The run as explanations see it. injected: time of each fault."""

    def __init__(self, scenario: Scenario, leadership: Leadership, injected: dict[str, int], epochs: Epochs) -> None:
        self.scenario, self.leadership, self.injected = scenario, leadership, injected
        self.by_key = {e.key: e for e in epochs.all}
        self.turns = epochs.by_reader_partition()

    def setting(self, client: str | None, name: str, default: str) -> str:
        """Return a setting of a producer client such as `shop/1`: the scenario's value, else the client's default."""
        entry = (client or "").rpartition("/")[0]
        producer: Producer | None = next((p for p in self.scenario.producers if p.name == entry), None)
        return as_text(producer.config.get(name, default) if producer else default)

    def last_fault(self, at_us: int) -> str | None:
        """Return the fault injected last at or before a moment, None if there was none."""
        return last_injected(self.injected, at_us)


@dataclass(frozen=True)
class RunData:
    """The facts that rules over a whole run judge on the driver.

    committed: by index of the epoch. transactions: rows of table `transactions`. survey: the result of the first pass.
    """

    readers: list[Reader]
    epochs: Epochs
    committed: dict[int, CommittedOffsets]
    observed: Observed
    transactions: list[Row]
    moves: tuple[Move, ...]
    survey: Tally

    @property
    def groups(self) -> list[str]:
        """The group ids of all readers, sorted."""
        return sorted({r.group for r in self.readers if r.group is not None})


Scopes = Callable[[list[str], list[Reader]], list[str]]
"""From topics and readers to the scopes of an anomaly."""


def topics(topics: list[str], readers: list[Reader]) -> list[str]:
    """Return all topics."""
    return topics


def readers_with(condition: Callable[[Reader], bool]) -> Scopes:
    """Return the scopes of an anomaly that concerns the readers with a condition."""
    return lambda topics, readers: [r.name for r in readers if condition(r)]


def all_readers(topics: list[str], readers: list[Reader]) -> list[str]:
    """Return all readers."""
    return [r.name for r in readers]


def always(scenario: Scenario) -> str:
    """Return no reason: the rule has something to examine in every scenario."""
    return ""


def no_explanation(f: Finding, e: Evidence, c: Context) -> str:
    """Return no explanation: the evidence does not show the mechanism."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The rule of one anomaly.

    examines: counters that add up to the rows examined in a scope. explain: returns the mechanism of a finding in one
    sentence, empty if the evidence does not show it; may add to the evidence. scopes: where it is counted.
    inapplicable: returns why a scenario gives it nothing to examine, empty if it does. counts_undetermined: whether
    `examines` includes undetermined rows. needs_clock: whether it compares times, so that a clock that ran backwards
    makes it undecidable.

    The rule judges at one or more levels: single rows of the first pass, a block of writes, one reader's rows in a
    block of reads, a block of reads, a block of commits, or the whole run. Rules may share a function, which is then
    called once.
    """

    examines: tuple[Aggregate[int], ...]
    explain: Callable[[Finding, Evidence, Context], str]
    scopes: Scopes = topics
    inapplicable: Callable[[Scenario], str] = always
    counts_undetermined: bool = False
    needs_clock: bool = False
    rows: RowRule | None = None
    writes: Callable[[ProducerBlock, Tally], None] | None = None
    reader: Callable[[ReaderBlock, Tally], None] | None = None
    reads: Callable[[PartitionBlock, Tally], None] | None = None
    commits: Callable[[CommitBlock, Tally], None] | None = None
    run: Callable[[RunData, Tally], None] | None = None


def commits_offsets(consumer: Subscribe | Assign) -> bool:
    """Return whether a scenario's consumer commits offsets."""
    return consumer.commit.when != "never" or consumer.commit.on_revoke


def present(**values: Any) -> Evidence:
    """Return the values that are not null."""
    return {name: value for name, value in values.items() if value is not None}
