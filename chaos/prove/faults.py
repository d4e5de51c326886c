"""The fault classes that make sense for an application, and what each of them cuts (`rules/faults.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml
from pydantic import Field

from chaos.promise.settings import Facts
from chaos.promise.table import Condition, match
from chaos.prove.supports import RULES, further_replicas
from chaos.scenario.faults import SPECS
from chaos.setup.triggers import Strict

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
def rules() -> dict[str, FaultRule]:
    """Return the rules of all fault classes by their id."""
    raw = yaml.safe_load((RULES / "faults.yaml").read_text(encoding="utf-8"))
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
        for name, rule in rules().items()
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
