"""The users of a secured cluster that its brokers keep in their metadata: SCRAM credentials."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.cluster.secured.credentials import Secured
from chaos.errors import ClusterError
from chaos.kafka import users
from chaos.kafka.client import Kafka
from chaos.kafka.connection import login_works
from chaos.kafka.security import Access
from chaos.wait import wait_until

TIMEOUT_S = 30.0
_ANSWER_S = 5.0


def create(secured: Secured, bootstrap: str, brokers: Iterable[tuple[str, int]]) -> None:
    """Create the credentials of the clients, if brokers keep them, and wait until every broker takes them.

    Raises `ClusterError`.
    """
    access = Access.of(secured.clients)
    mechanism = secured.spec.mechanism or ""
    if access is None or not mechanism.startswith("SCRAM"):
        return
    kafka = Kafka(bootstrap, access=Access.of(secured.platform))
    try:
        users.set_password(kafka, str(secured.clients.username), mechanism, access.password)
    finally:
        kafka.close()
    missing = [*brokers]

    def accepted() -> bool:
        missing[:] = [at for at in missing if not login_works(*at, _ANSWER_S, access)]
        return not missing

    def refused() -> str:
        host, port = missing[0]
        return f"{host}:{port} does not take the {mechanism} credentials of the clients; see the logs of the brokers"

    wait_until(accepted, TIMEOUT_S, refused, every_s=0.05, error=ClusterError)
