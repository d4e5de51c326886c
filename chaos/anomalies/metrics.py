"""The times that a scenario may bound."""

from __future__ import annotations

from chaos.anomalies.model import Metric

UNAVAILABILITY = ("produce_unavailability", "consume_unavailability")
STOPPED_US = 1_000_000
"""A partition without writes or reads for this long after a fault stood still: a sentence names it."""

METRICS: dict[str, Metric] = {
    "produce_unavailability": Metric(
        "from a fault to the first success of a send invoked after it, less the usual gap between successes",
        "Produce unavailability",
    ),
    "consume_unavailability": Metric(
        "from a fault to the first delivery of a record sent after it, less the usual gap between deliveries",
        "Consume unavailability",
    ),
    "rebalance_duration": Metric(
        "from the first partition given up to the last one assigned in the next generation",
        "Rebalance duration",
    ),
    "isr_recovery": Metric(
        "from a fault's heal (without a heal: its injection) until the ISR of every partition that it shrank is full",
        "ISR recovery",
    ),
    "election_time": Metric(
        "from a fault's injection until the observer saw another leader of a higher epoch (sampled every 150 ms)",
        "Election time",
    ),
    "ack_latency": Metric(
        "from the call of produce to its delivery report",
        "Acknowledgement latency",
    ),
    "end_to_end_latency": Metric(
        "from the call of produce to the record's processing",
        "End-to-end latency",
    ),
    "commit_latency": Metric(
        "from the request of an offset commit to its answer",
        "Commit latency",
    ),
}
