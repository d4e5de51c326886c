"""The clients that use confluent-kafka (librdkafka), on the programs of `chaos.clients.python`.

`library` has the producer and the meaning of errors, `consumer` the consumer. `runtime` installs a release.
"""
