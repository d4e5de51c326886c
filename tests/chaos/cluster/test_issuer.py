"""The issuer of tokens, as a process of a run: its tokens, its keys, and what it refuses."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest

from chaos.cluster.secured import credentials, issuer
from chaos.errors import ClusterError
from chaos.kafka import tokens
from chaos.kafka.security import Access, ClusterSecurity, Security
from chaos.processes.process import ProcessId
from chaos.run.directory import Run

SPEC = ClusterSecurity(protocol="SASL_SSL", mechanism="OAUTHBEARER", token_lifetime=60.0)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run.create(tmp_path, "tokens")
    yield made
    issuer.stop(made)


def clients_of(run: Run, spec: ClusterSecurity = SPEC) -> Security:
    home = run.brokers / "1"
    home.mkdir(parents=True)
    return credentials.make(run, issuer.with_endpoint(spec), {1: home}, ["localhost"]).clients


def test_a_token_is_signed_by_the_key_that_brokers_get(run: Run) -> None:
    clients = clients_of(run)
    access = Access.of(clients)
    assert access is not None and clients.username == "client"
    issuer.start(run, credentials.folder(run), clients, ProcessId.current())
    token = tokens.fetch(str(clients.token_endpoint), "client", access.password)
    base = str(clients.token_endpoint).removesuffix("/token")
    with urllib.request.urlopen(f"{base}/jwks", timeout=10) as answer:
        (key,) = json.load(answer)["keys"]
    claims = jwt.decode(token, jwt.PyJWK(key).key, ["RS256"], audience="kafka", issuer=base)
    assert claims["sub"] == "client" and claims["exp"] - claims["iat"] == 60
    assert "d" not in key, "a private key"
    again = tokens.fetch(str(clients.token_endpoint), "client", access.password)
    assert again != token
    other = issuer._new_key()
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(jwt.encode(claims, other, "RS256"), jwt.PyJWK(key).key, ["RS256"], audience="kafka")
    logs = "".join(path.read_text() for path in run.logs.iterdir())
    assert access.password not in logs and token not in logs


def test_a_wrong_secret_gets_no_token_and_a_stopped_issuer_answers_nobody(run: Run) -> None:
    clients = clients_of(run)
    endpoint, access = str(clients.token_endpoint), Access.of(clients)
    assert access is not None
    issuer.start(run, credentials.folder(run), clients, ProcessId.current())
    for client, secret in (("client", "wrong"), ("another", access.password)):
        with pytest.raises(PermissionError, match=f"refuses the client {client}: 401"):
            tokens.fetch(endpoint, client, secret)
    basic = base64.b64encode(f"client:{access.password}".encode()).decode()
    for body in (b"", b"grant_type=password"):
        request = urllib.request.Request(endpoint, body, {"Authorization": f"Basic {basic}"})
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=10)
    assert issuer.stop(run) == 1 and issuer.stop(run) == 0
    with pytest.raises(OSError, match=r"refused|reset"):
        tokens.fetch(endpoint, "client", access.password)
    issuer.start(run, credentials.folder(run), clients, ProcessId.current())
    assert tokens.fetch(endpoint, "client", access.password)


def test_an_issuer_that_does_not_start_is_an_error(run: Run) -> None:
    clients = clients_of(run)
    (credentials.folder(run) / "issuer.key").unlink()
    with pytest.raises(ClusterError, match=r"the issuer of tokens did not start; see .*issuer.log"):
        issuer.start(run, credentials.folder(run), clients, ProcessId.current())


def test_only_tokens_need_an_issuer(tmp_path: Path) -> None:
    plain = ClusterSecurity(protocol="SASL_SSL", mechanism="PLAIN")
    assert issuer.with_endpoint(plain) is plain
    run = Run.create(tmp_path, "plain")
    clients = clients_of(run, plain)
    assert clients.token_endpoint is None and not (credentials.folder(run) / "issuer.key").exists()
    assert issuer.java_flags(clients) == ()
