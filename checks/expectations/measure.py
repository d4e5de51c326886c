"""One number for each term of the contract, from the audit's tables and the ledger's small ones, in plain Python.

A number that cannot be had is None, with the reason: GX then has nothing to compare, and the term is inconclusive.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.anomalies import PHRASES
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved
from checks.evidence.tables import audit_rows
from checks.expectations.clients import clients_that_reported
from checks.expectations.conditions import Conditions
from checks.expectations.contract import Term
from checks.expectations.groups import members_at_most, rebalances
from checks.expectations.inapplicable import nothing_to_examine
from checks.expectations.phrases import count_of, duration, listed
from checks.expectations.seen import Seen, unseen

CLIENT_FAULTS = "consumer."

BY_TIME = {"duplicate_delivery", "lost_processing", "overcommit", "commit_rewind", "foreign_commit"}
BY_TIME |= {"zombie_commit", "precommitted_read", "hanging_transaction"}
"""The checks that ask what had happened before what: with a clock that ran backwards they cannot say."""


@dataclass(frozen=True)
class _Total:
    """A check summed over its scopes."""

    count: int
    examined: int
    undetermined: int
    by_scope: list[tuple[str, int]]


class Measure:
    """The numbers of one run; `seen` gives a term's."""

    def __init__(self, run: Run, resolved: Resolved) -> None:
        self._run, self._resolved, self._scenario = run, resolved, resolved.scenario
        self._conditions = Conditions(run, resolved)
        self._summary = audit_rows(run, "summary")
        self._metrics = audit_rows(run, "metrics")
        self._distrust = self._conditions.distrust()

    def seen(self, term: Term) -> Seen:
        """What was seen of a term."""
        if term.condition:
            return self._conditions.seen(term)
        if term.check == "groups" and term.split == "members":
            return members_at_most(self._run, term.scope)
        if term.check == "client_errors":
            return clients_that_reported(self._run, term.scope, term.split)
        if term.check == "groups":
            return rebalances(self._run, self._resolved, term.scope)
        return self._count(term) if (term.check, term.split) in PHRASES else self._time(term)

    def _count(self, term: Term) -> Seen:
        if self._distrust:
            return unseen("not counted", self._distrust)
        if term.check in BY_TIME and (why := self._conditions.clock()):
            return unseen("not counted", why)
        if term.check == "stalled_delivery" and (why := self._conditions.undrained()):
            return unseen("not counted", why)
        total = self._total(term)
        if total is None and nothing_to_examine(self._scenario, term.check):
            return self._nothing(term)
        if total is None:
            why = f"the audit wrote no result of {term.check}; look at logs/checks.log and audit the run again"
            return unseen("not checked", why)
        if not (total.examined or total.count or total.undetermined):
            return self._nothing(term)
        what = PHRASES[term.check, term.split].examined
        words = count_of(total.count, total.examined, what)
        if total.undetermined and not _settled(term, total):
            why = (
                f"{total.undetermined:,} more could not be decided, and they may break the bound or meet it: "
                "keep what the rule needs (retention beyond the end of the run, acks other than 0)"
            )
            return unseen(f"{words}, {total.undetermined:,} undecided", why)
        where = listed([f"{scope}: {count:,}" for scope, count in total.by_scope if count])
        told = PHRASES[term.check, term.split].describe(total.count)
        return Seen(total.count, words, f"{told} ({where})" if where else f"none among {total.examined:,} {what}")

    def _nothing(self, term: Term) -> Seen:
        """The check saw nothing: as it should be by the scenario's design, or else a proof of nothing."""
        reason = nothing_to_examine(self._scenario, term.check)
        if reason and term.at_least == 0:
            return Seen(0, f"nothing to examine: {reason}")
        why = (
            f"the check saw nothing: {reason or 'what it looks at did not happen'}; "
            "change the scenario so that it does, or leave this out of `expect`"
        )
        return unseen(f"0 of 0 {PHRASES[term.check, term.split].examined}", why)

    def _total(self, term: Term) -> _Total | None:
        rows = [r for r in self._summary if r["check"] == term.check and (r["split"] or "") == term.split]
        if not rows:
            return None
        by_scope = sorted(((r["scope"], r["count"]) for r in rows), key=lambda pair: (-pair[1], pair[0]))
        return _Total(
            count=sum(r["count"] for r in rows),
            examined=sum(r["examined"] for r in rows),
            undetermined=sum(r.get("undetermined") or 0 for r in rows),
            by_scope=by_scope,
        )

    def _time(self, term: Term) -> Seen:
        if why := self._conditions.clock():
            return unseen("not measured", why)
        rows = [
            r
            for r in self._metrics
            if (r["metric"], r["stat"]) == (term.check, term.split) and r["value_us"] is not None
        ]
        if faults := self._unmeasured({r["fault"] for r in rows}, term.check):
            why = f"none was measured for {listed(faults)}: keep the load running for longer, so that its end shows"
            return unseen("not measured", why)
        if not rows:
            return unseen(
                "not measured", "nothing of the kind happened in this run: bound it in a scenario where it does"
            )
        worst = max(rows, key=lambda r: r["value_us"])
        if worst["value_us"] <= (term.at_most or 0) and (lasting := self._lasting(term.check)):
            why = f"{lasting} when the drive ended, so the outage is longer: keep the load running for longer"
            return unseen(f"more than {duration(worst['value_us'])}", why)
        whose = f"fault {worst['fault']}, {worst['scope']}" if worst["fault"] else worst["scope"]
        return Seen(worst["value_us"], duration(worst["value_us"]), f"{duration(worst['value_us'])} in {whose}")

    def _lasting(self, metric: str) -> str:
        """Outages that had not ended when the drive did: their measured time is less than the true one."""
        rows = [r for r in audit_rows(self._run, "counts") if r["name"] == f"{metric}_unrecovered" and r["value"]]
        return listed([f"{r['value']:,} partitions of {r['scope']} had not recovered" for r in rows])

    def _unmeasured(self, measured: set[str], metric: str) -> list[str]:
        """Faults that took place and have no measurement, for a metric that is taken for each fault.

        A fault of a consumer does not touch producers, so it may come when they are done.
        """
        if not metric.endswith("_unavailability"):
            return []
        spared = CLIENT_FAULTS if metric == "produce_unavailability" else "none"
        return [f.name for f in self._scenario.faults if f.name not in measured and not f.kind.startswith(spared)]


def _settled(term: Term, total: _Total) -> bool:
    """Whether the term comes out the same whatever the undetermined rows are."""
    least, most = total.count, total.count + total.undetermined
    if term.at_most is not None and most > term.at_most:
        return least > term.at_most
    return (least >= term.at_least) == (most >= term.at_least)
