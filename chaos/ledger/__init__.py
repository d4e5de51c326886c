"""The ledger: what every client, every fault and the observer saw, as files. The one contract between the halves.

While driving, each process appends to files of its own, one per table:

    ledger/<table>/<writer>.arrows        an Arrow IPC stream; each batch is one write(2)

An Arrow IPC stream needs no footer, so whatever was written before a SIGKILL is readable; a torn last batch is dropped
and counted. Any column may be run-end encoded, as our own clients write those that are mostly the same. Any language
with an Arrow library can be a client of equal standing. After the drive, `seal` turns each table into Parquet
(`ledger/<table>.parquet/part-*.parquet`, with `ledger/seal.json` for the counts of rows and torn bytes).

`schemas` names the tables and columns, `record` is the identity that travels inside each record's value.
"""
