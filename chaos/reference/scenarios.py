"""The catalogue of shipped scenarios: what happens in each, its variants, and what it must show."""

from __future__ import annotations

from chaos.reference.faults import models
from chaos.reference.markdown import anchor, code, sentence, table
from chaos.reference.models import literal
from chaos.reference.shipped import contracts, may, must, scenarios
from chaos.scenario.model import Scenario

_HEAD = """# The catalogue

The scenarios that come with Aftershock. One that *must* show something fails if it does not: so each check is known to
be able to see. What is named neither under *must* nor under *may* must not appear at all. How to run them all, and how
to write your own: [README.md](README.md).
"""


def page() -> str:
    """The page."""
    found = scenarios()
    overview = ([f"[`{name}`](#{anchor(name)})", s.title, _all_must(s)] for name, s in found.items())
    parts = [_HEAD, table(["scenario", "what happens", "must show"], overview)]
    parts += [_section(name, s) for name, s in found.items()]
    return "\n".join(parts)


def _all_must(scenario: Scenario) -> str:
    sides = {name: must(expect) for name, expect in contracts(scenario).items()}
    told = [f"{f'{name}: ' if name else ''}{', '.join(demanded)}" for name, demanded in sides.items() if demanded]
    return "; ".join(told)


def _section(name: str, scenario: Scenario) -> str:
    parts = [f"## {name}\n", f"**{sentence(scenario.title)}** {sentence(scenario.description)}\n"]
    facts = [f"- File: [`{name}.yaml`]({name}.yaml)"]
    kinds = [kind for kind in models() if any(f.kind == kind for f in scenario.faults)]
    facts += [f"- Faults: {', '.join(_fault(kind) for kind in kinds) or 'none'}"]
    for side, expect in contracts(scenario).items():
        demanded, allowed = must(expect), may(expect)
        words = [f"must: {', '.join(demanded)}"] if demanded else []
        words += [f"may: {', '.join(allowed)}"] if allowed else []
        contract = "; ".join(words) or "no anomaly of any kind"
        changes = scenario.variants[side].set if side else {}
        sets = code(f"{path}: {literal(value).strip('`')}" for path, value in changes.items())
        facts += [
            f"- Variant **{side}**{f' ({sets})' if sets else ''}: {contract}" if side else f"- Contract: {contract}"
        ]
    return "\n".join([*parts, *facts]) + "\n"


def _fault(kind: str) -> str:
    return f"[`{kind}`](../faults/README.md#{anchor(kind)})"
