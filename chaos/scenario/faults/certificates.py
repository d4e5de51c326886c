"""Faults of the certificates that brokers present."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import BROKER_TARGETS, FaultSpec
from chaos.setup.model import Setup
from chaos.units import Duration, format_duration

LONGEST_S = 10.0
"""Longest time that a certificate may still be valid: the proof waits for its end."""


class CertificateFault(FaultSpec):
    """A broker that presents another certificate."""

    run_only = "the certificates of a run"
    targets = BROKER_TARGETS
    breaks_brokers = False

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the certificates of the brokers are those of Aftershock."""
        if setup.attached:
            yield f"{where}: {self.kind} changes certificates that Aftershock made, and an existing cluster has its own"
        elif not setup.cluster.security.tls:
            yield f"{where}: {self.kind} needs cluster.security with protocol SSL or SASL_SSL for certificates"


class CertificateRotate(CertificateFault):
    """Give brokers new keys and certificates, without a restart; they keep them, so nothing is healed.

    The names and addresses in the certificates stay. Connections live on, and new ones get the new certificate. If
    another authority signs it, all brokers trust both authorities first. Clients trust both from the start.
    """

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


class CertificateExpire(CertificateFault):
    """Let the certificate of a broker's listener for clients expire; healed by a valid one.

    Connections live on, and clients that connect refuse the broker. Brokers still trust each other: Kafka refuses to
    load a certificate for a listener between nodes that it would not accept itself.
    """

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
