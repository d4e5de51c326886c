"""The settings that lift a limit of a promise: as changes of an application, and the ones that mend a break."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.errors import UsageError
from chaos.kafka.settings import Scalar
from chaos.promise.client_settings import ClientPart
from chaos.promise.inputs import Parts
from chaos.promise.names import LABELS, common_name
from chaos.promise.settings import Setting, setting

ORIGIN = "the setting that mends it"


def describe(lifts: Mapping[str, Scalar]) -> str:
    """Return lifts as text, such as `producer acks=all, topic min.insync.replicas=2`."""
    parts = []
    for fact, value in lifts.items():
        part, _, name = fact.partition(".")
        parts.append(f"{part} {name}={setting(name, value, '').value}")
    return ", ".join(parts)


def lift(parts: Parts, fact: str, value: Scalar) -> None:
    """Give a fact of an application another value. Raises `UsageError` if its client has another name for it."""
    part, _, name = fact.partition(".")
    changed = setting(name, value, ORIGIN)
    if part == "topic" and parts.topic is not None:
        if name == "replication.factor":
            parts.topic.replicas = changed
        else:
            parts.topic.settings[name] = changed
    elif part == "cluster" and parts.cluster is not None:
        parts.cluster.settings[name] = changed
        parts.cluster.internal.pop(name, None)
    elif name == "commit" and parts.consumer is not None:
        _commit(parts.consumer, changed)
    else:
        client = parts.producer if part == "producer" else parts.consumer
        if client is None:
            raise UsageError(f"the application has no {part}")
        _client_setting(client, name, changed)


def _client_setting(client: ClientPart, name: str, changed: Setting) -> None:
    if client.client.runtime not in ("java", "confluent"):
        raise UsageError(f"{LABELS[client.client.runtime]} has another name for {name}")
    others = [own for own, s in client.settings.items() if common_name(client.client.runtime, own, s.value)[0] == name]
    for own in others:
        del client.settings[own]
    client.settings[name] = changed


def _commit(client: ClientPart, changed: Setting) -> None:
    """Make a consumer commit by itself at that time, and not its library."""
    client.commit = changed
    _client_setting(client, "enable.auto.commit", setting("enable.auto.commit", False, ORIGIN))
