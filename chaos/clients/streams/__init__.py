"""Kafka Streams applications as clients: the programs in `src` are compiled with the programs of the Java client.

Kafka Streams passes no answer to a send, a commit or the end of a transaction on to its application. It lets the
application supply the Kafka clients that it uses (`KafkaClientSupplier`); the programs supply clients that pass every
call on and record it. So all rows are the answers that the library itself gets.

A client is a stream thread: a group member with one producer. The library chooses the positions at which it
begins to read; if no delivery shows one, a row of the event `position` does. Outputs have the time of their processing
as timestamp. State directories are in the run directory, next to the ledger.
"""
