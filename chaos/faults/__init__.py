"""Faults: how Aftershock injects, proves and heals each kind of failure.

A fault needs a driver with the capabilities that its specification in `chaos.scenario.faults` lists as `needs`. It has
three operations:

- `inject` resolves the target, does the damage and describes it;
- `proof` looks from outside the injector for a change that only the damage explains (another leader, a member that
  left, a request without an answer) and describes it, or returns None;
- `heal` undoes the damage. Call it at any time and any number of times, also after an injection that failed half-way.

A run is inconclusive if a fault has no proof: a test that passes although its fault never happened proves nothing.

To add a fault to a family, write its specification in `chaos/scenario/faults/<family>.py` and the fault in
`chaos/faults/<family>.py`, such as `class BrokerPause(Fault[S], spec=S)`, where `S` is `specs.BrokerPause`.
"""

from __future__ import annotations

from chaos.faults import (  # noqa: F401
    admin,
    brokers,
    certificates,
    clocks,
    consumers,
    controllers,
    deletion,
    issuer,
    network,
    producers,
    quorum,
    quotas,
    raw,
    resources,
    security,
    share_groups,
    slow_consumers,
    slow_disks,
    task_managers,
    upgrades,
    wire,
)
from chaos.faults.base import FAULTS

__all__ = ["FAULTS"]
