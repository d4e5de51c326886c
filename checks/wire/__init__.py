"""The wire ledger: what clients and brokers said to each other, as tables.

    capture (chaos/relay) -> decode (this package, in Spark) -> <run>/wire/<table>.parquet

The segments of a capture are decoded in parallel by a class in Java (`java/`) with Kafka's own generated message
classes, which know every version since Kafka 4.0 accepts them. A frame that cannot be decoded is in the table `unread`.
`tables` joins requests with their answers, and describes every column.
"""
