"""Values of Airflow connections: the cluster of a Kafka connection, and the master of a Spark connection.

A Kafka connection holds librdkafka settings as JSON. Secrets move from the connection into the environment of this
process; everything else receives only the names of the variables. Airflow is imported on use, so that tests need none.
"""

from __future__ import annotations

import json
import os
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


def existing_cluster(conn_id: str | None) -> list[str]:
    """Return the cluster of a Kafka connection as overrides; put its secrets into the environment of this process."""
    if not conn_id:
        return []
    from airflow.sdk import Connection

    return overrides(conn_id, Connection.get(conn_id).extra_dejson, os.environ)


def overrides(conn_id: str, extra: Mapping[str, Any], env: MutableMapping[str, str]) -> list[str]:
    """Return the cluster of a connection as `path=value` overrides of a scenario, and put its secrets into `env`.

    Settings that do not affect the connection, such as a group ID, are ignored. Raises `UsageError` for unsupported
    security settings.
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
    cluster = {"driver": "attached", "bootstrap": extra["bootstrap.servers"], "security": security}
    return [f"cluster.{key}={json.dumps(value)}" for key, value in cluster.items()]


def spark_master(conn_id: str) -> str | None:
    """Return the Spark master of a connection; None, which means local[*], if the connection does not exist."""
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    from checks.spark.master import from_connection

    try:
        connection = Connection.get(conn_id)
    except AirflowNotFoundException:
        return None
    return from_connection(connection.host, connection.port)
