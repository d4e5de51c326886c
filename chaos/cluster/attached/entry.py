"""Finding a cluster that exists: who are its brokers, do they let us in, has it what the scenario needs?

What is refused for a reason that the user can put right in the scenario (a password, an authority, a protocol) raises
`UsageError`; a cluster that does not answer raises `ClusterError`. Both are one line.
"""

from __future__ import annotations

import socket
import ssl
import time

from chaos.cluster.settings import Existing
from chaos.errors import ClusterError, UsageError
from chaos.kafka.access import Access, AccessRefused
from chaos.kafka.client import Kafka, addresses
from chaos.kafka.connection import Link, ask_versions
from chaos.kafka.metadata_merge import Metadata

ANSWER_S = 15.0
"""The longest that a cluster may take to answer."""


def find(existing: Existing, access: Access | None) -> Metadata:
    """The brokers and topics of a cluster that has what the run needs."""
    if access:
        access.check()
    _knock(existing.bootstrap, access)
    kafka = Kafka(existing.bootstrap, ANSWER_S, access)
    try:
        metadata = kafka.metadata()
    finally:
        kafka.close()
    if metadata is None:
        raise ClusterError(f"{existing.bootstrap} lets us in, but does not say in {ANSWER_S:g} s who the brokers are")
    _check(existing, metadata)
    for broker, address in metadata.brokers.items():
        _knock_at(*address, access, ANSWER_S, f"broker {broker} is advertised at {address[0]}:{address[1]}, and ")
    return metadata


def _knock(bootstrap: str, access: Access | None) -> None:
    """Return when one of the bootstrap servers lets us in."""
    problems = []
    places = addresses(bootstrap)
    for host, port in places:
        try:
            _knock_at(host, port, access, ANSWER_S / len(places))
            return
        except ClusterError as e:
            problems.append(str(e))
    raise ClusterError("; ".join(problems))


def _knock_at(host: str, port: int, access: Access | None, timeout_s: float, before: str = "") -> None:
    """Connect, log in and ask one question; raises what a user can act on."""
    place, began = f"{host}:{port}", time.monotonic()
    link = Link(host, port, access)
    try:
        link.ask(ask_versions(), timeout_s)
    except AccessRefused as e:
        raise UsageError(f"{before}{e}; see cluster.security") from None
    except ssl.SSLCertVerificationError as e:
        hint = "cluster.security.ca names the authorities to trust"
        raise UsageError(f"{before}the certificate of {place} is not trusted: {e.verify_message}; {hint}") from None
    except ssl.SSLError as e:
        why = (e.reason or str(e)).replace("_", " ").lower()
        hint = "does that port speak TLS, and is a client certificate asked for?"
        raise UsageError(f"{before}the TLS handshake with {place} failed: {why}; {hint}") from None
    except TimeoutError:
        waited = time.monotonic() - began
        raise ClusterError(f"{before}{place} did not answer in {waited:.0f} s{_speaks(access)}") from None
    except socket.gaierror as e:
        raise ClusterError(f"{before}{host} is not known here: {e.strerror}") from None
    except ConnectionRefusedError:
        raise ClusterError(f"{before}nothing listens at {place}") from None
    except (ConnectionError, BrokenPipeError) as e:
        raise ClusterError(f"{before}{place} closed the connection: {e.strerror or e}{_speaks(access)}") from None
    except OSError as e:
        raise ClusterError(f"{before}{place} cannot be reached: {e.strerror or e}") from None
    finally:
        link.close()


def _speaks(access: Access | None) -> str:
    protocol = access.security.protocol if access else "PLAINTEXT"
    return f"; is that port one for {protocol} (cluster.security.protocol)?"


def _check(existing: Existing, metadata: Metadata) -> None:
    """Raise `UsageError` where the cluster has not what the scenario needs, or has what is not ours."""
    brokers = metadata.brokers
    if len(brokers) < existing.replicas:
        raise UsageError(
            f"the cluster at {existing.bootstrap} has {len(brokers)} brokers, and the scenario's topics "
            f"have {existing.replicas} replicas"
        )
    if unknown := existing.brokers - brokers.keys():
        has = ", ".join(map(str, brokers))
        raise UsageError(f"the cluster has no broker {', '.join(map(str, sorted(unknown)))}; it has {has}")
    if strange := [p for p in metadata.partitions if p.topic.startswith(existing.prefix)]:
        raise UsageError(f"the cluster has {strange[0]} already, which this run did not make; nothing was touched")
