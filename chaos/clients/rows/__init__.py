"""The producer of rows, on the programs of `chaos.clients.python`. It is no client of Kafka, so it has no `runtime`."""
