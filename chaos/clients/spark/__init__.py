"""The clients that use Spark Structured Streaming: each is one streaming query in a local Spark, in its own process.

`src/aftershock` holds the program in Java, which shares the ledger, the orders and the settings with the programs of
the Java client. `runtime` fetches the Kafka source of Spark, takes Spark itself from pyspark, and compiles the program.
A start loads 14,000 classes; an archive of them, made once by `SparkTraining`, saves almost half of its CPU time.

A query plans a batch, writes its offsets to its checkpoint location, calls foreachBatch, and marks the batch as
complete. It reads without membership and commits nothing. Where a scenario gives `checkpoint_every`, a batch starts at
that interval, and a later incarnation has the same checkpoint location: the last batch that is not complete runs again
with the same offsets. Without it, offsets are in a store of the application, together with the results: each
incarnation has a new checkpoint location, and starts at the stored offsets (startingOffsets). A partition that the
query finds later begins at its first offset, whatever startingOffsets is; the plan of its first batch has that offset.

When a query fails because records are gone (failOnDataLoss), its process reports that, and runs on without a query.
After any other failure it ends.
"""
