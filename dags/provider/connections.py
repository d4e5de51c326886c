"""Values of Airflow connections: an existing cluster, and the master of a Spark connection.

A cluster is a connection of the type `kafka` (of the Kafka provider), with librdkafka settings as JSON in its extra
field, or of the type `aftershock`: the bootstrap servers as host, user and password as such, and other settings in the
extra field. Secrets move from the connection into the environment of this process; everything else receives only the
names of the variables. Airflow is imported on use, so that tests need none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from typing import Any

from chaos.errors import UsageError

TYPE = "aftershock"
"""The type of connection that this provider adds."""
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
    """Return the cluster of a connection as overrides; put its secrets into the environment of this process.

    Raises `UsageError` if the connection does not exist, or is not of a cluster.
    """
    if not conn_id:
        return []
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        connection = Connection.get(conn_id)
    except AirflowNotFoundException:
        raise UsageError(f"there is no Airflow connection {conn_id!r}") from None
    return overrides(conn_id, settings(connection), os.environ)


def settings(connection: Any) -> dict[str, Any]:
    """Return the librdkafka settings of a connection: its extra field, and the fields of the type `aftershock`."""
    found = dict(connection.extra_dejson)
    if connection.conn_type == TYPE:
        port = f":{connection.port}" if connection.port else ""
        fields = {
            "bootstrap.servers": f"{connection.host}{port}" if connection.host else None,
            "sasl.username": connection.login,
            "sasl.password": connection.password,
        }
        found = {**{name: value for name, value in fields.items() if value}, **found}
    return found


def overrides(conn_id: str, extra: Mapping[str, Any], env: MutableMapping[str, str]) -> list[str]:
    """Return the cluster of a connection as `path=value` overrides of a scenario, and put its secrets into `env`."""
    return [f"cluster.{key}={json.dumps(value)}" for key, value in cluster_of(conn_id, extra, env).items()]


def cluster_of(conn_id: str, extra: Mapping[str, Any], env: MutableMapping[str, str]) -> dict[str, Any]:
    """Return the cluster of a connection as in a scenario, and put its secrets into `env`.

    Settings that do not affect the connection, such as a group ID, are ignored. Raises `UsageError` for unsupported
    security settings.
    """
    if not extra.get("bootstrap.servers"):
        where = f"in its extra field, or as host of a connection of the type {TYPE}"
        raise UsageError(f"the Airflow connection {conn_id} has no bootstrap.servers {where}")
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
    return {"driver": "attached", "bootstrap": extra["bootstrap.servers"], "security": security}


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
