"""From a scenario to the terms of its contract: the values that Great Expectations checks, with bounds and names.

Terms of the scenario (`expect:`) fail the run if they do not hold. Terms of the platform (`condition`) say whether the
run can prove anything, and make it inconclusive if they do not hold: every fault took effect, the ledger is complete,
no client died unexpectedly, the log was read back, records were sent and delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from chaos.anomalies import ANOMALIES, METRICS, PHRASES
from chaos.faults.producers import ProducerLeaveSpec
from chaos.faults.raw import RECORDS
from chaos.guarantees.contract import contract, unpromised
from chaos.run.result import EFFECT_READ, EFFECTS
from chaos.scenario.expect import ANY, Bound, EffectBound
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from chaos.units import format_percent

PERCENTILES = {"p50": "median", "p95": "95th percentile", "p99": "99th percentile", "max": "longest"}


Table = Literal["summary", "metrics", "effects", "observations"]
Key = tuple[str, str, str]
"""The check, split and scope of a term: no two terms have the same."""


@dataclass(frozen=True)
class Term:
    """One value of the contract and its bounds.

    check, split, scope: as in `chaos.run.result.Expectation`; meaning: what the value is; expected: the bounds as text;
    undecided: why the settings do not say whether the value is legal where it is out of its bounds; unpromised: why the
    settings do not promise the zero that is demanded.
    """

    name: str
    check: str
    meaning: str
    expected: str = ""
    split: str = ""
    scope: str = ""
    at_least: int = 0
    at_most: int | None = None
    condition: bool = False
    undecided: str = ""
    unpromised: str = ""

    @property
    def key(self) -> Key:
        """Return what identifies the term."""
        return self.check, self.split, self.scope

    @property
    def table(self) -> Table:
        """Return the table of the audit that holds the value, or `observations`."""
        if (self.check, self.split) in PHRASES:
            return "summary"
        if self.check == EFFECTS:
            return "effects"
        return "metrics" if self.check in METRICS else "observations"

    def decides(self, proven: bool) -> bool:
        """Return whether a value out of its bounds breaks the contract. proven: see `Observation`."""
        return not self.condition and (not self.undecided or proven)


def terms(resolved: Resolved) -> list[Term]:
    """Return all terms: first the terms of the scenario, then the terms of the platform."""
    s = resolved.scenario
    of_scenario = [*_counts(s), *_effects(s), *_times(s), *_sends(s), *_groups(s), *_client_errors(s), *_superseded(s)]
    return [*of_scenario, *_conditions(s)]


def planned_sends(s: Scenario) -> int:
    """Return the number of records that the producers and the faults send in total, at least.

    A producer that leaves for good may have sent none.
    """
    gone = Counter(f.client_name() for f in s.faults if isinstance(f, ProducerLeaveSpec) and f.for_good)
    sent = sum(max(0, p.count - gone[p.name]) * p.records for p in s.producers if not p.rows)
    return sent + sum(RECORDS[f.sends] for f in s.raw_writes)


def planned_rows(s: Scenario) -> int:
    """Return the number of rows that the producers write in total, at least."""
    return sum(p.count * p.records for p in s.producers if p.rows)


def partition_count(s: Scenario) -> int:
    """Return the number of partitions of the final log."""
    return sum(s.partitions_at_end().values())


def readers(s: Scenario) -> dict[str, str]:
    """Return the mode of each reader by name: a group is one reader, and so is each assign-mode consumer."""
    modes: dict[str, str] = {entry.group: entry.mode for entry in s.shares}
    for c in s.readers:
        if c.mode == "subscribe":
            modes[c.group] = c.mode
        else:
            modes.update({f"{c.name}/{i}": c.mode for i in range(1, c.members + 1)})
    return modes


def _counts(s: Scenario) -> Iterator[Term]:
    open_zeros = unpromised(s)
    for line in contract(s).lines:
        kind, split = line.kind, line.split
        phrases = PHRASES[kind, split]
        name = phrases.absent if line.bound.max == 0 else phrases.present
        term = Term(name, kind, f"Number of findings: {ANOMALIES[kind].meaning}.", split=split)
        undecided = line.reason if line.state == "not decided" else ""
        term = replace(term, undecided=undecided, unpromised=open_zeros.get((kind, split), ""))
        yield from _bounded(line.bound, term)


def _times(s: Scenario) -> Iterator[Term]:
    for (metric, stat), limit_s in s.expect.times().items():
        limit_us = round(limit_s * 1_000_000)
        yield Term(
            f"{METRICS[metric].name}, {PERCENTILES[stat]}",
            metric,
            f"Time {METRICS[metric].meaning}, in microseconds.",
            expected=f"{stat} ≤ {duration(limit_us)}",
            split=stat,
            at_most=limit_us,
        )


def _effects(s: Scenario) -> Iterator[Term]:
    """Yield the bounds of each effect. `split` is the kind, such as missing or `late p99`."""
    for effect in s.effects:
        bound, name = s.expect.effects.get(effect.name, EffectBound()), f"Effect {effect.name}"
        rows = [
            ("missing", "Effects that acknowledged inputs lack.", bound.missing),
            ("duplicate", "Effects of an input beyond those that it is to have.", bound.duplicate),
            ("unexpected", "Effects without an input, or of one that was not written.", bound.unexpected),
            ("wrong", "Effects with another value than they must have.", bound.wrong if effect.compares else ANY),
            ("behind", "Inputs without an effect yet when a fault came.", bound.behind or ANY),
        ]
        for kind, meaning, limit in rows:
            yield from _bounded(limit, Term(f"{name}: {kind}", EFFECTS, meaning, split=kind, scope=effect.name))
        for stat, limit_s in bound.late or ():
            if limit_s is not None:
                limit_us = round(limit_s * 1_000_000)
                text, meaning = (
                    f"{stat} ≤ {duration(limit_us)}",
                    "Time from acknowledgement to effect (in microseconds).",
                )
                split, title = f"late {stat}", f"{name}: time to it, {PERCENTILES[stat]}"
                yield Term(title, EFFECTS, meaning, text, split, effect.name, at_most=limit_us)


def _sends(s: Scenario) -> Iterator[Term]:
    for outcome, name, bound in (
        ("fail", "Sends that failed", s.expect.send_failures.fail),
        ("unknown", "Sends of unknown outcome", s.expect.send_failures.unknown),
    ):
        meaning = "Sends of all producers with this outcome."
        yield from _bounded(bound, Term(name, "send_failures", meaning, split=outcome))
    if (success := s.expect.send_success) is not None:
        share, window = format_percent(success.min), duration(round(success.per * 1_000_000))
        name, expected = f"Share of acknowledged sends, lowest of all windows of {window}", f"at least {share}"
        meaning = "Lowest share of acknowledged sends in a window of a topic, in millionths."
        yield Term(name, "send_success", meaning, expected, at_least=success.min)


def _groups(s: Scenario) -> Iterator[Term]:
    for group, bound in s.expect.groups.items():
        for split, name, meaning, limit in (
            ("members", "most members at once", "Most members that the coordinator reported at a time.", bound.members),
            ("rebalances", "rebalances", "Generations of the group after it had first formed.", bound.rebalances),
        ):
            yield from _bounded(limit, Term(f"Group {group}: {name}", "groups", meaning, split=split, scope=group))


def _client_errors(s: Scenario) -> Iterator[Term]:
    """`split` is the text of the error."""
    for entry, bounds in s.expect.client_errors.items():
        for text, bound in bounds.items():
            name, meaning = f"Clients of {entry} that report {text}", "Clients that reported an error with this text."
            yield from _bounded(bound, Term(name, "client_errors", meaning, split=text, scope=entry))


def _superseded(s: Scenario) -> Iterator[Term]:
    """Yield a term for each compacted topic: the bound of the scenario, else a condition that compaction took place."""
    for topic in sorted(s.compacted | set(s.expect.superseded)):
        name = f"Compaction removed superseded records of {topic}"
        term = Term(name, "superseded", "Acknowledged records that compaction removed.", scope=topic)
        if topic in s.expect.expired_tombstones:
            name, meaning = f"Tombstones of {topic} expired", "Acknowledged tombstones that compaction removed in time."
            expired = Term(name, "expired_tombstones", meaning, scope=topic)
            yield from _bounded(s.expect.expired_tombstones[topic], expired)
        if topic in s.expect.superseded:
            yield from _bounded(s.expect.superseded[topic], term)
        else:
            yield replace(term, expected="at least 1", at_least=1, condition=True)


def _racks(s: Scenario) -> Iterator[Term]:
    """Yield a condition for each entry with a rack: it read from the replicas there."""
    for entry in [c for c in s.readers if c.rack]:
        name = f"Consumer {entry.name} read from rack {entry.rack}"
        meaning = "Share in percent of the Fetch requests that went to brokers in the rack."
        expected = "more than half of its fetches"
        yield Term(name, "rack_fetches", meaning, expected, scope=entry.name, at_least=51, condition=True)


def _bounded(bound: Bound, term: Term) -> Iterator[Term]:
    """Yield the term with a bound of the scenario; nothing if any value is within the bound."""
    if bound.min or bound.max is not None:
        yield replace(term, expected=bound.describe(), at_least=bound.min, at_most=bound.max)


def _conditions(s: Scenario) -> Iterator[Term]:
    for fault in s.every_fault:
        name, meaning = f"Fault {fault.name} took effect", "A change that was observed from outside the injector."
        yield Term(name, "fault_proof", meaning, "proven", scope=fault.name, at_least=1, condition=True)
    yield from _racks(s)
    for effect in s.effects:
        name, meaning = f"Effect {effect.name} was read", "Rows without an id."
        yield Term(name, EFFECT_READ, meaning, "all of it", scope=effect.name, at_most=0, condition=True)
    whole, happened, total = "ledger_complete", "something_happened", partition_count(s)
    rows = (
        ("drive_completed", "", "The drive completed", "Stages of the drive that failed or never ended.", 0, 0),
        (whole, "rows", "Every row of the ledger was audited", "Rows that the audit did not read.", 0, 0),
        (whole, "torn", "No ledger file is torn unexpectedly", "Torn bytes of clients that no fault killed.", 0, 0),
        ("clients_lived", "", "No client died unexpectedly", "Clients that died although no fault killed them.", 0, 0),
        (whole, "incarnations", "Each incarnation is one process", "Incarnations with more than one process.", 0, 0),
        ("log_read_back", "", "The final log was read back", "Partitions that were read back.", total, total),
        (happened, "sent", "The producers sent all records", "Sends, whatever their outcome.", planned_sends(s), None),
        (
            happened,
            "inserted",
            "The producers wrote all rows",
            "Rows that are in the table or file.",
            planned_rows(s),
            None,
        ),
        (
            happened,
            "acked",
            "Every topic has acknowledged records",
            "Acknowledged records of the topic with the fewest.",
            1,
            None,
        ),
        (
            happened,
            "delivered",
            "Every reader received records",
            "Delivered records of the reader with the fewest.",
            1,
            None,
        ),
    )
    without = set() if readers(s) else {"delivered"}
    without |= set() if planned_rows(s) else {"inserted"}
    without |= {"sent", "acked"} if all(p.rows for p in s.producers) and not planned_sends(s) else set()
    without |= {"sent", "acked", "delivered", "incarnations", "clients_lived"} if s.tapped else set()
    for check, split, name, meaning, least, most in [row for row in rows if not without & {*row[:2]}]:
        expected = f"at least {least:,}" if most is None else f"{most:,}"
        yield Term(name, check, meaning, expected, split, "", least, most, condition=True)


def duration(us: int) -> str:
    """Format microseconds, such as `812 ms`, `9.8 s`, `15 s` or `2 min 5 s`."""
    if us < 1_000:
        return f"{us} us"
    if us < 999_500:
        return f"{us / 1_000:.3g} ms"
    if us < 119_950_000:
        return f"{round(us / 1_000_000, 1 if us >= 10_000_000 else 2):g} s"
    minutes, seconds = divmod(round(us / 1_000_000), 60)
    return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
