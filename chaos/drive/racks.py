"""Racks: the placement of replicas, and the replicas that consumers read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chaos.kafka.metadata import Metadata
from chaos.setup.model import Setup


def placement_problems(setup: Setup, metadata: Metadata, topics: Iterable[str]) -> Iterator[str]:
    """Yield the partitions of which two replicas share a rack although another rack has none (KIP-36)."""
    racks = {broker: rack for rack in setup.cluster.racks for broker in setup.brokers_in(rack)}
    names = set(topics)
    for partition, state in metadata.partitions.items():
        found = [racks[broker] for broker in state.replicas if broker in racks]
        if partition.topic in names and len(set(found)) < min(len(state.replicas), len(setup.cluster.racks)):
            yield f"the replicas of {partition} are on brokers {list(state.replicas)}, in racks {', '.join(found)}"


def fetches(setup: Setup, status: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the number of Fetch requests by broker of each entry with a rack, from the status of the wire proxy."""
    found: dict[str, Counter[str]] = {entry.name: Counter() for entry in setup.readers if entry.rack}
    for port in status["ports"]:
        for client, count in port["fetches"].items():
            if (name := client.rpartition("/")[0]) in found:
                found[name][str(port["broker"])] += count
    return {name: dict(sorted(counts.items())) for name, counts in found.items()}
