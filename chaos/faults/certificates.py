"""Faults of the certificates that brokers present."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from chaos.cluster import renewal
from chaos.cluster.secured.certificates import VALID
from chaos.errors import ClusterError, FaultError
from chaos.faults.base import World
from chaos.faults.security import secured_of
from chaos.faults.targets import BrokerFault, answer
from chaos.kafka import broker_settings
from chaos.kafka.access import Access
from chaos.kafka.certificates import AnyCertificate, Presented, presented, refusal, short
from chaos.kafka.client import Kafka
from chaos.scenario.faults import certificates as specs
from chaos.wait import wait_until

ANSWER_S = 5.0
HEAL_S = 60.0
"""Time until each broker presents what it loads: it loads the stores of its listeners one after another."""
EXPIRED_BEFORE = timedelta(hours=-1)
"""Validity of a certificate that has expired: clocks of clients may differ."""

S = TypeVar("S", bound=specs.CertificateFault)


class CertificateFault(BrokerFault[S]):
    """A fault of the certificates of brokers, which connections of this fault do not check."""

    _before: dict[int, Presented]
    _serials: dict[int, int]
    """The serial numbers of the new certificates, by broker."""

    def _inject(self, world: World) -> str:
        secured_of(world)
        self._before, self._serials = {b: self._presented_before(b, world) for b in self.brokers}, {}
        self.begun = True
        return self._change(world)

    def _change(self, world: World) -> str:
        """Change the certificates, and describe it."""
        raise NotImplementedError

    def _presented_before(self, broker: int, world: World) -> Presented:
        try:
            return presented(*world.cluster.address(broker), ANSWER_S)
        except OSError as e:
            raise FaultError(
                f"broker {broker} presented no certificate before the fault: {e or type(e).__name__}"
            ) from None

    def _load(self, world: World, values: Mapping[int, Mapping[str, str]]) -> None:
        """Set dynamic settings of brokers, by broker. Raises `ClusterError`."""
        kafka = _kafka(world)
        try:
            for broker, settings in values.items():
                broker_settings.set_of_broker(kafka, broker, settings)
        finally:
            kafka.close()

    def _presents(self, broker: int, port: int, world: World) -> Presented | None:
        """Return the certificate at a port of a broker if it is the new one, else None."""
        try:
            found = presented(world.cluster.address(broker)[0], port, ANSWER_S)
        except OSError:
            return None
        return found if found.serial == self._serials.get(broker) else None

    def _note(self, now: Mapping[int, Presented]) -> None:
        """Enter into the evidence what each broker presented before and presents now."""
        self.evidence["certificates"] = {
            f"broker {broker}": {"before": self._before[broker].describe(), "now": found.describe()}
            for broker, found in now.items()
        }


class CertificateRotate(CertificateFault[specs.CertificateRotate], spec=specs.CertificateRotate):
    """New certificates. Proof: each listener of the brokers presents the new one, by its serial number."""

    lasting = "its new certificates stay"

    def _change(self, world: World) -> str:
        """Let all brokers trust the new authority, then give the targets their certificates."""
        run, state, issuer = world.cluster.run, world.cluster.state, self._before[self.broker].issuer
        authority = renewal.authority_named(run, issuer)
        if self.spec.authority == "other":
            authority = renewal.other_authority(run, issuer)
            trust = {b: renewal.trust_both(run, state, b) for b in world.cluster.broker_ids}
            self._load(world, trust)
            self._wait_known(trust, world)
        stores = {}
        for broker in self.brokers:
            self._serials[broker], stores[broker] = renewal.renew(run, state, broker, authority)
        self._load(world, stores)
        names = ", ".join(f"{b}: {short(serial)}" for b, serial in self._serials.items())
        return f"gave {self.resolved} new certificates of {authority.name} (by broker: {names})"

    def _wait_known(self, values: Mapping[int, Mapping[str, str]], world: World) -> None:
        kafka, unknown = _kafka(world), dict(values)

        def known() -> bool:
            for broker, settings in list(unknown.items()):
                if broker_settings.dynamic_of_broker(kafka, broker, settings) == dict(settings):
                    del unknown[broker]
            return not unknown

        def why() -> str:
            return f"broker {', '.join(map(str, unknown))} does not load another trust store"

        try:
            answer(known, why, HEAL_S)
        finally:
            kafka.close()

    def _effect(self, world: World) -> str | None:
        now: dict[int, Presented] = {}
        for broker in self.brokers:
            for port in renewal.ports(world.cluster.state, broker):
                found = self._presents(broker, port, world)
                if found is None:
                    return None
                now[broker] = found
        self._note(now)
        shown = (
            f"broker {b} presents {c.describe()} (before: {short(self._before[b].serial)})" for b, c in now.items()
        )
        return f"each listener has the new certificate: {', '.join(shown)}"


class CertificateExpire(CertificateFault[specs.CertificateExpire], spec=specs.CertificateExpire):
    """A certificate that has expired. Proof: the broker presents it, and a client that checks it is refused."""

    def _change(self, world: World) -> str:
        valid = timedelta(seconds=self.spec.after) if self.spec.after else EXPIRED_BEFORE
        ends = datetime.now(UTC) + valid
        self._renew(world, valid)
        names = ", ".join(f"{b}: {short(serial)}" for b, serial in self._serials.items())
        return f"gave {self.resolved} a certificate for clients that ends at {ends:%H:%M:%S} UTC (by broker: {names})"

    def _renew(self, world: World, valid: timedelta) -> None:
        run, stores = world.cluster.run, {}
        for broker in self.brokers:
            authority = renewal.authority_named(run, self._before[broker].issuer)
            self._serials[broker], stores[broker] = renewal.renew_for_clients(run, broker, authority, valid)
        self._load(world, stores)

    def _effect(self, world: World) -> str | None:
        now: dict[int, Presented] = {}
        reasons: dict[str, None] = {}
        for broker in self.brokers:
            found = self._presents(broker, world.cluster.address(broker)[1], world)
            reason = self._refusal(broker, world)
            if found is None or reason is None or found.ends > datetime.now(UTC):
                return None
            now[broker], reasons[reason] = found, None
        self._note(now)
        shown = ", ".join(f"broker {b} presents {c.describe()}" for b, c in now.items())
        return f"{shown}; a client that connects refuses it: {', '.join(reasons)}"

    def _refusal(self, broker: int, world: World) -> str | None:
        access = Access.of(secured_of(world).clients)
        assert access is not None
        try:
            return refusal(*world.cluster.address(broker), ANSWER_S, access)
        except OSError:
            return None

    def _undo(self, world: World) -> str:
        """Give the brokers a valid certificate, and wait until clients accept it."""
        self._renew(world, VALID)

        def invalid() -> list[int]:
            return [
                b
                for b in self.brokers
                if self._presents(b, world.cluster.address(b)[1], world) is None or self._refusal(b, world)
            ]

        def why() -> str:
            return f"broker {', '.join(map(str, invalid()))} does not present its renewed certificate"

        wait_until(lambda: not invalid(), HEAL_S, why, every_s=0.1, error=ClusterError)
        return f"{self.resolved} presents a valid certificate again"


def _kafka(world: World) -> Kafka:
    """Return a connection that accepts every certificate: those of the targets may be invalid."""
    return Kafka(world.cluster.bootstrap, ANSWER_S, AnyCertificate.of(secured_of(world).platform))
