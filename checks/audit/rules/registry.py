"""The registry of rules, one per anomaly."""

from __future__ import annotations

from chaos.anomalies import ANOMALIES
from chaos.scenario.model import Scenario
from checks.audit.rules import (
    commits,
    deliveries,
    groups,
    isolation,
    records,
    transactions,
    undelivered,
    write_outcomes,
    write_positions,
)
from checks.audit.rules.rule import Rule

_FAMILIES = (
    write_outcomes,
    records,
    write_positions,
    transactions,
    undelivered,
    deliveries,
    isolation,
    commits,
    groups,
)
RULES: dict[str, Rule] = {check: rule for family in _FAMILIES for check, rule in family.RULES.items()}
"""The rules by the name of their anomaly in `chaos.anomalies`."""

NEED_CLOCK = frozenset(check for check, rule in RULES.items() if rule.needs_clock)
"""The checks that a clock that ran backwards makes undecidable."""


def nothing_to_examine(scenario: Scenario, check: str) -> str:
    """Return why a check has nothing to examine in a scenario, empty if it has.

    A check that examined nothing although the scenario gives it something to examine proves nothing.
    """
    if ANOMALIES[check].path != "write" and not scenario.readers:
        return "the scenario has no consumers"
    return RULES[check].inapplicable(scenario)
