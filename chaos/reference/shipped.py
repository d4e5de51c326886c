"""The shipped scenarios, loaded once, and their contracts as text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from chaos.anomalies import ANOMALIES
from chaos.reference.markdown import anchor
from chaos.scenario.expect import Bound, Expect
from chaos.scenario.load import load
from chaos.scenario.model import Scenario
from chaos.scenario.shipped import shipped
from chaos.units import format_duration

CATALOGUE = "../scenarios/CATALOGUE.md"
"""The path from a page in a folder of `chaos`."""


@cache
def scenarios() -> dict[str, Scenario]:
    """Return all shipped scenarios by name."""
    return {name: load(path) for name, path in shipped().items()}


def link(name: str, to: str = CATALOGUE) -> str:
    """Return a link to the section of a scenario such as `acks`, or of a variant such as `acks/acks-1`."""
    return f"[`{name}`]({to}#{anchor(name.partition('/')[0])})"


def contracts(scenario: Scenario) -> dict[str, Expect]:
    """Return the contract of each variant by name; that of a scenario without variants has an empty name."""
    return {name: side.expect or scenario.expect for name, side in scenario.variants.items()} or {"": scenario.expect}


def must(expect: Expect) -> list[str]:
    """Return the anomalies and client errors that have to appear, such as `lost_write` at least 1."""
    demanded = [f"`{_name(*key)}` {bound.describe()}" for key, bound in expect.counts().items() if bound.min > 0]
    for client, errors in expect.client_errors.items():
        demanded += [f"`{error}` reported by {count.describe()} of `{client}`" for error, count in errors.items()]
    return demanded


def may(expect: Expect) -> list[str]:
    """Return the anomalies that may appear, and the limits of times and groups. Nothing else may appear."""
    allowed = [f"`{_name(*key)}` {bound.describe()}" for key, bound in expect.counts().items() if _allows(bound)]
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


def _allows(bound: Bound) -> bool:
    return bound.min == 0 and bound.max != 0


def _limits(expect: Expect) -> Iterator[str]:
    for (metric, stat), seconds in expect.times().items():
        yield f"`{metric}` {stat} at most {format_duration(seconds)}"
    for group, bounds in expect.groups.items():
        for name, bound in bounds:
            if bound != Bound():
                yield f"group `{group}`: {name} {bound.describe()}"
