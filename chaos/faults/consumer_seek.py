"""A consumer that reads on from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.faults import targets
from chaos.faults.world import World
from chaos.scenario.faults import FaultSpec
from chaos.scenario.faults.consumer import ConsumerSeek as ConsumerSeekSpec


@dataclass
class ConsumerSeek:
    """A consumer that reads on from elsewhere.

    Proof: the position of a partition is not where it was, and the consumer has delivered from there since.
    """

    spec: FaultSpec
    resolved: str = ""
    _before: int = 0
    _moved: dict[str, tuple[int, int]] = field(default_factory=dict)

    def inject(self, world: World) -> str:
        """Give the order."""
        assert isinstance(self.spec, ConsumerSeekSpec)
        self.resolved = targets.client(self.spec.target, world)
        self._before = len(world.fleet.state(self.resolved).progress().get("sought", []))
        where: dict[str, object] = {"offsets": self.spec.offsets} if self.spec.offsets else {"ago_s": self.spec.ago}
        world.fleet.order(self.resolved, {"do": "seek", **where})
        words = f"to {self.spec.offsets}" if self.spec.offsets else f"to what was written {self.spec.ago:g} s ago"
        return f"told {self.resolved} to seek {words}"

    def proof(self, world: World) -> str | None:
        """Look at what the consumer says of its positions, before and after."""
        state = world.fleet.state(self.resolved)
        for partition, before, to in state.progress().get("sought", [])[self._before :]:
            if before is not None and before != to:
                self._moved[partition] = before, to
        positions = state.positions()
        again = {p: positions[p] for p, (_, to) in self._moved.items() if positions.get(p, to) > to}
        if not again or len(again) < len(self._moved):
            return None
        told = [f"{p} from {self._moved[p][0]} to {self._moved[p][1]}, by now {at}" for p, at in sorted(again.items())]
        return f"{self.resolved} went {'; '.join(told)}"

    def heal(self, world: World) -> str:
        """It reads on by itself."""
        return "nothing to heal"
