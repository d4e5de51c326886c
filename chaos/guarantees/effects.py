"""What faults leave of the effects of applications: what the best application could still promise.

The settings of an application are not known, and what it loses by them is what a run is for. But under some faults
every application loses or repeats work: records of a topic that is deleted, the offsets of a group that is reset, the
outputs in a log that all replicas lost. So the contract is derived for a processor in the application's place, which
reads the same topics in the same group, and puts outputs and offsets into one transaction. A kind of effect is promised
if the contract forbids that processor every anomaly that leads to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chaos.faults.base import FaultSpec
from chaos.guarantees.contract import derive
from chaos.guarantees.faults import having, topic_of
from chaos.scenario.effect_rules import input_topic
from chaos.scenario.expect import ANY, ZERO, Bound, EffectBound
from chaos.scenario.model import Scenario
from chaos.setup.clients import Processor
from chaos.setup.effects import Effect
from chaos.setup.model import Topic

LOSSES = frozenset(
    {
        *("lost_write", "skipped_delivery", "stalled_delivery", "evicted_delivery", "lost_processing"),
        *("missing_output", "torn_transaction", "misplaced_write"),
    }
)
REPEATS = frozenset({"duplicate_write", "duplicate_output", "unconsumed_output", "offset_reuse"})
STRANGERS = frozenset({"phantom_write", "resurrected_write", "dirty_read", "aborted_read"})
LEADS: dict[str, frozenset[str]] = {
    "missing": LOSSES,
    "duplicate": REPEATS,
    "unexpected": STRANGERS,
    "wrong": LOSSES | REPEATS | STRANGERS | {"corrupt_record"},
}
"""The anomalies of the processor that lead to each kind of an effect. A wrong sum may follow from all of them."""
_TARGET = "aftershock-effects"
"""A topic in place of a target outside of Kafka, which no fault hits."""
_UNNAMED = "app"
"""An application that the scenario does not name."""
READER: dict[str, Any] = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}


def promised_effects(scenario: Scenario) -> dict[str, EffectBound]:
    """Return the bounds of each effect of a scenario under its faults.

    A kind that is promised is 0, but in any number if the scenario allows some: how often an application repeats work
    depends on how often it is interrupted. A kind that is not promised may come in any number.
    """
    of_all = costs(scenario)
    bounds = {}
    for effect in scenario.effects:
        given = scenario.expect.effects.get(effect.name, EffectBound())
        broken = {**of_all, "missing": [*of_all["missing"], *_removed(scenario, effect)]}
        kinds: dict[str, Bound] = {kind: ANY if broken[kind] else _strict(getattr(given, kind)) for kind in LEADS}
        if not effect.compares:
            kinds.pop("wrong")
        bounds[effect.name] = EffectBound(**kinds)
    return bounds


def _strict(given: Bound) -> Bound:
    return ZERO if given.max == 0 else ANY


def _removed(scenario: Scenario, effect: Effect) -> list[str]:
    """Return the faults that remove effects: to the contract, no record of a deleted topic is lost."""
    removing = having(scenario.faults, "deletes", "recreates")
    here = [f for f in removing if f.cluster == effect.cluster and topic_of(f) in effect.topics]
    return [f"{f.name} removes effects" for f in here]


def costs(scenario: Scenario) -> dict[str, list[str]]:
    """Return by kind of effect why no application can promise it under the faults of a scenario; empty if one can."""
    best = ideal(scenario)
    if reasons := [fault.unpromised_by_all for fault in best.faults if fault.unpromised_by_all]:
        return dict.fromkeys(LEADS, reasons)
    left = [line for line in derive(best) if line.state != "forbidden"]
    return {kind: [line.describe() for line in left if line.kind in kinds] for kind, kinds in LEADS.items()}


def ideal(scenario: Scenario) -> Scenario:
    """Return the scenario with a processor in place of the application of each effect, and one for each of its topics.

    It is for the contract alone, and is not checked as a scenario that runs.
    """
    written = [(effect, to) for effect in scenario.effects for to in effect.topics or [_TARGET]]
    processors = [_processor(scenario, effect, to, n) for n, (effect, to) in enumerate(written, 1)]
    replicas = min(3, scenario.cluster.brokers)
    target = Topic(name=_TARGET, partitions=1, replication_factor=replicas)
    changes = {
        "processors": [*scenario.processors, *processors],
        "topics": [*scenario.topics, target],
        "faults": list(_faults(scenario)),
        "apps": [],
        "effects": [],
    }
    return scenario.model_copy(update=changes)


def _processor(scenario: Scenario, effect: Effect, to: str, number: int) -> Processor:
    topic = input_topic(scenario, effect)
    app = next((app for app in scenario.apps if topic in app.reads), next(iter(scenario.apps), None))
    name = app.name if app else _UNNAMED
    return Processor(
        name=f"{name}-{number}",
        group=(app.group if app else None) or name,
        topics=[topic],
        to=to,
        consumer_config=READER,
    )


def _faults(scenario: Scenario) -> Iterator[FaultSpec]:
    """Yield the faults as they concern the processors: frames of an application are frames of its processor."""
    for fault in scenario.faults:
        app = getattr(fault, "app", None)
        if app is None:
            yield fault
        else:
            yield fault.model_copy(update={"app": None, "client": f"{str(app).partition('/')[0]}-*"})
