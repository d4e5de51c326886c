"""Observed values of the terms of the contract, from the tables of the audit and the small tables of the ledger.

If there is no value, the observation says why: GX then has nothing to compare, and the term is inconclusive.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.anomalies import PHRASES
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved
from checks.audit.rules.registry import NEED_CLOCK, nothing_to_examine
from checks.evidence.tables import audit_rows
from checks.expectations.clients import clients_with_error, most_members, rebalances
from checks.expectations.conditions import Conditions
from checks.expectations.contract import Term
from checks.expectations.observation import Observation, count_of, duration, listed

CLIENT_FAULTS = "consumer."


@dataclass(frozen=True)
class _Total:
    """Counts of a check, summed over its scopes; by_scope has the largest count first."""

    count: int
    examined: int
    undetermined: int
    by_scope: list[tuple[str, int]]


class Measure:
    """Observed values of one run; `observe` returns the value of a term."""

    def __init__(self, run: Run, resolved: Resolved) -> None:
        self._run, self._resolved, self._scenario = run, resolved, resolved.scenario
        self._conditions = Conditions(run, resolved)
        self._summary = audit_rows(run, "summary")
        self._metrics = audit_rows(run, "metrics")
        self._distrust = self._conditions.distrust()

    def observe(self, term: Term) -> Observation:
        """Return the observed value of a term."""
        if term.condition:
            return self._conditions.observe(term)
        if term.check == "groups" and term.split == "members":
            return most_members(self._run, term.scope)
        if term.check == "client_errors":
            return clients_with_error(self._run, term.scope, term.split)
        if term.check == "groups":
            return rebalances(self._run, self._resolved, term.scope)
        return self._count(term) if (term.check, term.split) in PHRASES else self._time(term)

    def _count(self, term: Term) -> Observation:
        if reason := self._uncountable(term.check):
            return Observation.missing("not counted", reason)
        total = self._total(term)
        if total is None and not nothing_to_examine(self._scenario, term.check):
            reason = f"the audit wrote no result of {term.check}; look at logs/checks.log and audit the run again"
            return Observation.missing("not checked", reason)
        if total is None or not (total.examined or total.count or total.undetermined):
            return self._nothing_examined(term)
        phrases = PHRASES[term.check, term.split]
        text = count_of(total.count, total.examined, phrases.examined)
        if total.undetermined and not _settled(term, total):
            reason = (
                f"{total.undetermined:,} more could not be decided, and they may break the bound or meet it: "
                "keep what the rule needs (retention beyond the end of the run, acks other than 0)"
            )
            return Observation.missing(f"{text}, {total.undetermined:,} undecided", reason)
        scopes = listed([f"{scope}: {count:,}" for scope, count in total.by_scope if count])
        reason = f"{phrases.describe(total.count)} ({scopes})" if scopes else ""
        return Observation(total.count, text, reason or f"none among {total.examined:,} {phrases.examined}")

    def _uncountable(self, check: str) -> str:
        """Return why the counts of a check are unreliable; empty if they are reliable."""
        if self._distrust:
            return self._distrust
        if check in NEED_CLOCK and (reason := self._conditions.clock()):
            return reason
        return self._conditions.undrained() if check == "stalled_delivery" else ""

    def _nothing_examined(self, term: Term) -> Observation:
        """Return 0 if the scenario gives the check nothing to examine, else an observation without a value."""
        reason = nothing_to_examine(self._scenario, term.check)
        if reason and term.at_least == 0:
            return Observation(0, f"nothing to examine: {reason}")
        return Observation.missing(
            f"0 of 0 {PHRASES[term.check, term.split].examined}",
            f"the check saw nothing: {reason or 'what it examines did not happen'}; "
            "change the scenario so that it does, or leave this out of `expect`",
        )

    def _total(self, term: Term) -> _Total | None:
        rows = [r for r in self._summary if r["check"] == term.check and (r["split"] or "") == term.split]
        if not rows:
            return None
        return _Total(
            count=sum(r["count"] for r in rows),
            examined=sum(r["examined"] for r in rows),
            undetermined=sum(r.get("undetermined") or 0 for r in rows),
            by_scope=sorted(((r["scope"], r["count"]) for r in rows), key=lambda pair: (-pair[1], pair[0])),
        )

    def _time(self, term: Term) -> Observation:
        if reason := self._conditions.clock():
            return Observation.missing("not measured", reason)
        rows = [
            r
            for r in self._metrics
            if (r["metric"], r["stat"]) == (term.check, term.split) and r["value_us"] is not None
        ]
        if faults := self._unmeasured({r["fault"] for r in rows}, term.check):
            reason = f"none was measured for {listed(faults)}: keep the load running for longer, so that its end shows"
            return Observation.missing("not measured", reason)
        if not rows:
            reason = "nothing of the kind happened in this run: bound it in a scenario where it does"
            return Observation.missing("not measured", reason)
        worst = max(rows, key=lambda r: r["value_us"])
        value_us, text = worst["value_us"], duration(worst["value_us"])
        if value_us <= (term.at_most or 0) and (outages := self._unrecovered(term.check)):
            reason = f"{outages} when the drive ended, so the outage is longer: keep the load running for longer"
            return Observation.missing(f"more than {text}", reason)
        place = f"fault {worst['fault']}, {worst['scope']}" if worst["fault"] else worst["scope"]
        return Observation(value_us, text, f"{text} in {place}")

    def _unrecovered(self, metric: str) -> str:
        """Return the outages that lasted beyond the end of the drive: their measured time is too short."""
        rows = [r for r in audit_rows(self._run, "counts") if r["name"] == f"{metric}_unrecovered" and r["value"]]
        return listed([f"{r['value']:,} partitions of {r['scope']} had not recovered" for r in rows])

    def _unmeasured(self, measured: set[str], metric: str) -> list[str]:
        """Return the faults without a measurement, if the metric is measured for each fault.

        A fault of a consumer does not affect producers, so it may come after they have finished.
        """
        if not metric.endswith("_unavailability"):
            return []
        exempt = CLIENT_FAULTS if metric == "produce_unavailability" else "none"
        return [f.name for f in self._scenario.faults if f.name not in measured and not f.kind.startswith(exempt)]


def _settled(term: Term, total: _Total) -> bool:
    """Return whether the verdict is the same for every outcome of the undetermined rows."""
    least, most = total.count, total.count + total.undetermined
    if term.at_most is not None and most > term.at_most:
        return least > term.at_most
    return (least >= term.at_least) == (most >= term.at_least)
