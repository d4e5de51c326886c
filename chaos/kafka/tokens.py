"""Tokens for logins with OAUTHBEARER: OAuth 2.0 client credentials, asked of an issuer."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request

from kafka.net.sasl.oauth import AbstractTokenProvider

TIMEOUT_S = 10.0


def fetch(endpoint: str, client: str, secret: str, timeout_s: float = TIMEOUT_S) -> str:
    """Return a new token. Raises `OSError` if the issuer does not answer, or refuses the client."""
    basic = base64.b64encode(f"{client}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"}
    request = urllib.request.Request(endpoint, b"grant_type=client_credentials", headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return str(json.load(answer)["access_token"])
    except urllib.error.HTTPError as e:
        raise PermissionError(f"{endpoint} refuses the client {client}: {e.code} {e.reason}") from None
    except (ValueError, KeyError):
        raise ConnectionError(f"the answer of {endpoint} has no token") from None


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """The tokens of one client, a new one for each login."""

    def __init__(self, endpoint: str, client: str, secret: str) -> None:
        self._asked = endpoint, client, secret

    def token(self) -> str:
        """Return a new token. Raises `OSError`."""
        return fetch(*self._asked)
