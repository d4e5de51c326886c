"""Faults of a secured cluster: changes of the rights and the credentials of clients."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from chaos.cluster.secured.credentials import Secured, new_password
from chaos.cluster.secured.settings import CLIENT, client_principal
from chaos.errors import ClusterError, FaultError
from chaos.faults.base import Fault, World
from chaos.fleet.roster import ClientState
from chaos.kafka import acls, scram
from chaos.kafka.access import Access
from chaos.kafka.acls import Operation, Right
from chaos.kafka.client import Kafka
from chaos.kafka.connection import login_refusal, login_works
from chaos.scenario.faults import security as specs
from chaos.wait import wait_until

LOGIN_S = 5.0
HEAL_S = 30.0
"""Time until every broker knows what the heal changed."""


def secured_of(world: World) -> Secured:
    """Return the ways to connect to the cluster of a run. Raises `FaultError` if it is not secured."""
    secured = world.cluster.state.secured
    if secured is None:
        raise FaultError("the cluster of the run has no security that Aftershock set up")
    return secured


class AclWithdraw(Fault[specs.AclWithdraw], spec=specs.AclWithdraw):
    """A right withdrawn from the clients. Proof: asked as a client, every broker denies it, and a send is refused."""

    _before: dict[str, tuple[ClientState, int]]
    """The sends without success before the injection, by producer of the topic."""

    def _inject(self, world: World) -> str:
        if denying := self._denying(world):
            raise FaultError(f"broker {denying[0]} does not allow clients to {self._operation} {self.resolved} before")
        self._before = {c.client: (c, refused(c)) for c in self._producers(world)}
        self.begun = True
        acls.withdraw(world.kafka, client_principal(secured_of(world).spec), [self._right])
        return f"took the right to {self._operation} {self.resolved} from the clients"

    def _effect(self, world: World) -> str | None:
        if any(found is None or self._operation in found for found in self._allowed(world).values()):
            return None
        denied = f"every broker denies clients to {self._operation} {self.resolved}"
        if self._operation != "write":
            return denied
        new = {c.client: refused(c) - self._count_before(c) for c in self._producers(world)}
        if not any(count > 0 for count in new.values()):
            return None
        counts = ", ".join(f"{count:,} sends of {client}" for client, count in new.items() if count > 0)
        return f"{denied}; not acknowledged since: {counts}"

    def _undo(self, world: World) -> str:
        """Give the right back, and wait until every broker allows it again."""
        acls.grant(world.kafka, client_principal(secured_of(world).spec), [self._right])

        def still_denied() -> str:
            brokers = ", ".join(map(str, self._denying(world)))
            return f"broker {brokers} still denies clients to {self._operation} {self.resolved} after the right is back"

        wait_until(lambda: not self._denying(world), HEAL_S, still_denied, every_s=0.1, error=ClusterError)
        return f"every broker allows clients to {self._operation} {self.resolved} again"

    @property
    def _operation(self) -> Operation:
        return cast(Operation, self.spec.operation)

    @property
    def _right(self) -> Right:
        return Right("topic", self.resolved, self._operation)

    def _allowed(self, world: World) -> dict[int, set[Operation] | None]:
        """Return what each broker allows a client to do with the topic, over a connection with its credentials."""
        kafka = Kafka(world.cluster.bootstrap, access=Access.of(secured_of(world).clients))
        try:
            return {broker: acls.allowed(kafka, broker, self.resolved) for broker in world.cluster.broker_ids}
        finally:
            kafka.close()

    def _denying(self, world: World) -> list[int]:
        """Return the brokers that do not allow the operation, or do not answer."""
        return [b for b, operations in self._allowed(world).items() if self._operation not in (operations or ())]

    def _producers(self, world: World) -> list[ClientState]:
        names = [p.name for p in world.scenario.producers if self.resolved in p.written]
        return [world.fleet.state(client) for name in names for client in world.fleet.present(name)]

    def _count_before(self, client: ClientState) -> int:
        """Return the count at the injection; 0 for an incarnation that was started later."""
        state, count = self._before.get(client.client, (client, 0))
        return count if state is client else 0


class CredentialChange(Fault[specs.CredentialChange], spec=specs.CredentialChange):
    """A changed password. Proof: every broker refuses a new login with the password that the clients have."""

    _password: str
    """The new password, which is in the memory of this process only."""

    def _aim(self, world: World) -> None:
        self.resolved = f"user {CLIENT}"

    def _inject(self, world: World) -> str:
        if refusing := self._refusing(world):
            raise FaultError(f"broker {refusing[0]} does not take the password of the clients before the fault")
        self._password, self.begun = new_password(), True
        self._set(world, self._password)
        return f"gave {self.resolved} another {self._mechanism(world)} password, which the clients do not have"

    def _effect(self, world: World) -> str | None:
        access, reasons = self._access(world), dict[str, None]()
        for broker in world.cluster.broker_ids:
            try:
                reason = login_refusal(*world.cluster.address(broker), LOGIN_S, access)
            except OSError:
                return None
            if reason is None:
                return None
            reasons[reason.rpartition(": ")[2]] = None
        new = replace(access, password=self._password)
        if not all(login_works(*world.cluster.address(b), LOGIN_S, new) for b in world.cluster.broker_ids):
            return None
        return f"every broker refuses a login with the password of the clients: {', '.join(reasons)}"

    def _undo(self, world: World) -> str:
        """Give the former password back, and wait until every broker takes it."""
        self._set(world, self._access(world).password)

        def still_refused() -> str:
            brokers = ", ".join(map(str, self._refusing(world)))
            return f"broker {brokers} still refuses the password of the clients after it is given back"

        wait_until(lambda: not self._refusing(world), HEAL_S, still_refused, every_s=0.1, error=ClusterError)
        return f"every broker takes the password of the clients for {self.resolved} again"

    def _set(self, world: World, password: str) -> None:
        scram.set_password(world.kafka, CLIENT, self._mechanism(world), password)

    def _refusing(self, world: World) -> list[int]:
        """Return the brokers that do not take the password of the clients, or do not answer."""
        access = self._access(world)
        return [b for b in world.cluster.broker_ids if not login_works(*world.cluster.address(b), LOGIN_S, access)]

    @staticmethod
    def _access(world: World) -> Access:
        access = Access.of(secured_of(world).clients)
        assert access is not None  # the specification demands SASL
        return access

    @staticmethod
    def _mechanism(world: World) -> str:
        return str(secured_of(world).spec.mechanism)


def refused(client: ClientState) -> int:
    """Return how many sends of a producer had no success so far."""
    return client.count("failed") + client.count("unknown")
