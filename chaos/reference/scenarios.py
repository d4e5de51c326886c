"""The shipped scenarios, loaded once, and their catalogue: description, faults, variants and contract of each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from chaos.anomalies import ANOMALIES
from chaos.reference.fields import literal, models
from chaos.reference.markdown import anchor, code, sentence, table
from chaos.scenario.expect import Bound, Expect
from chaos.scenario.load import load
from chaos.scenario.model import Scenario
from chaos.scenario.shipped import shipped
from chaos.units import format_duration, format_percent

CATALOGUE = "../scenarios/CATALOGUE.md"
"""The path from a page in a folder of `chaos`."""
_HEAD = """# The catalogue

The scenarios that ship with Aftershock. A scenario that *must* show an anomaly fails without it, which proves that the
check can detect it. An anomaly that is named neither under *must* nor under *may* must not appear. How to run all of
them, and how to write one: [README.md](README.md).
"""
_DOCUMENTED = """
## What the documentation of clients says

Sentences from the documentation of client libraries and Apache Kafka, each with the scenario that shows it on real
clusters.
"""


def page() -> str:
    """Return the page in Markdown."""
    found = scenarios()
    overview = ([f"[`{name}`](#{anchor(name)})", s.title, _all_must(s)] for name, s in found.items())
    documented = ([link(name, ""), sentence(s.documented)] for name, s in found.items() if s.documented)
    parts = [_HEAD, table(["scenario", "what happens", "must show"], overview)]
    parts += [_DOCUMENTED, table(["scenario", "sentence"], documented)]
    parts += [_section(name, s) for name, s in found.items()]
    return "\n".join(parts)


def _all_must(scenario: Scenario) -> str:
    sides = {name: must(expect) for name, expect in contracts(scenario).items()}
    return "; ".join(f"{name}: " * bool(name) + ", ".join(demanded) for name, demanded in sides.items() if demanded)


def _section(name: str, scenario: Scenario) -> str:
    parts = [f"## {name}\n", f"**{sentence(scenario.title)}** {sentence(scenario.description)}\n"]
    facts = [f"- File: [`{name}.yaml`]({name}.yaml)"]
    facts += [f"- Documented: {sentence(scenario.documented)}"] if scenario.documented else []
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


@cache
def scenarios() -> dict[str, Scenario]:
    """Return all shipped scenarios by name."""
    return {name: load(path) for name, path in shipped().items()}


def link(name: str, to: str = CATALOGUE) -> str:
    """Return a link to the section of a scenario such as `acks`, or of a variant such as `acks/acks-1`."""
    return f"[`{name}`]({to}#{anchor(name.partition('/')[0])})"


def contracts(scenario: Scenario) -> dict[str, Expect]:
    """Return the contract of each variant by name; the name is empty without variants."""
    return {name: side.expect or scenario.expect for name, side in scenario.variants.items()} or {"": scenario.expect}


def must(expect: Expect) -> list[str]:
    """Return the anomalies and client errors that have to appear, such as `lost_write` at least 1."""
    demanded = [f"`{_name(*key)}` {bound.describe()}" for key, bound in expect.counts().items() if bound.min > 0]
    demanded += [_effect(*key, bound) for key, bound in expect.effect_counts().items() if bound.min > 0]
    for outcome, bound in expect.send_failures:
        demanded += [f"sends with outcome `{outcome}` {bound.describe()}"] if bound.min else []
    for client, errors in expect.client_errors.items():
        demanded += [f"`{error}` reported by {count.describe()} of `{client}`" for error, count in errors.items()]
    return demanded


def may(expect: Expect) -> list[str]:
    """Return the anomalies that may appear, and the limits of times and groups. Nothing else may appear."""
    allowed = [f"`{_name(*key)}` {bound.describe()}" for key, bound in expect.counts().items() if _allows(bound)]
    allowed += [_effect(*key, bound) for key, bound in expect.effect_counts().items() if _allows(bound)]
    return allowed + list(_limits(expect))


def shows(kind: str) -> list[str]:
    """Return the scenarios that fail without this anomaly, each with its variant, such as `retry-duplicate/plain`."""
    return [
        f"{name}/{variant}" if variant else name
        for name, scenario in scenarios().items()
        for variant, expect in contracts(scenario).items()
        if any(bound.min > 0 for (name_of_kind, _), bound in expect.counts().items() if name_of_kind == kind)
    ]


def _name(kind: str, split: str) -> str:
    return f"{kind}: {split}" if split in ANOMALIES[kind].splits else kind


def _effect(name: str, kind: str, bound: Bound) -> str:
    return f"`{kind}` effects in `{name}` {bound.describe()}"


def _allows(bound: Bound) -> bool:
    return bound.min == 0 and bound.max != 0


def _limits(expect: Expect) -> Iterator[str]:
    for (metric, stat), seconds in expect.times().items():
        yield f"`{metric}` {stat} at most {format_duration(seconds)}"
    for outcome, bound in expect.send_failures:
        if bound.max is not None and not bound.min:
            yield f"sends with outcome `{outcome}` {bound.describe()}"
    if (success := expect.send_success) is not None:
        yield f"acknowledged sends at least {format_percent(success.min)} per {format_duration(success.per)}"
    for group, bounds in expect.groups.items():
        for name, bound in bounds:
            if bound != Bound():
                yield f"group `{group}`: {name} {bound.describe()}"
