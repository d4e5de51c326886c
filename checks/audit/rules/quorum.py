"""The KRaft quorum: competing_controllers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from chaos.scenario.model import Scenario
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.observed import Observed
from checks.audit.findings import Finding
from checks.audit.rules.rule import Rule, RunData, Scopes, present

SCOPE = "controllers"
FETCH_TIMEOUT_MS = 2000
"""Default of controller.quorum.fetch.timeout.ms."""
TERMS = total("terms")
"""Observed terms of active controllers."""


@dataclass(frozen=True)
class Term:
    """A time in which a controller answered as the active one, from its first answer to its last answered request."""

    controller: int
    epoch: int
    from_us: int
    asked_us: int


def competing_controllers(run: RunData, tally: Tally) -> None:
    """Report each term that went on together with a later one for longer than the fetch timeout of the quorum.

    A follower waits that long before it stands for election. From Kafka 3.7 on, the active controller gives up when a
    majority has not fetched for one and a half times as long, so two may answer as active for half of it. Two in the
    same epoch are reported at once.
    """
    terms = list(_terms(run.observed))
    tally.add(TERMS, SCOPE, value=len(terms))
    limit_us = 1000 * _fetch_timeout_ms(run.scenario)
    for term in terms:
        if (other := _rival(term, terms, limit_us)) is not None:
            evidence = present(
                controller=term.controller,
                epoch=term.epoch,
                other=other.controller,
                other_epoch=other.epoch,
                together_us=term.asked_us - other.from_us,
                limit_us=limit_us,
                fault=run.last_fault(other.from_us),
            )
            tally.report("competing_controllers", SCOPE, 1, [{"at_us": other.from_us, "evidence": evidence}])


def _terms(observed: Observed) -> Iterator[Term]:
    """Yield the terms of all controllers with a recorded end."""
    for entity in observed.entities("active_last"):
        begins = observed.changes(entity, "active")
        for end_us, last in observed.changes(entity, "active_last"):
            found = [at_us for at_us, epoch in begins if epoch == last["epoch"] and at_us <= end_us]
            if found:
                yield Term(int(entity.rpartition(":")[2]), last["epoch"], found[-1], last["asked_us"])


def _rival(term: Term, terms: Iterable[Term], limit_us: int) -> Term | None:
    """Return the first term of another controller that this one outlasted for too long; None without one."""
    rivals = [
        other
        for other in terms
        if other.controller != term.controller
        and (
            (other.epoch == term.epoch and other.controller > term.controller)
            or (other.epoch > term.epoch and term.asked_us - other.from_us > limit_us)
        )
    ]
    return min(rivals, key=lambda other: other.from_us, default=None)


def _fetch_timeout_ms(scenario: Scenario) -> int:
    return int(str(scenario.cluster.config.get("controller.quorum.fetch.timeout.ms", FETCH_TIMEOUT_MS)))


def _explain(f: Finding, e: dict[str, Any], c: RunData) -> str:
    if e["epoch"] == e["other_epoch"]:
        return f"controllers {e['controller']} and {e['other']} were both active in epoch {e['epoch']}"
    seconds = e["together_us"] / 1e6
    return (
        f"controller {e['controller']} answered as active in epoch {e['epoch']} until {seconds:.1f} s after controller "
        f"{e['other']} was active in epoch {e['other_epoch']}"
    )


RULES = {
    "competing_controllers": Rule(
        examines=(TERMS,),
        explain=_explain,
        scopes=Scopes(lambda parties: [SCOPE]).if_any(
            lambda s: s.cluster.controllers, "the cluster has no dedicated controllers"
        ),
        needs_clock=True,
        run=competing_controllers,
    )
}
