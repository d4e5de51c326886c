"""A cluster as Airflow's connections tell of it: those of the Kafka provider, which hold librdkafka's settings as JSON.

Secrets go from there into the environment of the process that asks, and from there on only the names of the variables
are passed on. Pure, so that it is tested without Airflow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from typing import Any

from chaos.errors import UsageError

PASSWORD, KEY_PASSWORD = "AFTERSHOCK_KAFKA_PASSWORD", "AFTERSHOCK_KAFKA_KEY_PASSWORD"

_SETTINGS = {
    "security.protocol": "protocol",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "username",
    "ssl.ca.location": "ca",
    "ssl.certificate.location": "certificate",
    "ssl.key.location": "key",
}
_SECRETS = {"sasl.password": ("password", PASSWORD), "ssl.key.password": ("key_password", KEY_PASSWORD)}
_HOSTNAME = "ssl.endpoint.identification.algorithm"


def overrides(conn_id: str, extra: Mapping[str, Any], env: MutableMapping[str, str]) -> list[str]:
    """The connection's cluster as `path=value` overrides of a scenario; its secrets are put into `env`.

    Settings that have nothing to do with how a cluster is reached, such as a group id, are left alone. Raises
    `UsageError` for those that have, and that are not known here.
    """
    if not extra.get("bootstrap.servers"):
        raise UsageError(f"the Airflow connection {conn_id} has no bootstrap.servers in its extra field")
    security: dict[str, Any] = {}
    for key, value in extra.items():
        if key in _SETTINGS:
            name = _SETTINGS[key]
            security[name] = str(value).upper() if name in ("protocol", "mechanism") else value
        elif key in _SECRETS:
            name, variable = _SECRETS[key]
            env[variable] = str(value)
            security[name] = f"env:{variable}"
        elif key == _HOSTNAME:
            security["verify_hostname"] = value != "none"
        elif key.startswith(("security.", "sasl.", "ssl.", "enable.ssl.")):
            known = ", ".join(sorted([*_SETTINGS, *_SECRETS, _HOSTNAME]))
            raise UsageError(f"the Airflow connection {conn_id} has {key}, which is not supported; known are {known}")
    given = {"driver": "attached", "bootstrap": extra["bootstrap.servers"], "security": security}
    return [f"cluster.{key}={json.dumps(value)}" for key, value in given.items()]
