"""The ledger: the files in which clients, faults and the observer record a run. Driving writes it, auditing reads it.

While a run is driven, each process appends to one file per table, in one of two forms:

    ledger/<table>/<writer>.arrows        an Arrow IPC stream; each batch is one write(2)
    ledger/<table>/<writer>.jsonl         batch lines; each batch is one line of JSON and one write(2) (`files`)

An Arrow IPC stream needs no footer, so everything written before a SIGKILL is readable; a torn last batch is dropped
and counted. The same holds for a line without its newline. Any column of a stream may be run-end encoded; the
confluent-kafka clients encode those with few distinct values. A client in any language can write one of the two forms.
After the drive, `seal` converts each table to Parquet (`ledger/<table>.parquet/part-*.parquet`) and writes the numbers
of rows and torn bytes to `ledger/seal.json`.

`schemas` defines the tables and columns, and what a row has to contain; `record` the identity inside the value of each
record.
"""
