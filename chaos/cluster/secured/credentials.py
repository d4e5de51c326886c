"""The credentials of one cluster as files, and references to them for those who connect."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from chaos.cluster.secured import issuer
from chaos.cluster.secured.certificates import VALID, Authority, write_secret
from chaos.cluster.secured.settings import (
    CA,
    CLIENT,
    FOLDER,
    LOGIN,
    NODE,
    PLATFORM,
    PLATFORM_MECHANISM,
    STORE,
    TOKEN_KEYS,
    TRUSTED,
)
from chaos.kafka.security import OAUTHBEARER, ClusterSecurity, Security, jaas
from chaos.relay.roles import Encryption
from chaos.run.directory import Run

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Secured(BaseModel):
    """The ways to connect to a secured cluster. It names the places of secrets, never the secrets."""

    model_config = ConfigDict(extra="forbid")

    spec: ClusterSecurity
    platform: Security  # at the clients' listener
    clients: Security
    quorum: Security  # of the platform at the listener of dedicated controllers


def folder(run: Run) -> Path:
    """Return the folder with the credentials of the platform, the clients and the authority."""
    return run.brokers / "credentials"


def make(run: Run, security: ClusterSecurity, homes: Mapping[int, Path], hosts: Iterable[str]) -> Secured:
    """Make the credentials of a cluster, and write the credentials of each node to its working directory.

    homes: the working directories by node ID. hosts: all names and addresses of nodes. The platform and the clients
    trust the next authority from the start, as applications with updated trust stores do.
    """
    shared, authority, following = folder(run), Authority.create(), Authority.create("aftershock-next-ca")
    valid = VALID if security.certificate_lifetime is None else timedelta(seconds=security.certificate_lifetime)
    shared.mkdir(mode=0o700, parents=True)
    authority.save(shared / "ca.pem", shared / "ca.key")
    following.save(shared / "next-ca.pem", shared / "next-ca.key")
    write_secret(shared / TRUSTED, authority.pem + following.pem)
    for name in (PLATFORM, CLIENT):
        certificate, key, _ = authority.issue(name, valid=valid)
        write_secret(shared / f"{name}.pem", certificate)
        write_secret(shared / f"{name}.key", key)
        write_secret(shared / f"{name}.password", new_password().encode())
    issuer.write_files(shared, security)
    token_keys = issuer.token_keys(shared, security)
    login = f"plain={_PLAIN} required {_users(shared, security)};\n"
    names = [*hosts]
    for home in homes.values():
        (home / FOLDER).mkdir(mode=0o700)
        write_secret(home / CA, authority.pem)
        write_secret(home / LOGIN, login.encode())
        if token_keys:
            write_secret(home / TOKEN_KEYS, token_keys)
        write_store(home / STORE, authority, names, valid)
    return Secured(
        spec=security,
        platform=_way(shared, security, PLATFORM, PLATFORM_MECHANISM),
        clients=_way(shared, security, CLIENT, security.mechanism),
        quorum=_certified(shared, PLATFORM),
    )


def of_relay(run: Run, secured: Secured, name: str, hosts: Iterable[str]) -> Encryption:
    """Make the certificate of a relay that ends the TLS of clients; return its files.

    run: the run with the cluster. name: of this relay alone. hosts: names by which clients reach the relay.
    """
    store, clients = folder(run) / f"relay-{name}.pem", secured.clients
    write_store(store, authorities(run)[0], hosts)
    return Encryption(str(store), str(clients.ca), clients.certificate or "", clients.key or "")


def before_existing(
    folder: Path, security: Security, authority: Authority, hosts: Iterable[str], valid: timedelta = VALID
) -> Encryption:
    """Make the certificate of a relay that ends the TLS of clients of an existing cluster; return its files.

    A certificate of a client cannot pass the relay, so the relay asks for none, and presents the one of the settings.
    folder: of the certificate. hosts: names by which clients reach the relay.
    """
    store = folder / "relay.pem"
    write_store(store, authority, hosts, valid)
    return Encryption(
        str(store),
        security.ca or "",
        security.certificate or "",
        security.key or "",
        security.key_password or "",
        asked=False,
        verify_hostname=security.verify_hostname,
    )


def authorities(run: Run) -> tuple[Authority, Authority]:
    """Return the authority that issued the first certificates of a cluster, and the next one."""
    shared = folder(run)
    first, following = ((shared / f"{name}.pem", shared / f"{name}.key") for name in ("ca", "next-ca"))
    return Authority.load(*first), Authority.load(*following)


def write_store(path: Path, authority: Authority, hosts: Iterable[str], valid: timedelta = VALID) -> int:
    """Write a new key and certificate of a node; return the serial number of the certificate.

    valid: from now on, as in `Authority.issue`.
    """
    certificate, key, serial = authority.issue(NODE, hosts, valid)
    write_secret(path, key + certificate)
    return serial


def new_password() -> str:
    """Return a random password with the characters that programs get wrong, so that each secured run tries them."""
    return f"{secrets.token_urlsafe(12)}\n$1'\"\\ \u00e9\u20ac;,={secrets.token_urlsafe(12)}"


def _users(shared: Path, security: ClusterSecurity) -> str:
    """Return the users of PLAIN with their passwords, in the format of JAAS inside a properties file."""
    names = [PLATFORM, CLIENT] if security.mechanism == "PLAIN" else [PLATFORM]
    quoted = {name: jaas((shared / f"{name}.password").read_bytes().decode()) for name in names}
    # a properties file halves the backslashes
    return " ".join(f'user_{name}="{password}"' for name, password in quoted.items()).replace("\\", "\\\\")


def _way(shared: Path, security: ClusterSecurity, name: str, mechanism: str | None) -> Security:
    if security.client_certificates:
        return _certified(shared, name)
    fields: dict[str, object] = {"protocol": security.protocol}
    if security.tls:
        fields["ca"] = str(shared / TRUSTED)
    if security.sasl:
        if mechanism == OAUTHBEARER:
            fields["token_endpoint"] = security.token_endpoint
        fields |= {"mechanism": mechanism, "username": name, "password": f"file:{shared / f'{name}.password'}"}
    return Security.model_validate(fields)


def _certified(shared: Path, name: str) -> Security:
    certificate, key = str(shared / f"{name}.pem"), str(shared / f"{name}.key")
    return Security(protocol="SSL", ca=str(shared / TRUSTED), certificate=certificate, key=key)
