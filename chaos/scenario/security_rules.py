"""Rules for the security of a cluster: which settings fit the driver, the release, and the faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from chaos.cluster.settings import SCRAM_SINCE, line_of
from chaos.faults.base import FaultSpec
from chaos.faults.wire import WireFaultSpec
from chaos.kafka.security import OAUTHBEARER, ClusterSecurity, Security
from chaos.setup.model import Setup
from chaos.units import format_duration

WHERE = "cluster.security"
TOKENS_SINCE = (3, 4)
"""The first release with public classes that check tokens of an issuer (KIP-768)."""
LEAST_TOKEN_S = 10.0
LEAST_LIFETIME_S = 3600.0
"""Least lifetime of certificates: far more than a run takes, so that only faults let them expire."""
_MADE = ("username", "password", "token_endpoint", "ca", "certificate", "key", "key_password")


def security_problems(setup: Setup, faults: Iterable[FaultSpec]) -> Iterator[str]:
    """Yield what is wrong with `cluster.security`."""
    security = setup.cluster.security
    yield from _given(setup) if setup.attached else _made(setup)
    users = [f.kind for f in faults if isinstance(f, WireFaultSpec)]
    users += ["capture"] * (setup.capture is not None) + ["cluster.proxy"] * setup.cluster.proxy
    if users and security.tls:
        yield (
            f"{WHERE}: {users[0]} needs the wire proxy, which cannot read {security.protocol}; "
            "choose SASL_PLAINTEXT or no security, or a fault that cuts connections, such as broker.isolate"
        )


def _given(setup: Setup) -> Iterator[str]:
    """Yield what is wrong for an existing cluster."""
    security = setup.cluster.security
    for key in ("client_certificates", "acls", "certificate_lifetime", "token_lifetime"):
        if getattr(security, key):
            yield f"{WHERE}.{key}: does not fit the attached driver: the cluster has its own security settings"
    if security.mechanism == OAUTHBEARER:
        yield (
            f"{WHERE}.mechanism: OAUTHBEARER does not fit the attached driver: Aftershock logs in to existing clusters "
            "by PLAIN or SCRAM; give a listener with one of them"
        )
        return
    try:
        security.given()
    except ValidationError as e:
        yield from (f"{WHERE}: {error['msg'].removeprefix('Value error, ')}" for error in e.errors())


def _made(setup: Setup) -> Iterator[str]:
    """Yield what is wrong for a cluster that is started."""
    cluster, security, defaults = setup.cluster, setup.cluster.security, Security()
    for key in (*_MADE, "verify_hostname"):
        if getattr(security, key) != getattr(defaults, key):
            yield (
                f"{WHERE}.{key}: does not fit the {cluster.driver} driver: Aftershock makes certificates and passwords "
                "for each run; leave it out, or use the attached driver"
            )
    if security.sasl and security.mechanism is None:
        yield f"{WHERE}: protocol {security.protocol} needs a mechanism, such as SCRAM-SHA-512"
    if security.mechanism is not None and not security.sasl:
        yield f"{WHERE}.mechanism: does not fit protocol {security.protocol}; choose SASL_SSL or SASL_PLAINTEXT"
    if security.client_certificates and security.protocol != "SSL":
        yield (
            f"{WHERE}.client_certificates: does not fit protocol {security.protocol}, only SSL: with SASL, the login "
            "identifies a client"
        )
    if security.certificate_lifetime is not None:
        yield from _lifetime_problems(security)
    if security.acls and not (security.sasl or security.client_certificates):
        yield f"{WHERE}.acls: clients have no identity; choose a protocol with SASL, or SSL with client_certificates"
    if not security.secured:
        return
    yield from _token_problems(setup)
    if cluster.voters:
        yield f"{WHERE}: does not go with cluster.voters; leave one of them out"
    if cluster.metadata == "zookeeper":
        yield (
            f"{WHERE}: Kafka {cluster.kafka} keeps its metadata in ZooKeeper here, and Aftershock secures KRaft only; "
            "choose metadata: kraft and a release from 3.3 on, or leave security out"
        )
    elif (security.mechanism or "").startswith("SCRAM") and line_of(cluster.kafka) < SCRAM_SINCE:
        yield f"{WHERE}.mechanism: KRaft has SCRAM since Kafka 3.5, and this is {cluster.kafka}; choose PLAIN"


def _token_problems(setup: Setup) -> Iterator[str]:
    cluster, security = setup.cluster, setup.cluster.security
    if security.mechanism != OAUTHBEARER:
        if security.token_lifetime is not None:
            yield f"{WHERE}.token_lifetime: clients get no tokens; set mechanism: OAUTHBEARER, or leave it out"
        return
    where = f"{WHERE}.mechanism"
    if line_of(cluster.kafka) < TOKENS_SINCE:
        yield f"{where}: Kafka {cluster.kafka} has no check of tokens of an issuer (KIP-768); choose 3.4 or later"
    if security.token_lifetime is not None and not LEAST_TOKEN_S <= security.token_lifetime <= 86_400:
        yield f"{WHERE}.token_lifetime: {format_duration(security.token_lifetime)} is not between 10s and 24h"
    for place, entry in setup.placed_entries:
        if refusal := entry.client.refusal("tokens"):
            yield f"{place}.client: {refusal} ({where})"


def _lifetime_problems(security: ClusterSecurity) -> Iterator[str]:
    where, lifetime_s = f"{WHERE}.certificate_lifetime", security.certificate_lifetime or 0.0
    if not security.tls:
        yield f"{where}: does not fit protocol {security.protocol}, which has no certificates for clients"
    if lifetime_s < LEAST_LIFETIME_S:
        yield (
            f"{where}: {format_duration(lifetime_s)} may end during the run; give 1h or more, and let a fault end "
            "them, such as certificate.expire or clock.jump"
        )
