"""The programs on aiokafka: `python -m chaos.clients.aiokafka.main SPEC`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError

from chaos.clients.aiokafka.consumer import Consumer
from chaos.clients.aiokafka.producer import Producer
from chaos.clients.aiokafka.traits import TRAITS
from chaos.clients.python.library import Library
from chaos.clients.python.main import main
from chaos.clients.traits import number

try:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
except ImportError:  # before 0.9.0
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor


QUOTES_NAMES_SINCE = (0, 12, 0)


def _settings(client: Callable[..., object]) -> dict[str, Any]:
    """Return the settings of a client, with their defaults."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(client).parameters.items()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    }


LIBRARY = Library(
    traits=TRAITS,
    release=aiokafka.__version__,
    Error=KafkaError,
    Timeout=KafkaTimeoutError,
    producer_settings=_settings(AIOKafkaProducer),
    consumer_settings=_settings(AIOKafkaConsumer),
    assignors={
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    },
    producer=Producer,
    consumer=Consumer,
    quotes_names=number(aiokafka.__version__) >= QUOTES_NAMES_SINCE,
)

if __name__ == "__main__":
    main(sys.argv, LIBRARY)
