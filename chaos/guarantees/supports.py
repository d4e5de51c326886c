"""What supports each promise of an application, and the fault classes that cut these supports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import yaml
from pydantic import Field

from chaos.faults import SPECS
from chaos.guarantees.table import RULES, Condition, fill, match
from chaos.guarantees.values import Facts, Setting
from chaos.setup.triggers import Strict

OTHER = "log"
"""The promise of anomalies that no other promise of the application has."""
Raw = dict[str, Any]
LEFT_OUT = {
    "broker.throttle": "only containers have a limited CPU",
    "broker.oom": "only containers have a limited memory",
    "broker.disconnect": "only containers can be detached from a network; leader-isolated is its like",
    "disk.fill": "only containers have a limited disk; leader-disk-full is its like",
    "disk.slow": "changes times; leader-gray is its like",
    "link.cut": "one link of those that leader-isolated cuts",
    "wire.drop": "as lost-answer, but each run waits for the time-out of a request",
    "wire.hold": "an order of requests that one bug needs; slow-link is its like",
    "wire.produce": "a request that no client of an application sends",
    "wire.error": "an error without a reason is no fault of a broker that the promises are about",
    "acl.withdraw": "needs a cluster with ACLs; a refused record is one that was never written",
    **dict.fromkeys(
        ["certificate.rotate", "certificate.expire", "credential.change", "issuer.stop"],
        "needs a secured cluster; lost-answer cuts connections, too",
    ),
    "client.quota": "a quota changes times, and no promise about records",
    "taskmanager.kill": "of Flink",
    **dict.fromkeys(
        ["clock.skew", "clock.jump", "clock.drift"],
        "the promises are about brokers with the right time",
    ),
    **dict.fromkeys(
        ["cluster.upgrade", "cluster.downgrade", "cluster.finalize"],
        "needs a second release of Kafka; rolling-restart is its like",
    ),
    "consumer.churn": "several consumer-leave, one after another",
    "consumer.fence": "needs static membership",
    **dict.fromkeys(
        ["consumer.join", "producer.join", "producer.leave"], "a planned change; consumer-leave has a rebalance, too"
    ),
    **dict.fromkeys(["consumer.seek", "consumer.resume"], "an act of the application"),
    **dict.fromkeys(
        [
            *("topic.add_partitions", "topic.create", "topic.delete", "topic.recreate", "topic.delete_records"),
            *(
                "broker.config",
                "topic.config",
                "group.delete_offsets",
                "group.reset_offsets",
                "group.delete",
                "share.reset_offsets",
            ),
            *("election.preferred", "election.unclean"),
            *("quorum.remove_voter", "quorum.replace_voter", "quorum.add_voter"),
        ],
        "an act of an administrator",
    ),
}
"""Kinds of faults that no class has, and why."""


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
    raw = yaml.safe_load((RULES / "proofs" / "supports.yaml").read_text(encoding="utf-8"))
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


class FaultRule(Strict):
    """A fault class; see the head of the table."""

    title: str
    fault: dict[str, Any]
    when: dict[str, Condition] = {}
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
    rule: FaultRule

    @property
    def kind(self) -> str:
        """The kind of the fault, such as `broker.kill`."""
        return str(self.spec["kind"])

    @property
    def cuts_links(self) -> bool:
        """Whether the brokers need a switch between them, so that the fault needs another cluster than most."""
        return "isolate" in SPECS[self.kind].needs


@cache
def fault_rules() -> dict[str, FaultRule]:
    """Return the fault_rules of all fault classes by their id."""
    raw = yaml.safe_load((RULES / "proofs" / "faults.yaml").read_text(encoding="utf-8"))
    return {name: FaultRule.model_validate(rule) for name, rule in raw.items()}


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
        for name, rule in fault_rules().items()
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
