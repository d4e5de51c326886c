"""The scenario of a set of faults: the application, with the faults one after another at some progress of its load."""

from __future__ import annotations

import copy

from chaos.campaign.subject import Subject
from chaos.prove.application import Application
from chaos.prove.faults import FaultClass
from chaos.prove.plan import FaultSet
from chaos.prove.settings import Raw, dump
from chaos.scenario.load import parse

SHARE = 0.3
"""Share of the records before the first fault."""
AFTER_PROOF = "500ms"
LASTS = "3s"
RETURNS_LATER = "2s"
"""Time from the heal of the second fault to that of the first, where its replicas have to come back later."""


def scenario_of(application: Application, faults: FaultSet) -> Raw:
    """Return the scenario of a set as plain data, judged by the derived contract."""
    raw = copy.deepcopy(application.raw)
    raw["title"] = f"{application.title}: {faults.title}"
    raw["expect"] = "promised"
    raw["faults"] = _faults(application, faults)
    return raw


def subject(application: Application, faults: FaultSet, seed: int, raw: Raw | None = None) -> Subject:
    """Return the run of a set for the lab. Raises `ScenarioError` if it is not valid."""
    text = dump(raw or scenario_of(application, faults))
    return Subject(faults.id, faults.id, parse(text, faults.id), seed)


def _faults(application: Application, faults: FaultSet) -> list[Raw]:
    if not faults.faults:
        return []
    first, *others = faults.faults
    start = _start(application, first)
    if not others:
        return [_fault(first, start, _heal(first))]
    (second,) = others
    leaves = f"{first.id} + {first.rule.leaves}" if first.rule.leaves else f"{first.id}.proven + {AFTER_PROOF}"
    heal, heal_second = _heal_pair(faults, first, second)
    return [_fault(first, start, heal), _fault(second, {"after": leaves}, heal_second)]


def _fault(fault: FaultClass, when: Raw, heal: Raw) -> Raw:
    heals = bool(fault.rule.stays or fault.rule.lasts)
    return {"name": fault.id, **fault.spec, "when": when, **({"heal": heal} if heals else {})}


def _start(application: Application, fault: FaultClass) -> Raw:
    """Return the trigger of the first fault: a share of the records is acknowledged, or processed."""
    records = max(1, round(application.records * SHARE))
    if fault.rule.after == "delivered":
        return {"delivered": {"consumer": application.names["reader"], "records": records}}
    return {"acked": records}


def _after(text: str) -> Raw:
    return {"when": {"after": text}}


def _heal(fault: FaultClass) -> Raw:
    return {"after": fault.rule.lasts} if fault.rule.lasts else _after(f"{fault.id}.proven + {fault.rule.stays}")


def _heal_pair(faults: FaultSet, first: FaultClass, second: FaultClass) -> tuple[Raw, Raw]:
    """Return when both faults of a pair are healed.

    A replica that is behind has to be back when the second fault strikes: it may then become the leader. A replica that
    has everything has to come back after the others, so that one of them becomes the leader before. Which of both cuts
    the aim decides: whether each support that the first fault cuts is cut by its lag.
    """
    if not first.rule.away or faults.aim is None:
        return _after(f"{second.id}.proven + {AFTER_PROOF}"), _heal(second)
    cut = [support for support in faults.aim.supports if support.is_cut(first.cuts)]
    lags = [pattern for pattern in first.cuts if pattern.endswith(".in_sync")]
    if lags and all(support.is_cut(lags) for support in cut):
        return _after(second.id), _heal(second)
    if not (second.rule.stays or second.rule.lasts):
        return _after(f"{second.id}.proven + {RETURNS_LATER}"), {}
    # with so many brokers away, the second fault may have no proof before its heal
    return _after(f"{second.id}.healed + {RETURNS_LATER}"), {"after": second.rule.lasts or LASTS}
