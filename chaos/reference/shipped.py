"""The shipped scenarios, read once, and their contracts in words."""

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
"""Seen from a page of a folder of `chaos`."""


@cache
def scenarios() -> dict[str, Scenario]:
    """All of them, by name."""
    return {name: load(path) for name, path in shipped().items()}


def link(name: str, to: str = CATALOGUE) -> str:
    """A scenario's name that leads to its section in the catalogue."""
    return f"[`{name}`]({to}#{anchor(name)})"


def contracts(scenario: Scenario) -> dict[str, Expect]:
    """What holds for each variant of a scenario, or for the scenario itself under an empty name."""
    return {name: side.expect or scenario.expect for name, side in scenario.variants.items()} or {"": scenario.expect}


def must(expect: Expect) -> list[str]:
    """What has to appear, such as `lost_write` at least 1."""
    demanded = [f"`{_name(*key)}` {bound.words()}" for key, bound in expect.counts().items() if bound.min > 0]
    for client, errors in expect.client_errors.items():
        demanded += [f"`{words}` reported by {count.words()} of `{client}`" for words, count in errors.items()]
    return demanded


def may(expect: Expect) -> list[str]:
    """What may appear, or has a limit of its own; whatever is named neither here nor in `must` must not."""
    allowed = [f"`{_name(*key)}` {bound.words()}" for key, bound in expect.counts().items() if _allows(bound)]
    return allowed + list(_limits(expect))


def shows(kind: str) -> list[str]:
    """The shipped scenarios that fail if this kind does not appear, each with its variant: `retry-duplicate/plain`."""
    return [
        f"{name}/{variant}" if variant else name
        for name, scenario in scenarios().items()
        for variant, expect in contracts(scenario).items()
        if any(bound.min > 0 for (found, _), bound in expect.counts().items() if found == kind)
    ]


def _name(kind: str, split: str) -> str:
    return f"{kind}: {split}" if split in ANOMALIES[kind].splits else kind


def _allows(bound: Bound) -> bool:
    return bound.min == 0 and bound.max != 0


def _limits(expect: Expect) -> Iterator[str]:
    for (metric, stat), seconds in expect.times().items():
        yield f"`{metric}` {stat} at most {format_duration(seconds)}"
    for group, bounds in expect.groups.items():
        for what in ("members", "rebalances"):
            if (bound := getattr(bounds, what)) != Bound():
                yield f"group `{group}`: {what} {bound.words()}"
