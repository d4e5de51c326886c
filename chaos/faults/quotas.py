"""The fault that throttles a client by quotas."""

from __future__ import annotations

from chaos.errors import FaultError
from chaos.faults.base import World
from chaos.faults.clients import ClientFault
from chaos.fleet.roster import ClientState
from chaos.kafka import admin
from chaos.scenario.faults import clients as specs


class ClientQuota(ClientFault[specs.ClientQuota], spec=specs.ClientQuota):
    """A client above its quota. Proof: responses to the client contain a throttle time, for each quota that was set."""

    _client: ClientState
    _before: dict[str, int]
    """The throttled responses before the injection, by side."""

    def _inject(self, world: World) -> str:
        self._client = world.fleet.state(self.resolved)
        self._before = {side: responses for side, (responses, _) in self._client.throttled().items()}
        if (present := admin.quotas(world.kafka, self.resolved)) != {}:
            state = "is unknown" if present is None else f"is {present}"
            raise FaultError(f"the quota of client id {self.resolved} before the fault {state}; it has to be none")
        self.begun = True
        admin.set_quotas(world.kafka, self.resolved, self.spec.rates)
        rates = ", ".join(f"{key}={rate}" for key, rate in self.spec.rates.items())
        return f"set {rates} for client id {self.resolved}"

    def _effect(self, world: World) -> str | None:
        """Look for throttled responses, also to an incarnation that was started after the injection."""
        client = world.fleet.state(self.resolved)
        throttled, effects = client.throttled(), []
        for key in self.spec.rates:
            side = key.partition("_")[0]
            responses, longest_ms = throttled.get(side, (0, 0))
            new = responses - (self._before.get(side, 0) if client is self._client else 0)
            if new <= 0:
                return None
            effects.append(f"{new} responses to {self.resolved} as a {side} were throttled, by up to {longest_ms:,} ms")
        return "; ".join(effects)

    def _undo(self, world: World) -> str:
        admin.set_quotas(world.kafka, self.resolved, dict.fromkeys(self.spec.rates))
        return f"client id {self.resolved} has no quota any more"
