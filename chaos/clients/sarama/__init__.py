"""The clients that use sarama, the Go client, 1.43.3 to 1.61.1.

`src` holds what depends on sarama; `chaos.clients.golang` has the rest of the programs in Go, and compiles them. They
need no other library than sarama and xdg-go/scram, as sarama leaves SCRAM to the application.

They differ from an application only in this: the version of Kafka that they set is at least 2.8.0, which static members
need in older releases; and they connect through a dialer (`tap.go`), which sets up TLS and reads the requests to commit
and their answers, because the library says nothing about the outcome of a commit. `enable.idempotence` and transactions
also set what sarama demands with them (`Net.MaxOpenRequests` 1), unless the scenario sets it.
"""
