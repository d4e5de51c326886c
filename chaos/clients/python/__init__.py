"""The client programs in Python: one hierarchy for all libraries.

    Sender ── Producer                 Reader ── GroupConsumer ── PooledConsumer
          └── Processor (its reader: Source)  │              └── Source
                                              └── AssignConsumer

A program asks a `Library` for its adapters, a consumer and a producer, and for the meaning of errors (`library`).
`chaos.clients.<folder>.library` has them for confluent-kafka, aiokafka and kafka-python. `start` runs the program of a
spec. `rows`, `committer` and `assignments` write the ledger, `load` says what a producer sends and when, `program` has
orders, events and lifecycle rows.
"""
