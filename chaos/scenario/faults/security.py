"""Faults of a secured cluster: changes of the rights and the credentials of clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.kafka.security import OAUTHBEARER
from chaos.scenario.faults.base import FaultSpec
from chaos.setup.model import Setup


class AclWithdraw(FaultSpec):
    """Take the right to write or to read a topic from the clients; healed by giving it back."""

    run_only = "the users of a run"
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


class CredentialChange(FaultSpec):
    """Change the password of the clients on all brokers; healed by giving the former one back.

    The clients keep the password that they have. Their connections live on until they log in again: after
    `connections.max.reauth.ms` of the brokers, or when they connect.
    """

    run_only = "the users of a run"
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


class IssuerStop(FaultSpec):
    """Stop the issuer of tokens; healed by a start with the same key.

    Clients get no new tokens. Their connections live on until the session of the login ends: with the token, if the
    brokers have `connections.max.reauth.ms`, or after that time if it is shorter. Brokers keep the keys that they know.
    """

    run_only = "the issuer of a run"
    targets = frozenset({"all_brokers"})
    breaks_brokers = False
    kind: Literal["issuer.stop"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the clients get tokens."""
        if setup.attached or setup.cluster.security.mechanism != OAUTHBEARER:
            yield f"{where}: {self.kind} needs cluster.security with mechanism OAUTHBEARER for an issuer"
