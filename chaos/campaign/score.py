"""The score of campaigns: whether outcomes are the same, what several are together, and how often anomalies occur."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence

from chaos.anomalies import ANOMALIES, METRICS
from chaos.errors import UsageError
from chaos.guarantees.contract import contract
from chaos.run.campaign import Machine, Part, Rate, TrialRun
from chaos.run.result import EFFECT_KINDS, RunOutcome, anomaly_name, effect_anomaly, exceeding
from chaos.run.result import merge as worst
from chaos.scenario.model import Scenario

CONFIDENCE = 0.95


def parse_anomaly(text: str, scenario: Scenario) -> str:
    """Return the name of an anomaly that a user wrote (`lost_write`, `duplicate_delivery.illegal`).

    A metric (`produce_unavailability`) stands for a time that exceeds a bound of the scenario. Of an effect
    `invoices` there is `effect_missing.invoices`, and each other kind of effect.
    Raises `UsageError` with the known names, or if the scenario does not bound the metric.
    """
    kind, _, split = text.strip().replace(".", " ").partition(" ")
    if kind in METRICS and not split:
        if kind in {metric for metric, _ in scenario.expect.times()}:
            return exceeding(kind)
        raise UsageError(f"the scenario has no bound for {kind}; add one: --set expect.{kind}.max=30s")
    names = [effect_anomaly(of, effect.name) for effect in scenario.effects for of in EFFECT_KINDS]
    of_effects = {name.replace(" ", "."): name for name in names}
    if (name := text.strip().replace(" ", ".")) in of_effects:
        return of_effects[name]
    if kind not in ANOMALIES or (split and split not in ANOMALIES[kind].splits):
        known = ", ".join([*ANOMALIES, *of_effects, *METRICS])
        raise UsageError(f"there is no anomaly and no bounded time {text!r}; known are {known}")
    return anomaly_name(kind, split)


def constrained(outcome: RunOutcome, scenario: Scenario) -> set[str]:
    """Return the anomalies of an outcome, without kinds that the contract allows in any number: these are chance."""
    free = {
        anomaly_name(*key) for key, bound in contract(scenario).counts().items() if bound.min == 0 and bound.max is None
    }
    for (name, kind), bound in scenario.expect.effect_counts().items():
        if bound.min == 0 and bound.max is None:
            free.add(effect_anomaly(kind, name))
    return set(outcome.anomalies) - free


def signature(outcome: RunOutcome, scenario: Scenario) -> frozenset[str]:
    """Return the verdict and the anomalies that the contract constrains; equal signatures are the same outcome."""
    return frozenset({f"verdict {outcome.verdict}", *constrained(outcome, scenario)})


def differences(before: RunOutcome, after: RunOutcome, scenario: Scenario) -> list[str]:
    """Return a phrase for each difference between two outcomes; empty if they are the same."""
    verdicts = f"the verdict was {before.verdict} and is {after.verdict}"
    phrases = [verdicts] if before.verdict != after.verdict else []
    old, new = (constrained(outcome, scenario) for outcome in (before, after))
    phrases += [f"{name} is gone ({before.anomalies[name]:,} then)" for name in sorted(old - new)]
    phrases += [f"{name} is new ({after.anomalies[name]:,})" for name in sorted(new - old)]
    return phrases


def merge(outcomes: Iterable[RunOutcome]) -> RunOutcome:
    """Merge the outcomes of several runs of one scenario: a failure if any failed, the largest count of each anomaly.

    Inconclusive outcomes are ignored unless all are inconclusive.
    """
    every = list(outcomes)
    conclusive = [outcome for outcome in every if outcome.conclusive]
    if not conclusive:
        return every[0]
    counts, exceeded = Counter[str](), Counter[str]()
    for outcome in conclusive:
        counts |= Counter(outcome.anomalies)  # the larger count of each
        exceeded |= Counter(outcome.exceeded)
    worst = next((outcome for outcome in conclusive if outcome.verdict == "fail"), conclusive[0])
    return worst.model_copy(update={"anomalies": dict(counts), "exceeded": dict(exceeded)})


def interval(count: int, of: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a rate (Clopper and Pearson, 1934).

    The interval is computed from the binomial distribution and never covers the true rate less often than stated.
    Wilson's is narrower on average, but can be too narrow for few runs and for rates near 0 or 1, the usual case here.
    If no run or every run shows the event, the interval is one-sided: `0 of 50` excludes rates of 5.8 % and more.
    Without runs it is 0 to 1.
    """
    if of == 0:
        return 0.0, 1.0
    if count in (0, of):
        bound = float((1 - CONFIDENCE) ** (1 / of))
        return (0.0, 1 - bound) if count == 0 else (bound, 1.0)
    from scipy.stats import beta  # imported on use: slow, and most commands need no statistics

    tail = (1 - CONFIDENCE) / 2
    return float(beta.ppf(tail, count, of - count + 1)), float(beta.ppf(1 - tail, count + 1, of - count))


def rates(outcomes: Sequence[RunOutcome]) -> list[Rate]:
    """Return the rate of broken contracts, then the rates of all anomalies, the most frequent first.

    Only conclusive runs count: an anomaly that an inconclusive run does not show may have happened.
    """
    conclusive = [outcome for outcome in outcomes if outcome.conclusive]

    def rate(name: str, count: int) -> Rate:
        low, high = interval(count, len(conclusive))
        return Rate(name=name, count=count, of=len(conclusive), low=low, high=high)

    shown = Counter(name for outcome in conclusive for name in outcome.anomalies)
    anomalies = [rate(name, count) for name, count in shown.items()]
    failed = rate("a broken contract", sum(outcome.verdict == "fail" for outcome in conclusive))
    return [failed, *sorted(anomalies, key=lambda r: (-r.count, r.name))]


def tally(name: str, runs: Sequence[TrialRun], expected: str = "") -> Part:
    """Return the runs of a part with their worst verdict, the counts, and the rates."""
    conclusive = [run for run in runs if run.conclusive]
    failed = sum(run.verdict == "fail" for run in conclusive)
    low, high = interval(failed, len(conclusive))
    verdict = worst(run.verdict for run in runs)
    reason = next((run.sentence for run in runs if run.verdict == verdict), "It did not run.")
    held = f"{len(conclusive) - failed} of {len(runs)} runs kept the contract"
    return Part(
        name=name,
        verdict=verdict,
        sentence=f"{held}." if verdict == "pass" else f"{held}: {reason}",
        runs=list(runs),
        failed=failed,
        conclusive=len(conclusive),
        low=low,
        high=high,
        expected=expected,
        rates=rates(runs),
    )


def this_machine() -> Machine:
    """Return the machine that runs this."""
    return Machine(platform=platform.platform(), cpus=os.cpu_count() or 1)
