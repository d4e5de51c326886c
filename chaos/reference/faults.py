"""The fault reference: kind, meaning, targets, settings, proof, needs, and the shipped scenarios that use it."""

from __future__ import annotations

import inspect
from typing import get_args

from pydantic import BaseModel

from chaos.cluster.api import CAPABILITIES
from chaos.cluster.drivers import DRIVERS, capabilities
from chaos.cluster.verbs import CAPABILITY_NEEDS
from chaos.faults import FAULTS
from chaos.reference.markdown import anchor, code, sentence, table
from chaos.reference.models import rows
from chaos.reference.shipped import link, scenarios
from chaos.scenario.faults import Fault, FaultSpec, WireFault
from chaos.scenario.faults.broker import Cycle
from chaos.scenario.triggers import Acked, Delivered, Heal, Target, Trigger

ATTACHED = "attached"
_COMMON = ("name", "kind", "target", "when", "heal")
_HEAD = """# Faults

What a scenario may break: under `faults:`, each with a `name`, its `kind`, a `target`, `when` it comes and, where it
can be undone, when it is healed.

```yaml
faults:
  - name: kill
    kind: broker.kill
    target: {leader_of: orders/0}           # resolved at the moment of injection
    when: {acked: 4000}                     # progress, not time: repeats on a slow machine
    heal: {when: {after: kill.proven + 2s}} # left out: healed before the drain
```

**A fault needs its proof**: a change that is seen from outside the injector, within `limits.proof` (30s). Without it
the run is inconclusive. **A fault needs a driver that can do it**: a scenario that asks for more is refused when it is
loaded. On a cluster that exists (`attached`), faults of brokers need `cluster.allow_faults: true`, the command line's
`--i-own-this-cluster`, and a command for each thing that is done
([`chaos/cluster`](../cluster/README.md#a-cluster-that-exists)).
"""


def models() -> dict[str, type[FaultSpec]]:
    """The model of each kind, family by family."""
    union, *_ = get_args(Fault)
    found = {get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(union)}
    families = list(dict.fromkeys(map(_family, found)))
    return {kind: found[kind] for kind in sorted(found, key=lambda kind: families.index(_family(kind)))}


def _family(kind: str) -> str:
    return kind.partition(".")[0]


def page() -> str:
    """The page."""
    known = models()
    parts = [_HEAD, "\n## All of them\n", _overview(known), "\n## Targets\n", _TARGETS, _targets(), "\n## When\n"]
    parts += [_WHEN, _settings(Trigger), "\n`heal` takes one of these; left out: healed before the drain.\n"]
    parts += [_settings(Heal), "\n## What the drivers can do\n", _drivers()]
    for family in dict.fromkeys(map(_family, known)):
        parts += [f"\n## {family}\n"]
        parts += [_section(kind, model) for kind, model in known.items() if _family(kind) == family]
    return "\n".join(parts)


_TARGETS = "Exactly one of these. Brokers that are named by a role are looked up at the moment of injection.\n"
_WHEN = "Exactly one of these. Prefer progress to time.\n"


def _overview(known: dict[str, type[FaultSpec]]) -> str:
    def row(kind: str, model: type[FaultSpec]) -> list[str]:
        able = ["✓" if _can(driver, model) else "" for driver in DRIVERS]
        return [f"[`{kind}`](#{anchor(kind)})", _summary(model), *able]

    return table(["kind", "what it does", *DRIVERS], (row(kind, model) for kind, model in known.items()))


def _targets() -> str:
    by_target = {
        name: [kind for kind, model in models().items() if name in model.targets] for name in Target.model_fields
    }
    some = {name: code(kinds) if len(kinds) <= 6 else f"{len(kinds)} kinds" for name, kinds in by_target.items()}
    lines = ((name, takes, meaning, some[name.strip("`")]) for name, takes, _, meaning in rows(Target))
    return table(["target", "takes", "meaning", "of"], lines)


def _drivers() -> str:
    def row(name: str, protocol: type) -> list[str]:
        verbs = f" ({code(sorted(CAPABILITY_NEEDS[name]))})" if name in CAPABILITY_NEEDS else ""
        able = [f"✓{verbs if d == ATTACHED else ''}" if name in capabilities(d) else "" for d in DRIVERS]
        return [f"`{name}`", sentence((inspect.getdoc(protocol) or "").splitlines()[0]), *able]

    words = "In brackets: the commands of `cluster.verbs` that it takes.\n"
    return table(["capability", "meaning", *DRIVERS], (row(n, p) for n, p in CAPABILITIES.items())) + "\n" + words


def _section(kind: str, model: type[FaultSpec]) -> str:
    settings = _settings(model)
    facts = [f"- **Target**: {_target_words(model.targets)}", f"- **Proof**: {proof(kind)}"]
    facts += [f"- **Needs**: {_needs(model)}"]
    used = [link(name) for name, scenario in scenarios().items() if any(f.kind == kind for f in scenario.faults)]
    facts += [f"- **In**: {', '.join(used)}"] if used else []
    return f"### {kind}\n\n{meaning(model)}\n\n" + "\n".join(facts) + "\n" + (f"\n{settings}" if settings else "")


def _settings(model: type[BaseModel]) -> str:
    """The table of a model's settings, and of the parts that have some of their own."""
    text = table(
        ["setting", "takes", "default", "meaning"], rows(model, _COMMON if issubclass(model, FaultSpec) else ())
    )
    for part in (Cycle, Acked, Delivered):
        if f"*{part.__name__}*" in text:
            text += f"\n*{part.__name__}*: {sentence(inspect.getdoc(part) or '')}\n\n{_settings(part)}"
    return text.replace("*Target*", "a [target](#targets)").replace("*Trigger*", "a [trigger](#when)")


def meaning(model: type[FaultSpec]) -> str:
    """What a kind does and how it is healed: the docstring of its model."""
    return " ".join((inspect.getdoc(model) or "").split())


def proof(kind: str) -> str:
    """How a kind is proven: what the docstring of its class says from the word Proof on."""
    _, _, words = " ".join((FAULTS[kind].__dict__.get("__doc__") or "").split()).partition("Proof")
    return sentence(words.removeprefix(":").strip())


def _summary(model: type[FaultSpec]) -> str:
    return sentence((inspect.getdoc(model) or "").splitlines()[0].partition(";")[0])


def _target_words(targets: frozenset[str]) -> str:
    return code(sorted(targets, key=list(Target.model_fields).index))


def _can(driver: str, model: type[FaultSpec]) -> bool:
    return model.needs <= capabilities(driver)


def _needs(model: type[FaultSpec]) -> str:
    drivers = [driver for driver in DRIVERS if _can(driver, model)]
    words = f"the driver {' or '.join(code([d]) for d in drivers)}" if len(drivers) < len(DRIVERS) else "any driver"
    if ATTACHED in drivers and model.needs:
        words += f" (`{ATTACHED}`: commands {code(sorted({v for n in model.needs for v in CAPABILITY_NEEDS[n]}))})"
    elif issubclass(model, WireFault):
        words += "; clients then reach the brokers through the wire proxy, which does not speak TLS"
    if "isolate" in model.needs:
        words += ", without ZooKeeper"
    return words
