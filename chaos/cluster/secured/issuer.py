"""The issuer of tokens for one cluster, a process of its run: OAuth 2.0 client credentials, and their keys.

`python -m chaos.cluster.secured.issuer FOLDER PORT` answers `/token` and `/jwks`. A token is a JWT, signed with the key
of the issuer. Brokers ask for the public key, and clients for tokens. The key and the secret of the client are files in
the folder. No request is logged.
"""

from __future__ import annotations

import base64
import hmac
import json
import sys
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from chaos.cluster.secured.certificates import write_secret
from chaos.cluster.secured.settings import AUDIENCE, CLIENT, ISSUER_KEY, TOKEN_LIFETIME, issuer_url, keys_url
from chaos.errors import ClusterError
from chaos.kafka.security import OAUTHBEARER, ClusterSecurity, Security, SecurityFields
from chaos.processes import process
from chaos.processes.ports import HOST, free_ports, is_free
from chaos.processes.process import ProcessId, find_marked, spawn
from chaos.run.directory import Run
from chaos.wait import wait_until

SCOPE, ALGORITHM, KEY_ID = "kafka", "RS256", "1"
_LONGEST_REQUEST = 4096


class Issuer:
    """The answers of an issuer. Its only client is `CLIENT`; its secret is in `<client>.password` in the folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self._key, self._url = _key_in(folder), url
        self._secret = (folder / f"{CLIENT}.password").read_bytes().decode()
        self._lifetime_s = int((folder / TOKEN_LIFETIME).read_text(encoding="ascii"))

    def keys(self) -> dict[str, Any]:
        """Return the set of public keys (JWKS)."""
        return _public(self._key)

    def token(self, authorization: str, body: str) -> dict[str, Any] | None:
        """Return the answer to a request for a token; None if the client is unknown.

        authorization: the header of HTTP Basic authentication.
        """
        if parse_qs(body).get("grant_type") != ["client_credentials"] or not self._known(authorization):
            return None
        now = int(time.time())
        claims = {
            **{"iss": self._url, "sub": CLIENT, "aud": AUDIENCE, "scope": SCOPE},
            **{"iat": now, "exp": now + self._lifetime_s, "jti": str(uuid.uuid4())},
        }
        import jwt  # on use: only tokens need it

        signed = jwt.encode(claims, self._key, ALGORITHM, {"kid": KEY_ID})
        return {"access_token": signed, "token_type": "Bearer", "expires_in": self._lifetime_s, "scope": SCOPE}

    def _known(self, authorization: str) -> bool:
        expected = base64.b64encode(f"{CLIENT}:{self._secret}".encode()).decode()
        return hmac.compare_digest(authorization.encode(), f"Basic {expected}".encode())


def _key_in(folder: Path) -> rsa.RSAPrivateKey:
    loaded = serialization.load_pem_private_key((folder / ISSUER_KEY).read_bytes(), None)
    assert isinstance(loaded, rsa.RSAPrivateKey)
    return loaded


def _public(key: rsa.RSAPrivateKey) -> dict[str, Any]:
    from jwt.algorithms import RSAAlgorithm

    public: dict[str, Any] = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {"keys": [{**public, "kid": KEY_ID, "alg": ALGORITHM, "use": "sig"}]}


def serve(folder: Path, port: int) -> None:
    """Answer requests until the process ends."""
    issuer = Issuer(folder, f"http://{HOST}:{port}")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(200, issuer.keys()) if self.path == "/jwks" else self._answer(404, {"error": "not_found"})

        def do_POST(self) -> None:
            size = min(int(self.headers.get("Content-Length") or 0), _LONGEST_REQUEST)
            body = self.rfile.read(size).decode("ascii", "replace")
            made = issuer.token(self.headers.get("Authorization") or "", body) if self.path == "/token" else None
            self._answer(200, made) if made else self._answer(401, {"error": "invalid_client"})

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    ThreadingHTTPServer((HOST, port), Handler).serve_forever()


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
    """Write what the issuer needs in addition to the secret of the client; nothing without tokens."""
    if security.mechanism == OAUTHBEARER:
        lifetime_s = LIFETIME_S if security.token_lifetime is None else security.token_lifetime
        write_secret(folder / ISSUER_KEY, _new_key())
        write_secret(folder / TOKEN_LIFETIME, str(round(lifetime_s)).encode())


def token_keys(folder: Path, security: ClusterSecurity) -> bytes:
    """Return the public keys of the issuer (JWKS), as JSON; nothing without tokens."""
    if security.mechanism != OAUTHBEARER:
        return b""
    return json.dumps(_public(_key_in(folder))).encode()


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


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
