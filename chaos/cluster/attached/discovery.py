"""The discovery of an existing cluster: its brokers, the access to them, and the requirements of the scenario.

A problem that the user can solve in the scenario (a password, an authority, a protocol) raises `UsageError`. A cluster
that does not answer raises `ClusterError`. Both messages are one line.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from difflib import get_close_matches

from chaos.cluster.settings import Existing
from chaos.errors import ClusterError, UsageError
from chaos.kafka import messages
from chaos.kafka.brokers import addresses
from chaos.kafka.cleanup import list_groups
from chaos.kafka.client import Kafka
from chaos.kafka.connection import BrokerConnection
from chaos.kafka.metadata import Metadata
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access, AccessRefused

ANSWER_S = 15.0
"""The timeout for an answer of the cluster."""
SHOWN = 3
"""Number of names in a message."""


def discover(existing: Existing, access: Access | None) -> Metadata:
    """Return the brokers and topics of a cluster, after the check that it meets the requirements of the run."""
    metadata = _ask(existing.bootstrap, access)
    _check(existing, metadata)
    _connect_to_all(metadata, access)
    for partition in sorted(existing.partitions):
        check_partition(partition, metadata)
    if existing.groups:
        with closing(Kafka(existing.bootstrap, ANSWER_S, access)) as kafka:
            check_groups(kafka, existing.groups)
    return metadata


def reach(bootstrap: str, access: Access | None) -> Metadata:
    """Return the brokers and topics of a cluster, after a connection to each of its brokers."""
    metadata = _ask(bootstrap, access)
    _connect_to_all(metadata, access)
    return metadata


def check_partition(partition: TopicPartition, metadata: Metadata) -> None:
    """Raise `UsageError` if the cluster does not have a partition, with the nearest names of topics."""
    numbers = [p.number for p in metadata.partitions if p.topic == partition.topic]
    if not numbers:
        raise no_topic(partition.topic, metadata)
    if partition.number not in numbers:
        raise UsageError(f"{partition.topic} has partitions 0 to {max(numbers)}, not {partition.number}")


def no_topic(name: str, metadata: Metadata) -> UsageError:
    """Return the error for a topic that the cluster does not have, with the nearest names."""
    names = sorted({p.topic for p in metadata.partitions if not p.topic.startswith("__")})
    return UsageError(f"the cluster has no topic {name!r}{_nearest(name, names, 'topics')}")


def check_groups(kafka: Kafka, groups: Collection[str]) -> None:
    """Raise `UsageError` if the cluster lacks one of the groups, with the nearest ids."""
    found = list_groups(kafka, lambda group: True)
    if found is None:
        raise ClusterError("the cluster does not list its groups, so it is not known whether those of faults exist")
    if missing := sorted(set(groups).difference(found)):
        raise UsageError(f"the cluster has no group {missing[0]!r}{_nearest(missing[0], found, 'groups')}")


def _nearest(name: str, names: Sequence[str], kind: str) -> str:
    near = get_close_matches(name, names, SHOWN, 0.6)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"; its {kind} are {', '.join(names[:SHOWN])}{more}" if names else f"; it has no {kind}"


def _ask(bootstrap: str, access: Access | None) -> Metadata:
    if access:
        access.check()
    _connect_to_any(bootstrap, access)
    kafka = Kafka(bootstrap, ANSWER_S, access)
    try:
        metadata = kafka.metadata()
    finally:
        kafka.close()
    if metadata is None:
        raise ClusterError(f"{bootstrap} accepts connections, but sends no metadata within {ANSWER_S:g} s")
    return metadata


def _connect_to_all(metadata: Metadata, access: Access | None) -> None:
    for broker, address in metadata.brokers.items():
        _connect(*address, access, ANSWER_S, f"broker {broker} is advertised at {address[0]}:{address[1]}, and ")


def _connect_to_any(bootstrap: str, access: Access | None) -> None:
    """Return when one of the bootstrap servers accepts a connection."""
    problems = []
    servers = addresses(bootstrap)
    for host, port in servers:
        try:
            _connect(host, port, access, ANSWER_S / len(servers))
            return
        except ClusterError as e:
            problems.append(str(e))
    raise ClusterError("; ".join(problems))


def _connect(host: str, port: int, access: Access | None, timeout_s: float, before: str = "") -> None:
    """Connect, log in and send one request. Raises an error that the user can act on."""
    server, began = f"{host}:{port}", time.monotonic()
    link = BrokerConnection(host, port, access)
    try:
        link.ask(messages.versions(), timeout_s)
    except AccessRefused as e:
        raise UsageError(f"{before}{e}; see cluster.security") from None
    except ssl.SSLCertVerificationError as e:
        hint = "cluster.security.ca names the authorities to trust"
        raise UsageError(f"{before}the certificate of {server} is not trusted: {e.verify_message}; {hint}") from None
    except ssl.SSLError as e:
        why = (e.reason or str(e)).replace("_", " ").lower()
        hint = "does that port use TLS, and does it require a client certificate?"
        raise UsageError(f"{before}the TLS handshake with {server} failed: {why}; {hint}") from None
    except TimeoutError:
        waited = time.monotonic() - began
        raise ClusterError(f"{before}{server} did not answer in {waited:.0f} s{_protocol_hint(access)}") from None
    except socket.gaierror as e:
        raise ClusterError(f"{before}{host} cannot be resolved: {e.strerror}") from None
    except ConnectionRefusedError:
        raise ClusterError(f"{before}nothing listens at {server}") from None
    except (ConnectionError, BrokenPipeError) as e:
        reason = e.strerror or e
        raise ClusterError(f"{before}{server} closed the connection: {reason}{_protocol_hint(access)}") from None
    except OSError as e:
        raise ClusterError(f"{before}{server} cannot be reached: {e.strerror or e}") from None
    finally:
        link.close()


def _protocol_hint(access: Access | None) -> str:
    protocol = access.security.protocol if access else "PLAINTEXT"
    return f"; is that port one for {protocol} (cluster.security.protocol)?"


def _check(existing: Existing, metadata: Metadata) -> None:
    """Raise `UsageError` if the cluster lacks what the scenario needs, or already has topics with its prefix."""
    brokers = metadata.brokers
    if len(brokers) < existing.replicas:
        raise UsageError(
            f"the cluster at {existing.bootstrap} has {len(brokers)} brokers, and the scenario's topics "
            f"have {existing.replicas} replicas"
        )
    if unknown := existing.brokers - brokers.keys():
        has = ", ".join(map(str, brokers))
        raise UsageError(f"the cluster has no broker {', '.join(map(str, sorted(unknown)))}; it has {has}")
    if existing.prefix and (foreign := [p for p in metadata.partitions if p.topic.startswith(existing.prefix)]):
        raise UsageError(f"the cluster has {foreign[0]} already, which this run did not make; nothing was touched")
