"""The issuer of a cluster as a process of its run: its files, its start and its end."""

from __future__ import annotations

import sys
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from chaos.cluster.secured.certificates import write_secret
from chaos.cluster.secured.settings import ISSUER_KEY, TOKEN_LIFETIME, issuer_url, keys_url
from chaos.errors import ClusterError
from chaos.kafka.security import OAUTHBEARER, ClusterSecurity, Security, SecurityFields
from chaos.processes import process
from chaos.processes.ports import HOST, free_ports, is_free
from chaos.processes.process import ProcessId, spawn
from chaos.processes.process_table import find_marked
from chaos.run.directory import Run
from chaos.wait import wait_until

ROLE = "issuer"
READY_S = 30.0
_MODULE = "chaos.cluster.secured.issuer"
_KEY_BITS = 2048
LIFETIME_S = 300.0
"""How long a token is valid if the scenario does not say it."""


def with_endpoint(security: ClusterSecurity) -> ClusterSecurity:
    """Return the security with the address of a new issuer; unchanged without tokens."""
    if security.mechanism != OAUTHBEARER:
        return security
    (port,) = free_ports(1)
    return security.model_copy(update={"token_endpoint": f"http://{HOST}:{port}/token"})


def write_files(folder: Path, security: ClusterSecurity) -> None:
    """Write what the issuer needs beside the secret of the client; nothing without tokens."""
    if security.mechanism == OAUTHBEARER:
        lifetime_s = LIFETIME_S if security.token_lifetime is None else security.token_lifetime
        write_secret(folder / ISSUER_KEY, _new_key())
        write_secret(folder / TOKEN_LIFETIME, str(round(lifetime_s)).encode())


def token_keys(folder: Path, security: ClusterSecurity) -> bytes:
    """Return the public keys of the issuer (JWKS), as JSON; nothing without tokens."""
    if security.mechanism != OAUTHBEARER:
        return b""
    from chaos.cluster.secured.issuer import public_keys  # with a library that only tokens need

    return public_keys(folder)


def start(run: Run, folder: Path, clients: Security, owner: ProcessId | None) -> None:
    """Start the issuer, and wait until it answers. Raises `ClusterError`."""
    port = port_of(clients)
    log = run.logs / f"{ROLE}.log"
    argv = [sys.executable, "-m", _MODULE, str(folder), str(port)]
    spawned = spawn(argv, run=run, role=ROLE, owner=owner, log=log)

    def answers() -> bool:
        if spawned.popen.poll() is not None:
            raise ClusterError(f"the issuer of tokens did not start; see {log}")
        return not is_free(port)

    wait_until(answers, READY_S, f"the issuer of tokens is not ready; see {log}", every_s=0.02, error=ClusterError)


def stop(run: Run) -> int:
    """Kill the issuer of a run; return how many processes ended."""
    found = [p for p in find_marked() if p.run_dir == run.path and p.role == ROLE]
    return sum(process.kill(p.identity) for p in found)


def port_of(clients: Security) -> int:
    """Return the port of the issuer."""
    return int(issuer_url(clients).rpartition(":")[2])


def java_flags(clients: SecurityFields | None, *more: str) -> tuple[str, ...]:
    """Return the options that let a JVM ask the issuer, which releases from 4.0 on demand; none without tokens.

    more: other addresses that the JVM may read.
    """
    if clients is None or clients.mechanism != OAUTHBEARER:
        return ()
    urls = ",".join([str(clients.token_endpoint), keys_url(clients), *more])
    return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}",)


def _new_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    none = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, none)
