"""Values of Airflow connections: the cluster of a Kafka connection, and the master of a Spark connection."""

from __future__ import annotations

import os

from airflow.sdk.exceptions import AirflowNotFoundException


def existing_cluster(conn_id: str | None) -> list[str]:
    """Return the cluster of a Kafka connection as overrides; put its secrets into the environment of this process."""
    if not conn_id:
        return []
    from airflow.sdk import Connection

    from chaos.cluster.attached.airflow import overrides

    return overrides(conn_id, Connection.get(conn_id).extra_dejson, os.environ)


def spark_master(conn_id: str) -> str | None:
    """Return the Spark master of a connection; None, which means local[*], if the connection does not exist."""
    from airflow.sdk import Connection

    from checks.spark.master import from_connection

    try:
        connection = Connection.get(conn_id)
    except AirflowNotFoundException:
        return None
    return from_connection(connection.host, connection.port)
