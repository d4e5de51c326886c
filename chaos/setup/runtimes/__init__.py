"""The client runtimes that a scenario can choose: what each can do, and its defaults.

A runtime is a client library with its programs. `traits` says what a runtime can do; `choice` is the field `client` of
an entry; the other modules have the runtimes. The programs are in `chaos.clients.<name>` (with an underscore for a
hyphen), which also installs and starts them.
"""

from __future__ import annotations

from chaos.setup.runtimes import aiokafka, confluent, flink, franz_go, java, kafka_python, sarama, spark, streams
from chaos.setup.runtimes.traits import Traits

DEFAULT = confluent.TRAITS.name
"""Name of the runtime of an entry that names none."""

RUNTIMES: dict[str, Traits] = {
    traits.name: traits
    for traits in (
        confluent.TRAITS,
        java.TRAITS,
        sarama.TRAITS,
        franz_go.TRAITS,
        kafka_python.TRAITS,
        aiokafka.TRAITS,
        flink.TRAITS,
        flink.LEGACY_TRAITS,
        spark.TRAITS,
        streams.TRAITS,
    )
}
"""The runtimes by name."""
