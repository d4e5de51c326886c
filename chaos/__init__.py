"""Aftershock: break a real Kafka cluster on purpose, and record what every client saw.

This half drives: it deploys brokers, runs clients, injects faults and writes the ledger. The other half, `checks`,
reads the ledger and proves what happened. The run directory (`chaos.run.directory`) is the only link between the two.
"""

__version__ = "0.1.0"
