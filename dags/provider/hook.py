"""The connection type `aftershock`: an existing cluster. `connections` says how its fields are read."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import BaseHook

from dags.provider.connections import TYPE, cluster_of, settings


class AftershockHook(BaseHook):  # type: ignore[misc] # Airflow is not typed for mypy here
    """The cluster of a connection."""

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "aftershock_default"
    conn_type = TYPE
    hook_name = "Aftershock"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return how the form of the connection looks."""
        return {
            "hidden_fields": ["schema", "port"],
            "relabeling": {"host": "Bootstrap servers", "login": "SASL user", "password": "SASL password"},
            "placeholders": {
                "host": "broker-1:9092,broker-2:9092",
                "extra": '{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}',
            },
        }

    def test_connection(self) -> tuple[bool, str]:
        """Connect to the cluster; return whether its brokers answered, and how many, or the error in a line."""
        from chaos.errors import AftershockError
        from chaos.kafka.client import Kafka
        from chaos.kafka.security import Access, ClusterSecurity

        try:
            cluster = cluster_of(self.kafka_conn_id, settings(self.get_connection(self.kafka_conn_id)), os.environ)
            security = ClusterSecurity.model_validate(cluster["security"]).given()
            kafka = Kafka(cluster["bootstrap"], access=Access.of(security))
            try:
                metadata = kafka.metadata()
            finally:
                kafka.close()
        except (AftershockError, ValueError) as e:
            return False, str(e)
        if metadata is None:
            return False, "no broker answered"
        return True, f"{len(metadata.brokers)} brokers, {len({p.topic for p in metadata.partitions})} topics"
