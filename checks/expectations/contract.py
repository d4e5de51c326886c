"""From a scenario to the terms of its contract: every line that GX checks, with its bounds and its words.

Two sorts of terms. Those of the scenario (`expect:`) fail the run when they are broken. Those of the platform
(`condition`) say whether the run can prove anything, and make it inconclusive when they are not met: every fault
proven, the ledger complete, no client dead unasked, the log read back, something happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaos.anomalies import METRICS, PHRASES
from chaos.scenario.expect import Bound
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from checks.expectations.phrases import duration

PERCENTILES = {"p50": "median", "p95": "95th percentile", "p99": "99th percentile", "max": "longest"}


@dataclass(frozen=True)
class Term:
    """One line of the contract: the column of the summary row that is bounded, and the bounds."""

    rule: str
    column: str
    name: str
    check: str
    expected: str
    split: str = ""
    scope: str = ""
    at_least: int = 0
    at_most: int | None = None
    condition: bool = False

    @property
    def gx_class(self) -> str:
        """The name of the GX class that states it."""
        return f"Expect{self.rule}ToBeBetween"


def terms(resolved: Resolved) -> list[Term]:
    """All terms: the scenario's own first, then the platform's."""
    s = resolved.scenario
    return [*_counts(s), *_times(s), *_groups(s), *_client_errors(s), *_conditions(s)]


def planned_sends(s: Scenario) -> int:
    """How many records the producers are to send in all."""
    return sum(p.count * p.records for p in s.producers)


def partitions(s: Scenario) -> int:
    """How many partitions the final log has."""
    return sum(s.partitions_at_end().values())


def readers(s: Scenario) -> dict[str, str]:
    """Every reader and its mode: a group is one reader, and so is each assign-mode consumer."""
    found: dict[str, str] = {}
    for c in s.readers:
        if c.mode == "subscribe":
            found[c.group] = c.mode
        else:
            found.update({f"{c.name}/{i}": c.mode for i in range(1, c.members + 1)})
    return found


def _counts(s: Scenario) -> Iterator[Term]:
    for (kind, split), bound in s.expect.counts().items():
        if bound.min == 0 and bound.max is None:
            continue  # any number is as good as another: nothing is expected
        phrases = PHRASES[kind, split]
        name = phrases.absent if bound.max == 0 else phrases.present
        yield _bounded(bound, phrases.rule, f"{kind}_{split}" if split else kind, name, check=kind, split=split)


def _times(s: Scenario) -> Iterator[Term]:
    for (metric, stat), limit_s in s.expect.times().items():
        limit_us = round(limit_s * 1_000_000)
        yield Term(
            METRICS[metric].rule,
            f"{metric}_{stat}",
            f"{METRICS[metric].name}, {PERCENTILES[stat]}",
            check=metric,
            split=stat,
            expected=f"{stat} ≤ {duration(limit_us)}",
            at_most=limit_us,
        )


def _groups(s: Scenario) -> Iterator[Term]:
    """Columns are numbered: a group id may hold characters that no column name should."""
    for i, (group, bound) in enumerate(s.expect.groups.items(), start=1):
        for rule, what, limit in (
            ("GroupMembers", "members", bound.members),
            ("Rebalances", "rebalances", bound.rebalances),
        ):
            if limit.min or limit.max is not None:
                name = f"Group {group}: {'most members at once' if what == 'members' else what}"
                yield _bounded(limit, rule, f"group_{i}_{what}", name, check="groups", split=what, scope=group)


def _client_errors(s: Scenario) -> Iterator[Term]:
    """Columns are numbered: what a client says may hold any characters. The words stand in `split`."""
    for i, (entry, wanted) in enumerate(s.expect.client_errors.items(), start=1):
        for j, (words, bound) in enumerate(wanted.items(), start=1):
            if bound.min or bound.max is not None:
                name = f"Clients of {entry} that report {words}"
                column = f"client_errors_{i}_{j}"
                yield _bounded(bound, "ClientErrors", column, name, check="client_errors", split=words, scope=entry)


def _bounded(bound: Bound, rule: str, column: str, name: str, *, check: str, split: str = "", scope: str = "") -> Term:
    return Term(
        rule, column, name, check, bound.describe(), split=split, scope=scope, at_least=bound.min, at_most=bound.max
    )


def _conditions(s: Scenario) -> Iterator[Term]:
    for i, fault in enumerate(s.faults, start=1):
        name = f"Fault {fault.name} took effect"
        yield _condition("FaultProofs", f"fault_{i}_proofs", name, "fault_proof", 1, None, "proven", scope=fault.name)
    yield _condition("StagesBrokenOff", "stages_broken_off", "The drive ran to its end", "drive_completed", 0, 0)
    yield _condition(
        "RowsMissingFromAudit",
        "rows_missing",
        "Every row of the ledger was audited",
        "ledger_complete",
        0,
        0,
        split="rows",
    )
    yield _condition(
        "UnexplainedTornBytes",
        "torn_bytes",
        "No ledger file was torn by accident",
        "ledger_complete",
        0,
        0,
        split="torn",
    )
    yield _condition("UnexpectedClientDeaths", "client_deaths", "No client died unasked", "clients_lived", 0, 0)
    yield _condition(
        "DoubledIncarnations",
        "doubled_incarnations",
        "Each incarnation was one process",
        "ledger_complete",
        0,
        0,
        split="incarnations",
    )
    all_of_them = partitions(s)
    yield _condition(
        "PartitionsReadBack",
        "partitions_read_back",
        "The final log was read back",
        "log_read_back",
        all_of_them,
        all_of_them,
    )
    yield _condition(
        "RecordsSent",
        "records_sent",
        "The producers sent all they were to send",
        "something_happened",
        planned_sends(s),
        split="sent",
    )
    yield _condition(
        "RecordsAcknowledged",
        "records_acked",
        "Records were acknowledged in every topic",
        "something_happened",
        1,
        split="acked",
    )
    if s.consumers:
        yield _condition(
            "RecordsDelivered",
            "records_delivered",
            "Every reader got records",
            "something_happened",
            1,
            split="delivered",
        )


def _condition(
    rule: str,
    column: str,
    name: str,
    check: str,
    at_least: int,
    at_most: int | None = None,
    expected: str = "",
    *,
    split: str = "",
    scope: str = "",
) -> Term:
    expected = expected or (f"{at_least:,}" if at_least == at_most else f"at least {at_least:,}")
    return Term(rule, column, name, check, expected, split, scope, at_least, at_most, condition=True)
