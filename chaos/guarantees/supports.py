"""What supports each promise of an application, and the fault classes that cut these supports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from pydantic import Field

from chaos.faults import SPECS
from chaos.guarantees.table import Conditions, Element, SupportRule, fill, match, read_rules, supported
from chaos.guarantees.values import Facts, Setting
from chaos.setup.triggers import Strict

OTHER = "log"
"""The promise of anomalies that no other promise of the application has."""
Raw = dict[str, Any]


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
        for name, rule in supported().items()
        if match(rule.when, facts).holds
    ]


def further_replicas(facts: Facts, each: str = "topic.replication.factor") -> int:
    """Return the number of followers."""
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
    """Return a support with the elements that it needs. An element is needed too if that is not known."""
    needs = [Element(element=need) if isinstance(need, str) else need for need in rule.needs]
    needed = [need.element for need in needs if match(need.when, facts).holds is not False]
    return Support(fill(rule.what, facts), frozenset(fill(element, facts) for element in needed))


def outcome_of(anomaly: str, found: Iterable[Outcome]) -> str:
    """Return the id of the promise that an anomaly breaks, such as `duplicate_delivery.illegal`."""
    kind = anomaly.partition(".")[0]
    return next((outcome.id for outcome in found if {anomaly, kind} & set(outcome.shows)), OTHER)


class Attack(Strict):
    """A fault that a proof injects; see the head of `attacks.yaml`."""

    title: str
    fault: dict[str, Any]
    when: Conditions = {}
    after: str = Field("acked", pattern="^(acked|delivered)$")
    cuts: list[str]
    stays: str = ""
    lasts: str = ""
    away: bool = False
    leaves: str = ""


@dataclass(frozen=True)
class FaultClass:
    """A fault class of an application. cuts: patterns of the elements that it cuts. spec: kind, target, parameters."""

    id: str
    title: str
    cuts: tuple[str, ...]
    spec: Mapping[str, Any]
    rule: Attack


@cache
def attacks() -> dict[str, Attack]:
    """Return the faults that a proof injects, by their id.

    Raises `ValueError` for kinds that do not exist, and for a kind without an attack or a reason for none.
    """
    found = {name: Attack.model_validate(attack) for name, attack in read_rules("attacks").items()}
    kinds = {attack.fault["kind"] for attack in found.values()}
    left_out = {kind for kind, spec in SPECS.items() if spec.left_out}
    if unknown := kinds - SPECS.keys():
        raise ValueError(f"attacks.yaml: no such kinds: {sorted(unknown)}")
    if wrong := (SPECS.keys() - kinds) ^ left_out:
        raise ValueError(f"attacks.yaml: give an attack, or left_out at the fault, not both: {sorted(wrong)}")
    return found


def fault_classes(facts: Facts, names: Mapping[str, str]) -> list[FaultClass]:
    """Return the fault classes for an application. names: the names of its partition, group and clients."""
    last = f"follower{further_replicas(facts)}"
    return [
        FaultClass(
            name,
            rule.title,
            tuple(cut.replace("{last}", last) for cut in rule.cuts),
            _named(rule.fault, names),
            rule,
        )
        for name, rule in attacks().items()
        if match(rule.when, facts).holds
    ]


def _named(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value with names in place of `{partition}` and so on."""
    if isinstance(value, dict):
        return {key: _named(inner, names) for key, inner in value.items()}
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
    return value
