"""Faults of a secured cluster: rights, credentials and tokens of clients, and certificates of brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from pydantic import Field

from chaos.cluster.secured.settings import CLIENT, client_principal
from chaos.errors import ClusterError, FaultError
from chaos.faults.base import BROKER_TARGETS, Client, Fault, FaultSpec, World
from chaos.faults.targets import BrokerFault, answer
from chaos.kafka.security import OAUTHBEARER, Access
from chaos.setup.model import Setup
from chaos.units import Duration, format_duration
from chaos.wait import wait_until

if TYPE_CHECKING:
    from chaos.cluster.secured.credentials import Secured
    from chaos.kafka.client import Kafka
    from chaos.kafka.connection import Presented
    from chaos.kafka.users import Operation, Right

LONGEST_S = 10.0
"""Longest time that a certificate may still be valid: the proof waits for its end."""

LOGIN_S = 5.0

HEAL_S = 30.0
"""Time until every broker knows what the heal changed."""

ANSWER_S = 5.0

LOADED_S = 60.0
"""Time until each broker presents what it loads: it loads the stores of its listeners one after another."""

EXPIRED_BEFORE = timedelta(hours=-1)
"""Validity of a certificate that has expired: clocks of clients may differ."""


class AclWithdrawSpec(FaultSpec):
    """Take the right to write or to read a topic from the clients; healed by giving it back."""

    effects = frozenset()
    left_out = "needs a cluster with ACLs; a refused record is one that was never written"
    run_only = "the users of a run"
    of_each_cluster = True
    targets = frozenset({"topic"})
    kind: Literal["acl.withdraw"]
    operation: Literal["write", "read"] = Field("write", description="the right that is taken")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the clients have rights that can be taken, and that one of them needs this one."""
        topic = self.target.topic
        if setup.attached:
            yield f"{where}: {self.kind} takes rights that Aftershock gave, and an existing cluster has its own"
        elif not setup.cluster.security.acls:
            yield f"{where}: {self.kind} needs cluster.security with acls: true; without it clients may do everything"
        if self.operation == "write" and all(topic not in p.written for p in setup.producers):
            yield f"{where}.target.topic: no producer writes to {topic}, so nothing would prove the fault"
        if self.operation == "read" and not any(topic in r.topics for r in [*setup.readers, *setup.shares]):
            yield f"{where}.target.topic: no consumer reads {topic}, so nothing would change"


class AclWithdraw(Fault[AclWithdrawSpec], spec=AclWithdrawSpec):
    """A right withdrawn from the clients. Proof: asked as a client, every broker denies it, and a send is refused."""

    _before: dict[str, tuple[Client, int]]
    """The sends without success before the injection, by producer of the topic."""

    def _inject(self, world: World) -> str:
        from chaos.kafka import users

        if denying := self._denying(world):
            raise FaultError(f"broker {denying[0]} does not allow clients to {self._operation} {self.resolved} before")
        self._before = {c.client: (c, refused(c)) for c in self._producers(world)}
        self.begun = True
        users.withdraw(world.kafka, client_principal(secured_of(world).spec), [self._right])
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
        from chaos.kafka import users

        users.grant(world.kafka, client_principal(secured_of(world).spec), [self._right])

        def still_denied() -> str:
            brokers = ", ".join(map(str, self._denying(world)))
            return f"broker {brokers} still denies clients to {self._operation} {self.resolved} after the right is back"

        wait_until(lambda: not self._denying(world), HEAL_S, still_denied, every_s=0.1, error=ClusterError)
        return f"every broker allows clients to {self._operation} {self.resolved} again"

    @property
    def _operation(self) -> Operation:

        return cast("Operation", self.spec.operation)

    @property
    def _right(self) -> Right:
        from chaos.kafka.users import Right

        return Right("topic", self.resolved, self._operation)

    def _allowed(self, world: World) -> dict[int, set[Operation] | None]:
        """Return what each broker allows a client to do with the topic, over a connection with its credentials."""
        from chaos.kafka import users
        from chaos.kafka.client import Kafka

        kafka = Kafka(world.cluster.bootstrap, access=Access.of(secured_of(world).clients))
        try:
            return {broker: users.allowed(kafka, broker, self.resolved) for broker in world.cluster.broker_ids}
        finally:
            kafka.close()

    def _denying(self, world: World) -> list[int]:
        """Return the brokers that do not allow the operation, or do not answer."""
        return [b for b, operations in self._allowed(world).items() if self._operation not in (operations or ())]

    def _producers(self, world: World) -> list[Client]:
        names = [p.name for p in world.scenario.producers if self.resolved in p.written]
        return [world.fleet.state(client) for name in names for client in world.fleet.present(name)]

    def _count_before(self, client: Client) -> int:
        """Return the count at the injection; 0 for an incarnation that was started later."""
        state, count = self._before.get(client.client, (client, 0))
        return count if state is client else 0


class CredentialChangeSpec(FaultSpec):
    """Change the password of the clients on all brokers; healed by giving the former one back.

    The clients keep the password that they have. Their connections live on until they log in again: after
    `connections.max.reauth.ms` of the brokers, or when they connect.
    """

    effects = frozenset({"outage", "ends"})
    left_out = "needs a secured cluster; lost-answer cuts connections, too"
    run_only = "the users of a run"
    of_each_cluster = True
    targets = frozenset({"all_brokers"})
    breaks_brokers = False
    kind: Literal["credential.change"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that brokers keep the password where it can be changed while they run."""
        security = setup.cluster.security
        if setup.attached:
            yield f"{where}: {self.kind} changes a password that Aftershock made, and an existing cluster has its own"
        elif not security.sasl:
            yield f"{where}: {self.kind} needs cluster.security with SASL and a SCRAM mechanism; clients do not log in"
        elif not (security.mechanism or "").startswith("SCRAM"):
            yield (
                f"{where}: {self.kind} needs a SCRAM mechanism, such as SCRAM-SHA-512: brokers read the passwords of "
                f"{security.mechanism} only when they start"
            )


class CredentialChange(Fault[CredentialChangeSpec], spec=CredentialChangeSpec):
    """A changed password. Proof: every broker refuses a new login with the password that the clients have."""

    _password: str
    """The new password, which is in the memory of this process only."""

    def _aim(self, world: World) -> None:
        self.resolved = f"user {CLIENT}"

    def _inject(self, world: World) -> str:
        from chaos.cluster.secured.credentials import new_password

        if refusing := self._refusing(world):
            raise FaultError(f"broker {refusing[0]} does not take the password of the clients before the fault")
        self._password, self.begun = new_password(), True
        self._set(world, self._password)
        return f"gave {self.resolved} another {self._mechanism(world)} password, which the clients do not have"

    def _effect(self, world: World) -> str | None:
        from chaos.kafka.connection import login_refusal, login_works

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
        from chaos.kafka import users

        users.set_password(world.kafka, CLIENT, self._mechanism(world), password)

    def _refusing(self, world: World) -> list[int]:
        """Return the brokers that do not take the password of the clients, or do not answer."""
        from chaos.kafka.connection import login_works

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


def refused(client: Client) -> int:
    """Return how many sends of a producer had no success so far."""
    return client.count("failed") + client.count("unknown")


class IssuerStopSpec(FaultSpec):
    """Stop the issuer of tokens; healed by a start with the same key.

    Clients get no new tokens. Their connections live on until the session of the login ends: with the token, if the
    brokers have `connections.max.reauth.ms`, or after that time if it is shorter. Brokers keep the keys that they know.
    """

    effects = frozenset({"outage", "ends"})
    left_out = "needs a secured cluster; lost-answer cuts connections, too"
    run_only = "the issuer of a run"
    of_each_cluster = True
    targets = frozenset({"all_brokers"})
    breaks_brokers = False
    kind: Literal["issuer.stop"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the clients get tokens."""
        if setup.attached or setup.cluster.security.mechanism != OAUTHBEARER:
            yield f"{where}: {self.kind} needs cluster.security with mechanism OAUTHBEARER for an issuer"


class IssuerStop(Fault[IssuerStopSpec], spec=IssuerStopSpec):
    """A stopped issuer. Proof: a request for a token, with the secret of the clients, reaches nobody."""

    def _aim(self, world: World) -> None:
        self.resolved = f"issuer {secured_of(world).clients.token_endpoint}"

    def _inject(self, world: World) -> str:
        from chaos.cluster.secured import issuer

        if refusal := self._refusal(world):
            raise FaultError(f"the {self.resolved} gave no token before the fault: {refusal}")
        self.begun = True
        if not issuer.stop(world.cluster.run):
            raise FaultError(f"the {self.resolved} answers, but its process was not found")
        return f"stopped the {self.resolved}"

    def _effect(self, world: World) -> str | None:
        refusal = self._refusal(world)
        return f"clients get no tokens: {refusal}" if refusal else None

    def _undo(self, world: World) -> str:
        """Start the issuer, unless it answers, and wait until it gives a token."""
        from chaos.cluster.secured import credentials, issuer

        cluster, clients = world.cluster, secured_of(world).clients
        if self._refusal(world):
            issuer.start(cluster.run, credentials.folder(cluster.run), clients, cluster.state.owner)
        why = f"the {self.resolved} gives no token after its start"
        wait_until(lambda: not self._refusal(world), HEAL_S, why, every_s=0.1, error=ClusterError)
        return f"the {self.resolved} gives tokens again"

    def _refusal(self, world: World) -> str | None:
        """Return why clients get no token; None if they do."""
        from chaos.kafka import tokens

        clients = secured_of(world).clients
        access = Access.of(clients)
        assert access is not None  # the specification demands tokens
        try:
            tokens.fetch(str(clients.token_endpoint), str(clients.username), access.password, ANSWER_S)
        except OSError as e:
            return str(getattr(e, "reason", e)) or type(e).__name__
        return None


class CertificateFaultSpec(FaultSpec):
    """A broker that presents another certificate."""

    run_only = "the certificates of a run"
    of_each_cluster = True
    targets = BROKER_TARGETS
    breaks_brokers = False

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the certificates of the brokers come from Aftershock."""
        if setup.attached:
            yield f"{where}: {self.kind} changes certificates that Aftershock made, and an existing cluster has its own"
        elif not setup.cluster.security.tls:
            yield f"{where}: {self.kind} needs cluster.security with protocol SSL or SASL_SSL for certificates"


class CertificateRotateSpec(CertificateFaultSpec):
    """Give brokers new keys and certificates, without a restart; they keep them, so nothing is healed.

    The names and addresses in the certificates stay. Connections live on, and new ones get the new certificate. If
    another authority signs it, all brokers trust both authorities first. Clients trust both from the start.
    """

    effects = frozenset()
    left_out = "needs a secured cluster; lost-answer cuts connections, too"
    kind: Literal["certificate.rotate"]
    authority: Literal["same", "other"] = Field("same", description="which authority signs the new certificates")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that every node that has to trust another authority can load it."""
        yield from super().problems(setup, where)
        if self.authority == "other" and setup.cluster.controllers:
            yield (
                f"{where}.authority: dedicated controllers do not load another trust store while they run; "
                "leave cluster.controllers out, or choose authority: same"
            )


S = TypeVar("S", bound=CertificateFaultSpec)


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
        from chaos.kafka.connection import presented_certificate

        try:
            return presented_certificate(*world.cluster.address(broker), ANSWER_S)
        except OSError as e:
            raise FaultError(
                f"broker {broker} presented no certificate before the fault: {e or type(e).__name__}"
            ) from None

    def _load(self, world: World, values: Mapping[int, Mapping[str, str]]) -> None:
        """Set dynamic settings of brokers, by broker. Raises `ClusterError`."""
        from chaos.kafka import admin

        kafka = _kafka(world)
        try:
            for broker, settings in values.items():
                admin.set_of_broker(kafka, broker, settings)
        finally:
            kafka.close()

    def _presents(self, broker: int, port: int, world: World) -> Presented | None:
        """Return the certificate at a port of a broker if it is the new one, else None."""
        from chaos.kafka.connection import presented_certificate

        try:
            found = presented_certificate(world.cluster.address(broker)[0], port, ANSWER_S)
        except OSError:
            return None
        return found if found.serial == self._serials.get(broker) else None

    def _note(self, now: Mapping[int, Presented]) -> None:
        """Enter into the evidence what each broker presented before and presents now."""
        self.evidence["certificates"] = {
            f"broker {broker}": {"before": self._before[broker].describe(), "now": found.describe()}
            for broker, found in now.items()
        }


class CertificateRotate(CertificateFault[CertificateRotateSpec], spec=CertificateRotateSpec):
    """New certificates. Proof: each listener of the brokers presents the new one, by its serial number."""

    lasting = "its new certificates stay"

    def _change(self, world: World) -> str:
        """Let all brokers trust the new authority, then give the targets their certificates."""
        from chaos.cluster import renewal
        from chaos.kafka.connection import short_serial

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
        names = ", ".join(f"{b}: {short_serial(serial)}" for b, serial in self._serials.items())
        return f"gave {self.resolved} new certificates of {authority.name} (by broker: {names})"

    def _wait_known(self, values: Mapping[int, Mapping[str, str]], world: World) -> None:
        from chaos.kafka import admin

        kafka, unknown = _kafka(world), dict(values)

        def known() -> bool:
            for broker, settings in list(unknown.items()):
                if admin.dynamic_of_broker(kafka, broker, settings) == dict(settings):
                    del unknown[broker]
            return not unknown

        def why() -> str:
            return f"broker {', '.join(map(str, unknown))} does not load another trust store"

        try:
            answer(known, why, LOADED_S)
        finally:
            kafka.close()

    def _effect(self, world: World) -> str | None:
        from chaos.cluster import renewal
        from chaos.kafka.connection import short_serial

        now: dict[int, Presented] = {}
        for broker in self.brokers:
            for port in renewal.ports(world.cluster.state, broker):
                found = self._presents(broker, port, world)
                if found is None:
                    return None
                now[broker] = found
        self._note(now)
        shown = (
            f"broker {b} presents {c.describe()} (before: {short_serial(self._before[b].serial)})"
            for b, c in now.items()
        )
        return f"each listener has the new certificate: {', '.join(shown)}"


class CertificateExpireSpec(CertificateFaultSpec):
    """Let the certificate of a broker's listener for clients expire; healed by a valid one.

    Connections live on, and clients that connect refuse the broker. Brokers still trust each other: Kafka refuses to
    load a certificate for a listener between nodes that it would not accept itself.
    """

    effects = frozenset({"outage", "ends"})
    left_out = "needs a secured cluster; lost-answer cuts connections, too"
    kind: Literal["certificate.expire"]
    after: Duration = Field(0, description="time for which the certificate is still valid")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the certificate expires before the search for the proof ends."""
        yield from super().problems(setup, where)
        if self.after > LONGEST_S:
            yield (
                f"{where}.after: {format_duration(self.after)} is longer than {format_duration(LONGEST_S)}, and the "
                "proof waits for the end of the certificate; let the fault begin later instead"
            )


class CertificateExpire(CertificateFault[CertificateExpireSpec], spec=CertificateExpireSpec):
    """A certificate that has expired. Proof: the broker presents it, and a client that checks it is refused."""

    def _change(self, world: World) -> str:
        from chaos.kafka.connection import short_serial

        valid = timedelta(seconds=self.spec.after) if self.spec.after else EXPIRED_BEFORE
        ends = datetime.now(UTC) + valid
        self._renew(world, valid)
        names = ", ".join(f"{b}: {short_serial(serial)}" for b, serial in self._serials.items())
        return f"gave {self.resolved} a certificate for clients that ends at {ends:%H:%M:%S} UTC (by broker: {names})"

    def _renew(self, world: World, valid: timedelta) -> None:
        from chaos.cluster import renewal

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
        from chaos.kafka.connection import certificate_refusal

        access = Access.of(secured_of(world).clients)
        assert access is not None
        try:
            return certificate_refusal(*world.cluster.address(broker), ANSWER_S, access)
        except OSError:
            return None

    def _undo(self, world: World) -> str:
        """Give the brokers a valid certificate, and wait until clients accept it."""
        from chaos.cluster.secured.certificates import VALID

        self._renew(world, VALID)

        def invalid() -> list[int]:
            return [
                b
                for b in self.brokers
                if self._presents(b, world.cluster.address(b)[1], world) is None or self._refusal(b, world)
            ]

        def why() -> str:
            return f"broker {', '.join(map(str, invalid()))} does not present its renewed certificate"

        wait_until(lambda: not invalid(), LOADED_S, why, every_s=0.1, error=ClusterError)
        return f"{self.resolved} presents a valid certificate again"


def _kafka(world: World) -> Kafka:
    """Return a connection that accepts every certificate: the targets' certificates may be invalid."""
    from chaos.kafka.client import Kafka
    from chaos.kafka.connection import AnyCertificate

    return Kafka(world.cluster.bootstrap, ANSWER_S, AnyCertificate.of(secured_of(world).platform))


def secured_of(world: World) -> Secured:
    """Return the ways to connect to the cluster of a run. Raises `FaultError` if it is not secured."""
    secured = world.cluster.state.secured
    if secured is None:
        raise FaultError("the cluster of the run has no security that Aftershock set up")
    return secured


FAULTS: dict[str, type[Fault[Any]]] = {
    "acl.withdraw": AclWithdraw,
    "credential.change": CredentialChange,
    "issuer.stop": IssuerStop,
    "certificate.rotate": CertificateRotate,
    "certificate.expire": CertificateExpire,
}
