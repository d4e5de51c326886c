"""Derived contracts: what the settings of a scenario promise under its faults, line by line.

A scenario with `expect: promised` is judged by this contract.

1. `faults` says what each fault does, by the table in `rules/faults.yaml`.
2. `writers` and `readers` make one situation of each client and each topic: the facts about their settings, by the
   defaults of their release, and about the faults that concern them.
3. `table` compares a situation with the rules of a line (`rules/*.yaml`): allowed, not decided, or else forbidden.
4. `derive` joins the situations: a line is allowed if it is allowed in one of them.

Only the faults of the scenario break things: what none of them can cause is forbidden. A line is not decided if it
depends on times that no setting bounds, or on settings that are not known. An anomaly of such a line makes the run
inconclusive, so it is never green by mistake.
"""

from chaos.contract.derive import Contract, Line, contract, differences, unpromised

__all__ = ["Contract", "Line", "contract", "differences", "unpromised"]
