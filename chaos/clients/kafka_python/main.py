"""The programs on kafka-python: `python -m chaos.clients.kafka_python.main SPEC`."""

from __future__ import annotations

import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError, KafkaTimeoutError

from chaos.clients.kafka_python.consumer import RELEASE, Consumer
from chaos.clients.kafka_python.producer import Producer
from chaos.clients.python.library import Library
from chaos.clients.python.main import main
from chaos.scenario.runtimes.kafka_python import TRAITS

try:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
except ImportError:  # before 3.0.0
    CooperativeStickyAssignor = None

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    **({"cooperative-sticky": CooperativeStickyAssignor} if CooperativeStickyAssignor else {}),
}

LIBRARY = Library(
    traits=TRAITS,
    release=RELEASE,
    Error=KafkaError,
    Timeout=KafkaTimeoutError,
    producer_settings=KafkaProducer.DEFAULT_CONFIG,
    consumer_settings=KafkaConsumer.DEFAULT_CONFIG,
    assignors=ASSIGNORS,
    producer=Producer,
    consumer=Consumer,
)

if __name__ == "__main__":
    main(sys.argv, LIBRARY)
