"""The catalogue of shipped scenarios: description, faults, variants and contract of each."""

from __future__ import annotations

from chaos.reference.faults import models
from chaos.reference.fields import literal
from chaos.reference.markdown import anchor, code, sentence, table
from chaos.reference.shipped import contracts, may, must, scenarios
from chaos.scenario.model import Scenario

_HEAD = """# The catalogue

The scenarios that ship with Aftershock. A scenario that *must* show an anomaly fails without it, which proves that the
check can detect it. An anomaly that is named neither under *must* nor under *may* must not appear. How to run all of
them, and how to write one: [README.md](README.md).
"""


def page() -> str:
    """Return the page in Markdown."""
    shipped = scenarios()
    overview = ([f"[`{name}`](#{anchor(name)})", s.title, _all_must(s)] for name, s in shipped.items())
    parts = [_HEAD, table(["scenario", "what happens", "must show"], overview)]
    parts += [_section(name, s) for name, s in shipped.items()]
    return "\n".join(parts)


def _all_must(scenario: Scenario) -> str:
    sides = {name: must(expect) for name, expect in contracts(scenario).items()}
    return "; ".join(f"{name}: " * bool(name) + ", ".join(demanded) for name, demanded in sides.items() if demanded)


def _section(name: str, scenario: Scenario) -> str:
    parts = [f"## {name}\n", f"**{sentence(scenario.title)}** {sentence(scenario.description)}\n"]
    facts = [f"- File: [`{name}.yaml`]({name}.yaml)"]
    kinds = [kind for kind in models() if any(f.kind == kind for f in scenario.faults)]
    facts += [f"- Faults: {', '.join(_fault(kind) for kind in kinds) or 'none'}"]
    for side, expect in contracts(scenario).items():
        demanded, allowed = must(expect), may(expect)
        limits = [f"must: {', '.join(demanded)}"] if demanded else []
        limits += [f"may: {', '.join(allowed)}"] if allowed else []
        contract = "; ".join(limits) or "no anomaly of any kind"
        changes = scenario.variants[side].set if side else {}
        sets = code(f"{path}: {literal(value).strip('`')}" for path, value in changes.items())
        facts += [
            f"- Variant **{side}**{f' ({sets})' if sets else ''}: {contract}" if side else f"- Contract: {contract}"
        ]
    return "\n".join([*parts, *facts]) + "\n"


def _fault(kind: str) -> str:
    return f"[`{kind}`](../faults/README.md#{anchor(kind)})"
