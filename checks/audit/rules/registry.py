"""The registry of rules, one per anomaly, and their application to rows, to blocks on executors and to a whole run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from chaos.scenario.model import Scenario
from checks.audit.arrays import NONE
from checks.audit.engine.blocks import Rows, unpack_block
from checks.audit.engine.commits import CommitBlock, commits_at_begin
from checks.audit.engine.counters import CONSUMED, DISTINCT, IN_RANGE, JUDGED, LATENCIES, SHARE_RANGE
from checks.audit.engine.group import runs
from checks.audit.engine.keys import KeyBlock
from checks.audit.engine.outputs import CountBlock
from checks.audit.engine.survey import RowRule
from checks.audit.engine.tally import Tally, histogram
from checks.audit.engine.time_buckets import add_heat, add_successes
from checks.audit.facts.run_facts import RunFacts
from checks.audit.rules import (
    cleanup,
    commits,
    deliveries,
    groups,
    outputs,
    positions,
    quorum,
    shares,
    transactions,
    writes,
)
from checks.audit.rules.partition_block import PartitionBlock, ReaderBlock
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import Parties, Rule, RunData
from checks.audit.rules.share_block import share_blocks

RULES: dict[str, Rule] = {
    **writes.RULES,
    **positions.RULES,
    **cleanup.RULES,
    **transactions.RULES,
    **deliveries.RULES,
    **outputs.RULES,
    **commits.RULES,
    **groups.RULES,
    **shares.RULES,
    **quorum.RULES,
}
"""The rules by the name of their anomaly in `chaos.anomalies`."""

NEED_CLOCK = frozenset(check for check, rule in RULES.items() if rule.needs_clock)
"""The checks that a clock that ran backwards makes undecidable."""

NEED_LOG_TIMES = frozenset(check for check, rule in RULES.items() if rule.needs_log_times)
"""The checks that a fault of the clock that stamps records makes undecidable."""


def nothing_to_examine(scenario: Scenario, check: str) -> str:
    """Return why a check has nothing to examine in a scenario, empty if it has.

    A check that examined nothing although the scenario gives it something to examine proves nothing.
    """
    return RULES[check].scopes.of(Parties.of(scenario))[1]


Packed = dict[str, list[bytes]]
"""The packed rows of a block, by kind."""
T = TypeVar("T")


def _distinct(rules: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(rule for rule in rules if rule is not None))


ROW_RULES: tuple[RowRule, ...] = _distinct(rule.rows for rule in RULES.values())
_OF_WRITES = _distinct(rule.writes for rule in RULES.values())
_OF_READERS = _distinct(rule.reader for rule in RULES.values())
_OF_READS = _distinct(rule.reads for rule in RULES.values())
_OF_SHARES = _distinct(rule.shares for rule in RULES.values())
_OF_COMMITS = _distinct(rule.commits for rule in RULES.values())
_OF_KEYS = _distinct(rule.keys for rule in RULES.values())
_OF_COUNTS = _distinct(rule.counts for rule in RULES.values())
_OF_RUN = _distinct(rule.run for rule in RULES.values())


def judge_block(name: str, packed: Packed, facts: RunFacts, tally: Tally) -> None:
    """Apply the rules to one block. name: see `blocks.block_name`."""
    path, *key = json.loads(name)
    rows = unpack_block(packed)
    if path == "write":
        producer, number = key
        judge_writes(ProducerBlock(producer, number, facts, rows), tally)
    elif path == "read":
        topic, partition, _ = key
        block = PartitionBlock(topic, partition, facts, rows)
        _judge_reads(block, tally)
        _judge_shares(block, rows, tally)
    elif path == "keys":
        keyed = KeyBlock(key[0], facts, rows)
        for of_keys in _OF_KEYS:
            of_keys(keyed, tally)
    elif path == "counts":
        counted = CountBlock(key[0], facts, rows)
        for of_counts in _OF_COUNTS:
            of_counts(counted, tally)
    elif len(rows["commits"]["offset"]):
        topic, partition = key
        commits = CommitBlock(topic, partition, facts, rows)
        for rule in _OF_COMMITS:
            rule(commits, tally)


def judge_fetches(name: str, packed: Packed, facts: RunFacts, tally: Tally) -> None:
    """Add what the commits of one block say about the begins of epochs."""
    _, topic, partition = json.loads(name)
    commits_at_begin(topic, partition, unpack_block(packed)["commits"], facts, tally)


def judge_run(run: RunData, tally: Tally) -> None:
    """Apply the rules that judge the whole run."""
    for rule in _OF_RUN:
        rule(run, tally)


def judge_writes(block: ProducerBlock, tally: Tally) -> None:
    """Apply the rules of the write path to one block."""
    for rule in _OF_WRITES:
        rule(block, tally)


def _judge_reads(block: PartitionBlock, tally: Tally) -> None:
    for reader in block.readers():
        tally.add(IN_RANGE, reader.name, value=reader.in_range())
        for rule in _OF_READERS:
            rule(reader, tally)
        _add_times(reader, tally)
    for rule_of_reads in _OF_READS:
        rule_of_reads(block, tally)


def _judge_shares(block: PartitionBlock, rows: Rows, tally: Tally) -> None:
    for share in share_blocks(block, rows["acquisitions"], rows["acknowledgements"]):
        tally.add(SHARE_RANGE, share.name, value=int(share.visible().sum()))
        tally.add(DISTINCT, share.name, value=len(runs(share.rows["offset"])))
        tally.add(JUDGED, share.name, value=len(share.rows["offset"]))
        for rule in _OF_SHARES:
            rule(share, tally)


def _add_times(r: ReaderBlock, tally: Tally) -> None:
    """Add the latency of the first processing of each record, and the successes around faults."""
    first: Any = r.named & (r.rows["sent_us"] != NONE)
    repeated = r.repeated()
    if len(repeated):
        order = repeated[np.lexsort((r.rows["processed_us"][repeated], r.rows["offset"][repeated]))]
        first[order[1:][r.at[order][1:] == r.at[order][:-1]]] = False
    done, sent = r.rows["processed_us"][first], r.rows["sent_us"][first]
    if not len(done):
        return
    starts = runs(done, sent)
    done, sent, counts = done[starts], sent[starts], np.diff(starts, append=len(done))
    took = np.maximum(done - sent, 0)
    tally.add(LATENCIES["end_to_end_latency"], r.name, value=histogram(took, counts))
    add_heat(tally, "end_to_end", r.name, done, took, counts, r.facts.cell_us)
    partitions = np.full(len(done), r.block.partition, np.int64)
    scope = f"{r.name} {r.block.topic}"
    add_successes(tally, CONSUMED, scope, partitions, done, sent, counts, r.facts.injected)
