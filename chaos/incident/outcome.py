"""Comparison of what two runs showed."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.anomalies import ANOMALIES
from chaos.errors import UsageError
from chaos.run.result import RunOutcome, anomaly_name
from chaos.scenario.expect import Expect


def known_kind(name: str) -> str:
    """The kind (or kind and part) that somebody names. Raises `UsageError` with those that there are."""
    kind, _, split = name.strip().replace(".", " ").partition(" ")
    if kind not in ANOMALIES or (split and split not in ANOMALIES[kind].splits):
        raise UsageError(f"there is no anomaly {name!r}; known are {', '.join(ANOMALIES)}")
    return anomaly_name(kind, split)


def left_to_chance(expect: Expect) -> set[str]:
    """The kinds of which a contract allows any number: whether they appear says nothing."""
    return {anomaly_name(*key) for key, bound in expect.counts().items() if bound.min == 0 and bound.max is None}


def signature(seen: RunOutcome, expect: Expect) -> frozenset[str]:
    """What makes an outcome: the verdict, and the kinds of anomalies but for those that the contract leaves open."""
    return frozenset({f"verdict {seen.verdict}", *(set(seen.anomalies) - left_to_chance(expect))})


def differences(before: RunOutcome, after: RunOutcome, expect: Expect) -> list[str]:
    """In what two outcomes differ, in words; nothing if they are the same."""
    found = [f"the verdict was {before.verdict} and is {after.verdict}"] if before.verdict != after.verdict else []
    free = left_to_chance(expect)
    old, new = set(before.anomalies) - free, set(after.anomalies) - free
    found += [f"{name} is gone ({before.anomalies[name]:,} then)" for name in sorted(old - new)]
    found += [f"{name} is new ({after.anomalies[name]:,})" for name in sorted(new - old)]
    return found


def merged(several: Iterable[RunOutcome]) -> RunOutcome:
    """Several runs of one thing as one: what any of them showed; only those that could tell count, if any could."""
    every = list(several)
    able = [seen for seen in every if seen.conclusive]
    if not able:
        return every[0]
    counts: dict[str, int] = {}
    for seen in able:
        for name, count in seen.anomalies.items():
            counts[name] = max(count, counts.get(name, 0))
    worst = next((s for s in able if s.verdict == "fail"), able[0])
    return RunOutcome(verdict=worst.verdict, sentence=worst.sentence, anomalies=counts)
