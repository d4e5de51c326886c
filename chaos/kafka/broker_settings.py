"""Dynamic settings of single brokers, such as their key stores (KIP-226)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka.protocol.admin import DescribeConfigsRequest

from chaos.kafka import admin
from chaos.kafka.client import Kafka
from chaos.kafka.messages import request

_BROKER, _OF_BROKER = 4, 2


def set_of_broker(kafka: Kafka, broker: int, values: Mapping[str, str | None]) -> None:
    """Set dynamic settings of one broker, which checks them itself; None removes a value. Raises `ClusterError`.

    A broker also reloads a key store or trust store if the setting has the same path as before.
    """
    admin.change(kafka, _BROKER, str(broker), values, f"broker {broker}", lambda _: broker)


def dynamic_of_broker(kafka: Kafka, broker: int, names: Iterable[str]) -> dict[str, str] | None:
    """Return which of these settings are dynamic ones of a broker, as it knows them; None without an answer."""
    resource = {"resource_type": _BROKER, "resource_name": str(broker), "configuration_keys": list(names)}
    answer = kafka.ask(broker, request(DescribeConfigsRequest[1], resources=[resource], include_synonyms=False))
    if answer is None or any(r.error_code for r in answer.results):
        return None
    return {c.name: c.value or "" for r in answer.results for c in r.configs if c.config_source == _OF_BROKER}
