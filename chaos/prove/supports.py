"""What supports each promise of an application: the rules in `rules/supports.yaml`, for its facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import yaml

from chaos.promise.answers import fill
from chaos.promise.settings import Facts, Setting
from chaos.promise.table import Condition, match
from chaos.setup.triggers import Strict

RULES = Path(__file__).parent / "rules"
OTHER = "log"
"""The promise of anomalies that no other promise of the application has."""


class Need(Strict):
    """An element that a support needs. when: the settings with which it does."""

    element: str
    when: dict[str, Condition] = {}


class SupportRule(Strict):
    """A support, or one for each further replica. each: the fact with their number."""

    what: str
    when: dict[str, Condition] = {}
    each: str = ""
    needs: list[Need]


class OutcomeRule(Strict):
    """A promise. answers: its questions in `promise`, as aspect/id. shows: the anomalies with which it breaks."""

    title: str
    breaks: str
    when: dict[str, Condition]
    answers: list[str]
    shows: list[str]
    supports: list[SupportRule]


@dataclass(frozen=True)
class Support:
    """One way in which a promise is kept, with all elements that it needs."""

    what: str
    needs: frozenset[str]

    def is_cut(self, patterns: Iterable[str]) -> bool:
        """Return whether one of its elements is cut."""
        return any(fnmatchcase(element, pattern) for pattern in patterns for element in self.needs)


@dataclass(frozen=True)
class Outcome:
    """A promise of an application, with its supports. id: its key in the table."""

    id: str
    title: str
    breaks: str
    answers: tuple[str, ...]
    shows: tuple[str, ...]
    supports: tuple[Support, ...]

    def left(self, patterns: Iterable[str]) -> list[Support]:
        """Return the supports that faults with these cuts leave whole."""
        cuts = list(patterns)
        return [support for support in self.supports if not support.is_cut(cuts)]

    def is_touched(self, patterns: Iterable[str]) -> bool:
        """Return whether faults with these cuts cut a support."""
        return len(self.left(patterns)) < len(self.supports)


@cache
def rules() -> dict[str, OutcomeRule]:
    """Return the rules of all promises by their id."""
    raw = yaml.safe_load((RULES / "supports.yaml").read_text(encoding="utf-8"))
    return {name: OutcomeRule.model_validate(rule) for name, rule in raw.items()}


def outcomes(facts: Facts) -> list[Outcome]:
    """Return the promises of an application with their supports."""
    return [
        Outcome(
            name,
            rule.title,
            rule.breaks,
            tuple(rule.answers),
            tuple(rule.shows),
            tuple(_supports(rule.supports, facts)),
        )
        for name, rule in rules().items()
        if match(rule.when, facts).holds
    ]


def further_replicas(facts: Facts, each: str = "topic.replication.factor") -> int:
    """Return the number of replicas beside the leader."""
    return max(0, int(facts[each].value) - 1)


def _supports(found: Iterable[SupportRule], facts: Facts) -> Iterator[Support]:
    for rule in found:
        if not match(rule.when, facts).holds:
            continue
        if not rule.each:
            yield _support(rule, facts)
        for n in range(1, further_replicas(facts, rule.each) + 1) if rule.each else ():
            yield _support(rule, facts | {"n": Setting("n", str(n), "")})


def _support(rule: SupportRule, facts: Facts) -> Support:
    """Return a support with the elements that it needs. An element of which that is not known is needed."""
    needed = [need.element for need in rule.needs if match(need.when, facts).holds is not False]
    return Support(fill(rule.what, facts), frozenset(fill(element, facts) for element in needed))


def outcome_of(anomaly: str, found: Iterable[Outcome]) -> str:
    """Return the id of the promise that an anomaly breaks, such as `duplicate_delivery.illegal`."""
    kind = anomaly.partition(".")[0]
    return next((outcome.id for outcome in found if {anomaly, kind} & set(outcome.shows)), OTHER)
