"""What the tasks take from Airflow's connections: the cluster of a Kafka connection, the master of a Spark one."""

from __future__ import annotations

import os

from airflow.sdk.exceptions import AirflowNotFoundException


def existing_cluster(conn_id: str) -> list[str]:
    """A Kafka connection's cluster as overrides of the scenario; its secrets go into this process's environment."""
    if not conn_id:
        return []
    from airflow.sdk import Connection

    from chaos.cluster.attached.airflow import overrides

    return overrides(conn_id, Connection.get(conn_id).extra_dejson, os.environ)


def spark_master(conn_id: str) -> str | None:
    """The Spark master of an Airflow connection; None, which is local[*], where there is no such connection."""
    from airflow.sdk import Connection

    from checks.spark.master import from_connection

    try:
        connection = Connection.get(conn_id)
    except AirflowNotFoundException:
        return None
    return from_connection(connection.host, connection.port)
