"""Again: how often something happens, with an interval that says how far a few runs can be trusted."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from chaos.incident.lab import Lab, Pending, Trial
from chaos.incident.subject import Subject

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rate:
    """Seen in `count` of `of` runs; the true rate is from `low` to `high`, at 95 % confidence."""

    name: str
    count: int
    of: int
    low: float
    high: float


def interval(count: int, of: int) -> tuple[float, float]:
    """The 95 % confidence interval of a rate by Clopper and Pearson (1934).

    It is made from the binomial distribution itself, and never covers the true rate less often than it says. Others
    (Wilson's) are narrower on the average, and now and then too narrow just where it matters here: few runs, and rates
    near 0 or 1. Where no run or every run showed it, one end is all there is to state, and the 5 % are that end's
    alone: `0 of 50` says less than 5.8 %. Without runs it is 0 to 1: nothing is known.
    """
    if of == 0:
        return 0.0, 1.0
    if count in (0, of):
        far = float((1 - CONFIDENCE) ** (1 / of))
        return (0.0, 1 - far) if count == 0 else (far, 1.0)
    from scipy.stats import beta  # on use: it takes a while, and most commands need no statistics

    tail = (1 - CONFIDENCE) / 2
    return float(beta.ppf(tail, count, of - count + 1)), float(beta.ppf(1 - tail, count + 1, of - count))


def rate(name: str, count: int, of: int) -> Rate:
    """A rate with its interval."""
    return Rate(name, count, of, *interval(count, of))


def seeds(base: int, runs: int) -> list[int]:
    """As many different seeds, the same ones for the same base; the first is the base itself."""
    rng = random.Random(f"{base}:repeat")
    found = [base]
    while len(found) < runs:
        if (seed := rng.randrange(2**31)) not in found:
            found.append(seed)
    return found


def repeat(lab: Lab, subject: Subject, wanted: Iterable[int]) -> Iterator[Trial]:
    """Run a subject once with each seed. A run is judged while the next one is driven."""
    before: Pending | None = None
    for n, seed in enumerate(wanted, 1):
        now = lab.drive(subject, f"{subject.name}-{n}", seed)
        if before is not None:
            yield before.trial()
        before = now
    if before is not None:
        yield before.trial()


def rates(trials: list[Trial]) -> list[Rate]:
    """How often each anomaly was seen, and each verdict given, among the runs that could tell; the most frequent first.

    A run that could not tell (inconclusive) is counted as none, for what it did not see may have been there.
    """
    able = [trial.seen for trial in trials if trial.seen.conclusive]
    names = dict.fromkeys(name for seen in able for name in seen.anomalies)
    found = [rate(name, sum(name in seen.anomalies for seen in able), len(able)) for name in names]
    failed = rate("a broken contract", sum(seen.verdict == "fail" for seen in able), len(able))
    return [failed, *sorted(found, key=lambda r: (-r.count, r.name))]


def summary(subject: Subject, trials: list[Trial]) -> dict[str, object]:
    """Everything of a repetition, for scripts."""
    return {
        "scenario": subject.name,
        "given": subject.given,
        "runs": len(trials),
        "told": sum(t.seen.conclusive for t in trials),
        "confidence": CONFIDENCE,
        "interval": "Clopper-Pearson",
        "rates": [asdict(r) for r in rates(trials)],
        "trials": [
            {"run": t.run.run_id, "seed": t.seed, "seconds": round(t.seconds, 1), **t.seen.model_dump()} for t in trials
        ],
    }
