"""The settings of topics and brokers in a cluster, each with the level at which it is set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from kafka.errors import for_code
from kafka.protocol.admin import DescribeConfigsRequest

from chaos.errors import ClusterError, UsageError
from chaos.kafka.client import Kafka
from chaos.kafka.messages import request

_TOPIC, _BROKER = 2, 4
_REFUSED = {29, 31}
"""Error codes of a missing right: of a topic, of the cluster."""
_UNKNOWN_TOPIC = 3

Level = Literal["topic", "broker", "all brokers", "file", "default"]
_LEVELS: dict[int, Level] = {1: "topic", 2: "broker", 3: "all brokers", 4: "file", 5: "default"}


@dataclass(frozen=True)
class DescribedSetting:
    """A value, and the level at which it is set.

    level: topic; broker or all brokers, set while they run; file, the broker's server.properties; or Kafka's default.
    """

    value: str
    level: Level


def topic_settings(kafka: Kafka, topic: str, names: Iterable[str]) -> dict[str, DescribedSetting]:
    """Return settings of a topic. Raises `UsageError` without the right to see them, else `ClusterError`."""
    message = _request(_TOPIC, topic, names)
    return _settings(kafka.ask_any(message), f"the settings of topic {topic}")


def broker_settings(kafka: Kafka, broker: int, names: Iterable[str]) -> dict[str, DescribedSetting]:
    """Return settings of a broker, which it answers itself. Raises as `topic_settings`."""
    message = _request(_BROKER, str(broker), names)
    return _settings(kafka.ask(broker, message), f"the settings of broker {broker}")


def _request(kind: int, name: str, names: Iterable[str]) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(names)}
    return request(DescribeConfigsRequest[1], resources=[resource], include_synonyms=False)


def _settings(answer: Any, what: str) -> dict[str, DescribedSetting]:
    """Return the settings in an answer, without those that have no value."""
    if answer is None:
        raise ClusterError(f"the cluster did not answer for {what}; are all its brokers reachable from here?")
    found: dict[str, DescribedSetting] = {}
    for result in answer.results:
        if result.error_code in _REFUSED:
            raise UsageError(f"the cluster refuses {what}: the user needs the right DescribeConfigs")
        if result.error_code == _UNKNOWN_TOPIC:
            raise UsageError(f"the cluster has no {what.removeprefix('the settings of ')}")
        if result.error_code:
            raise ClusterError(f"the cluster refused {what}: {for_code(result.error_code).__name__}")
        for config in result.configs:
            if config.value is not None and config.config_source in _LEVELS:
                found[config.name] = DescribedSetting(config.value, _LEVELS[config.config_source])
    return found
