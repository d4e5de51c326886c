"""The fault reference: meaning, targets, settings, proof and needs of each kind, and the scenarios that use it."""

from __future__ import annotations

import inspect

from pydantic import BaseModel

from chaos.cluster.api import CAPABILITIES
from chaos.cluster.drivers import DRIVERS, capabilities
from chaos.cluster.settings import CAPABILITY_NEEDS
from chaos.faults import FAULTS
from chaos.faults.base import FaultSpec
from chaos.faults.brokers import Cycle
from chaos.faults.wire import WireFaultSpec
from chaos.reference.fields import group_of, models, rows
from chaos.reference.markdown import anchor, code, sentence, table
from chaos.reference.scenarios import link, scenarios
from chaos.setup.triggers import Acked, Delivered, Heal, Target, Trigger

ATTACHED = "attached"
_COMMON = ("name", "kind", "target", "when", "heal")
_HEAD = """# Faults

The key `faults:` of a scenario lists the faults of a run. Each has a `name`, a `kind`, a `target`, a trigger `when`
and, if it can be undone, a trigger `heal`.

```yaml
faults:
  - name: kill
    kind: broker.kill
    target: {leader_of: orders/0}           # resolved at the moment of injection
    when: {acked: 4000}                     # progress, not time: repeats on a slow machine
    heal: {when: {after: kill.proven + 2s}} # if left out: healed before the drain
```

**A fault needs a proof**: a change that is visible from outside the injector, within `limits.proof` (30s). Without it
the run is inconclusive.

**A fault needs a driver with its capabilities**: a scenario that needs more is refused when it is loaded. On an
existing cluster (`attached`), faults of brokers need `cluster.allow_faults: true`, the option `--i-own-this-cluster`,
and a command for each operation ([`chaos/cluster`](../cluster/README.md#an-existing-cluster)).

To add a fault, see the docstring of [`chaos/faults`](__init__.py).
"""
_TARGETS = "Exactly one of these. Roles of brokers are looked up at the moment of injection.\n"
_WHEN = "Exactly one of these. Prefer progress to time.\n"
_HEAL = "\n`heal` takes one of these. If left out, the fault is healed before the drain.\n"
_IN_BRACKETS = "In brackets: the commands of `cluster.verbs` that the capability needs.\n"


def page() -> str:
    """Return the page in Markdown."""
    kinds = models()
    parts = [_HEAD, "\n## All faults\n", _overview(kinds), "\n## Targets\n", _TARGETS, _targets(kinds), "\n## When\n"]
    parts += [_WHEN, _settings(Trigger), _HEAL, _settings(Heal), "\n## Capabilities of the drivers\n", _drivers()]
    for group in dict.fromkeys(map(group_of, kinds)):
        parts += [f"\n## {group}\n"]
        parts += [_section(kind, model) for kind, model in kinds.items() if group_of(kind) == group]
    return "\n".join(parts)


def _overview(kinds: dict[str, type[FaultSpec]]) -> str:
    def row(kind: str, model: type[FaultSpec]) -> list[str]:
        support = ["✓" if _supports(driver, model) else "" for driver in DRIVERS]
        summary = sentence((inspect.getdoc(model) or "").splitlines()[0].partition(";")[0])
        return [f"[`{kind}`](#{anchor(kind)})", summary, *support]

    return table(["kind", "what it does", *DRIVERS], (row(kind, model) for kind, model in kinds.items()))


def _targets(kinds: dict[str, type[FaultSpec]]) -> str:
    def users(target: str) -> str:
        users = [kind for kind, model in kinds.items() if target in model.targets]
        return code(users) if len(users) <= 6 else f"{len(users)} kinds"

    lines = ((name, takes, meaning, users(name.strip("`"))) for name, takes, _, meaning in rows(Target))
    return table(["target", "takes", "meaning", "used by"], lines)


def _drivers() -> str:
    def row(name: str, protocol: type) -> list[str]:
        verbs = f" ({code(sorted(CAPABILITY_NEEDS[name]))})" if name in CAPABILITY_NEEDS else ""
        support = [f"✓{verbs if d == ATTACHED else ''}" if name in capabilities(d) else "" for d in DRIVERS]
        return [f"`{name}`", sentence((inspect.getdoc(protocol) or "").splitlines()[0]), *support]

    return (
        table(["capability", "meaning", *DRIVERS], (row(n, p) for n, p in CAPABILITIES.items())) + "\n" + _IN_BRACKETS
    )


def _section(kind: str, model: type[FaultSpec]) -> str:
    targets = code(sorted(model.targets, key=list(Target.model_fields).index))
    facts = [f"- **Target**: {targets}", f"- **Proof**: {proof(kind)}", f"- **Needs**: {_needs(model)}"]
    users = [link(name) for name, scenario in scenarios().items() if any(f.kind == kind for f in scenario.faults)]
    facts += [f"- **Used in**: {', '.join(users)}"] if users else []
    settings = _settings(model)
    return f"### {kind}\n\n{meaning(model)}\n\n" + "\n".join(facts) + "\n" + (f"\n{settings}" if settings else "")


def _settings(model: type[BaseModel]) -> str:
    """Return the table of a model's settings, and the tables of its parts."""
    text = table(
        ["setting", "takes", "default", "meaning"], rows(model, _COMMON if issubclass(model, FaultSpec) else ())
    )
    for part in (Cycle, Acked, Delivered):
        if f"*{part.__name__}*" in text:
            text += f"\n*{part.__name__}*: {sentence(inspect.getdoc(part) or '')}\n\n{_settings(part)}"
    return text.replace("*Target*", "a [target](#targets)").replace("*Trigger*", "a [trigger](#when)")


def meaning(model: type[FaultSpec]) -> str:
    """Return the docstring of a specification: what the fault does and how it is healed."""
    return " ".join((inspect.getdoc(model) or "").split())


def proof(kind: str) -> str:
    """Return how a kind is proven: the docstring of its fault, or of the base, after the word "Proof"."""
    for fault in FAULTS[kind].__mro__:
        _, found, text = " ".join((fault.__dict__.get("__doc__") or "").split()).partition("Proof")
        if found:
            return sentence(text.removeprefix(":").strip())
    return ""


def _supports(driver: str, model: type[FaultSpec]) -> bool:
    return model.needs <= capabilities(driver)


def _needs(model: type[FaultSpec]) -> str:
    drivers = [driver for driver in DRIVERS if _supports(driver, model)]
    text = f"the driver {' or '.join(code([d]) for d in drivers)}" if len(drivers) < len(DRIVERS) else "any driver"
    if ATTACHED in drivers and model.needs:
        text += f" (`{ATTACHED}`: commands {code(sorted({v for n in model.needs for v in CAPABILITY_NEEDS[n]}))})"
    elif issubclass(model, WireFaultSpec):
        text += "; clients then reach the brokers through the wire proxy, which ends TLS"
    if "isolate" in model.needs:
        text += ", without ZooKeeper"
    return text
