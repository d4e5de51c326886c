"""Faults of the issuer of tokens."""

from __future__ import annotations

from chaos.cluster.secured import credentials, issuer_process
from chaos.errors import ClusterError, FaultError
from chaos.faults.base import Fault, World
from chaos.faults.security import secured_of
from chaos.kafka import tokens
from chaos.kafka.access import Access
from chaos.scenario.faults import security as specs
from chaos.wait import wait_until

ANSWER_S = 5.0
HEAL_S = 30.0


class IssuerStop(Fault[specs.IssuerStop], spec=specs.IssuerStop):
    """A stopped issuer. Proof: a request for a token, with the secret of the clients, reaches nobody."""

    def _aim(self, world: World) -> None:
        self.resolved = f"issuer {secured_of(world).clients.token_endpoint}"

    def _inject(self, world: World) -> str:
        if refusal := self._refusal(world):
            raise FaultError(f"the {self.resolved} gave no token before the fault: {refusal}")
        self.begun = True
        if not issuer_process.stop(world.cluster.run):
            raise FaultError(f"the {self.resolved} answers, but its process was not found")
        return f"stopped the {self.resolved}"

    def _effect(self, world: World) -> str | None:
        refusal = self._refusal(world)
        return f"clients get no tokens: {refusal}" if refusal else None

    def _undo(self, world: World) -> str:
        """Start the issuer, unless it answers, and wait until it gives a token."""
        cluster, clients = world.cluster, secured_of(world).clients
        if self._refusal(world):
            issuer_process.start(cluster.run, credentials.folder(cluster.run), clients, cluster.state.owner)
        why = f"the {self.resolved} gives no token after its start"
        wait_until(lambda: not self._refusal(world), HEAL_S, why, every_s=0.1, error=ClusterError)
        return f"the {self.resolved} gives tokens again"

    def _refusal(self, world: World) -> str | None:
        """Return why clients get no token; None if they do."""
        clients = secured_of(world).clients
        access = Access.of(clients)
        assert access is not None  # the specification demands tokens
        try:
            tokens.fetch(str(clients.token_endpoint), str(clients.username), access.password, ANSWER_S)
        except OSError as e:
            return str(getattr(e, "reason", e)) or type(e).__name__
        return None
