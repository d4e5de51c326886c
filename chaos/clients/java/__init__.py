"""The clients that use Apache Kafka's Java client (kafka-clients), 2.8.2 to 4.3.1.

`src/aftershock` holds the programs in Java; `Main` runs the client of a spec. `runtime` fetches the jars of a release
and compiles the programs against them at first use, with the Eclipse compiler (ECJ), which needs no JDK. They need no
other library: they write the ledger as batch lines.

They differ from an application only in this: the rebalance listener of a group consumer asks the consumer for its
positions, a consumer that is ordered to stop within a batch seeks back to the records that it has not processed, and a
transactional producer waits at most 5 s in one call (max.block.ms), unless the scenario sets these.

The two threading models of KafkaConsumer's documentation are `Member`, several of them in a process, each in a
thread, and `PooledConsumer`, which polls in one thread and processes in a pool.

`share/ShareConsumer` is the member of a share group. It is in a separate folder, because only releases with
share groups compile it; with these, `ShareMain` runs every program.

An automatic commit is recorded by an interceptor, which the library calls only for commits that succeed.
"""
