"""An issuer of tokens for one cluster, as a process on this machine: OAuth 2.0 client credentials, and its keys.

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

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from chaos.cluster.secured.settings import AUDIENCE, CLIENT, ISSUER_KEY, TOKEN_LIFETIME
from chaos.processes.ports import HOST

SCOPE, ALGORITHM, KEY_ID = "kafka", "RS256", "1"
_LONGEST_REQUEST = 4096


class Issuer:
    """The answers of an issuer. client: the only client; its secret is in `<client>.password` in the folder."""

    def __init__(self, folder: Path, url: str, client: str = CLIENT) -> None:
        self._key, self._url, self._client = _key_in(folder), url, client
        self._secret = (folder / f"{client}.password").read_bytes().decode()
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
            **{"iss": self._url, "sub": self._client, "aud": AUDIENCE, "scope": SCOPE},
            **{"iat": now, "exp": now + self._lifetime_s, "jti": str(uuid.uuid4())},
        }
        signed = jwt.encode(claims, self._key, ALGORITHM, {"kid": KEY_ID})
        return {"access_token": signed, "token_type": "Bearer", "expires_in": self._lifetime_s, "scope": SCOPE}

    def _known(self, authorization: str) -> bool:
        expected = base64.b64encode(f"{self._client}:{self._secret}".encode()).decode()
        return hmac.compare_digest(authorization.encode(), f"Basic {expected}".encode())


def public_keys(folder: Path) -> bytes:
    """Return the set of public keys (JWKS) for the key in a folder, as JSON."""
    return json.dumps(_public(_key_in(folder))).encode()


def _key_in(folder: Path) -> rsa.RSAPrivateKey:
    loaded = serialization.load_pem_private_key((folder / ISSUER_KEY).read_bytes(), None)
    assert isinstance(loaded, rsa.RSAPrivateKey)
    return loaded


def _public(key: rsa.RSAPrivateKey) -> dict[str, Any]:
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


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
