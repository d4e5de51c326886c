"""The programs on kafka-python: `python -m chaos.clients.kafka_python.main SPEC`."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from chaos.clients.kafka_python.consumer import RELEASE, Consumer
from chaos.clients.kafka_python.producer import Producer
from chaos.clients.kafka_python.traits import TRAITS
from chaos.clients.python.library import Library
from chaos.clients.python.main import main

PACKAGE = "kafka.coordinator.assignors"
ASSIGNORS = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "sticky": ("sticky", "sticky_assignor.StickyPartitionAssignor"),
    "cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}
"""The module and the class of each assignor; sticky is in 2.0.2 and later, cooperative-sticky in 3.0.0 and later."""


def _assignors() -> dict[str, type]:
    """Return the assignors that this release has."""
    found = {}
    for name, (module, path) in ASSIGNORS.items():
        if find_spec(f"{PACKAGE}.{module}"):
            inner, _, own = path.rpartition(".")
            found[name] = getattr(import_module(".".join(filter(None, [PACKAGE, module, inner]))), own)
    return found


LIBRARY = Library(
    traits=TRAITS,
    release=RELEASE,
    Error=KafkaError,
    Timeout=KafkaTimeoutError,
    producer_settings=KafkaProducer.DEFAULT_CONFIG,
    consumer_settings=KafkaConsumer.DEFAULT_CONFIG,
    assignors=_assignors(),
    producer=Producer,
    consumer=Consumer,
)

if __name__ == "__main__":
    main(sys.argv, LIBRARY)
