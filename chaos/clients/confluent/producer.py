"""The producer: `python -m chaos.clients.confluent.producer SPEC`; see `chaos.clients.sender`.

It writes a row for each delivery report. The records of one tick, or of one chunk at full speed, share one time stamp,
which is less than about a millisecond off. librdkafka also reports the records that are purged at the end.
"""

from __future__ import annotations

import sys

from chaos.clients.confluent.library import VERSIONS
from chaos.clients.confluent.sender import UNASSIGNED, Sender
from chaos.clients.keys import Keys
from chaos.clients.partitioner import partitioner
from chaos.clients.program import Channel, Lifecycle, run_clients
from chaos.clients.protocol import ProducerSpec
from chaos.clients.sender import PacedSender


class Producer(Sender[ProducerSpec], PacedSender):
    """One incarnation of a producer."""

    def __init__(self, spec: ProducerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        keys = Keys(spec.keys, spec.seed, spec.tombstone_every) if spec.keys else None
        super().__init__(spec, channel, lifecycle, keys)
        self._partition = partitioner(spec.partitioner, spec.partitions, UNASSIGNED)
        self._drops_if_full = spec.mode == "fire_and_forget"

    def _timestamp_ms(self, call_us: int) -> int:
        return self._spec.timestamps.of(call_us) if self._spec.timestamps else 0


def main(argv: list[str]) -> int:
    """Run a producer. Returns the exit code."""
    spec = ProducerSpec.load(argv[1])
    return run_clients([spec], Producer, first_seq=spec.first_seq, **VERSIONS)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
