"""The workers of a run: processes, maybe on other machines, that run its clients for the drive.

    drive ── Workers ── one authenticated connection each ── Agent of worker-1: clients, their ledger, their logs
                                                         └── Agent of worker-2: ...

The drive orders, injects and observes. It writes its address and a secret into `workers/` of the run directory, which
each worker has to see. An agent connects, and both prove that they know the secret. Then the drive calls (start, write,
signal, ...), and the agent answers, and reports the events and the end of each process. Frames are JSON.

A connection that ends, or an agent that is silent for `SILENCE_S`, is the end of the worker: the drive records a crash
that nobody ordered for each of its clients, and fails with its name. The agent kills its clients when the drive is
gone. Clients that lose their agent end because their stdin ends.

Clients write their ledger on the disk of their worker. At the end the agent seals it, and puts the parts, then a
manifest, into the run directory under a temporary name, which it then changes. The drive compares each part with the
manifest that it received over the connection, and adds it to the ledger of the run. If one is missing or different, the
ledger is incomplete, and says so: see `Seal.missing`.

The drive compares the clocks each second, see `chaos.workers.clock`.
"""
