"""Anomalies of the KRaft quorum."""

from chaos.anomalies.model import anomaly

QUORUM = {
    "competing_controllers": anomaly(
        "quorum",
        "a controller goes on as the active one beside another one of a later epoch, for longer than "
        "controller.quorum.fetch.timeout.ms",
        "Kafka 3.7 or later, where an active controller gives up when a majority does not follow it (KAFKA-15489)",
        "Only one controller is active",
        "Several controllers are active at a time",
        "terms of active controllers",
        "{n} {times} a controller went on as the active one beside another one",
    )
}
"""The registry of the quorum, by name."""
