"""The shape of a fault."""

from __future__ import annotations

from typing import Protocol

from chaos.faults.world import World
from chaos.scenario.faults import FaultSpec


class Fault(Protocol):
    """See `chaos.faults`. `resolved` names the target that was hit, empty before the injection. A fault may have a dict
    `told` besides: what the audit has to know of it, which goes into the evidence of its rows."""

    resolved: str

    def __init__(self, spec: FaultSpec) -> None: ...

    def inject(self, world: World) -> str:
        """Do the damage and say what was done; raises FaultError or ClusterError where it could not."""

    def proof(self, world: World) -> str | None:
        """The observed change that shows the effect, as a sentence; None while there is none."""

    def heal(self, world: World) -> str:
        """Undo the damage and say so; idempotent."""
