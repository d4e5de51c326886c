"""New certificates for the brokers of a running cluster, and the settings with which a broker loads them.

A broker reads a key store or trust store again when the setting that names it is altered, even to the same path. It
refuses a key store for a listener between nodes that its own trust store does not accept; it does not look at the key
store of the clients' listener. So a certificate that has expired is possible there only.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from chaos.cluster.brokers import startup
from chaos.cluster.secured.certificates import VALID, Authority, hosts_of, write_secret
from chaos.cluster.secured.credentials import authorities, write_store
from chaos.cluster.secured.settings import CA, CLIENT_STORE, LISTENER, STORE
from chaos.cluster.state import ClusterState
from chaos.run.directory import Run

_BETWEEN_NODES = "listener.name.peers"
_OF_CONTROLLER = "listener.name.controller"


def listeners(state: ClusterState) -> list[str]:
    """Return the prefixes of the settings of a broker's listeners."""
    return [LISTENER, _BETWEEN_NODES, *([] if state.controllers else [_OF_CONTROLLER])]


def ports(state: ClusterState, broker: int) -> list[int]:
    """Return the ports of a broker on its host at which listeners present a certificate, the clients' one first."""
    node = state.node(broker)
    others = [*node.behind, *([node.controller_port] if node.controller_port else [])]
    return [*dict.fromkeys([node.port, *others])]


def other_authority(run: Run, issuer: str) -> Authority:
    """Return the authority of a cluster that did not issue a certificate with this issuer."""
    first, following = authorities(run)
    return following if issuer == first.name else first


def authority_named(run: Run, issuer: str) -> Authority:
    """Return the authority of a cluster with this name; the first one if there is none."""
    first, following = authorities(run)
    return following if issuer == following.name else first


def trust_both(run: Run, state: ClusterState, broker: int) -> dict[str, str]:
    """Write both authorities to the trust store of a broker; return the settings with which it loads them."""
    first, following = authorities(run)
    write_secret(_home(run, broker) / CA, first.pem + following.pem)
    return {f"{listener}.ssl.truststore.location": CA for listener in listeners(state)}


def renew(run: Run, state: ClusterState, broker: int, authority: Authority) -> tuple[int, dict[str, str]]:
    """Write a new certificate for all listeners of a broker.

    Returns its serial number, and the settings with which the broker loads it.
    """
    store = _home(run, broker) / STORE
    serial = write_store(store, authority, hosts_of(store))
    return serial, {f"{listener}.ssl.keystore.location": STORE for listener in listeners(state)}


def renew_for_clients(
    run: Run, broker: int, authority: Authority, valid: timedelta = VALID
) -> tuple[int, dict[str, str]]:
    """Write a new certificate for the clients' listener of a broker. valid: from now on; expired if negative.

    Returns its serial number, and the settings with which the broker loads it.
    """
    home = _home(run, broker)
    serial = write_store(home / CLIENT_STORE, authority, hosts_of(home / STORE), valid)
    return serial, {f"{LISTENER}.ssl.keystore.location": CLIENT_STORE}


def _home(run: Run, broker: int) -> Path:
    return startup.home(run, broker)
