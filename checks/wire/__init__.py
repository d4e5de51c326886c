"""The wire ledger: what clients and brokers said to each other, as tables.

    capture (chaos/relay) -> decode (this package, in Spark) -> <run>/wire/<table>.parquet -> <run>/wire/ledger

The segments of a capture are decoded in parallel by a class in Java (`java/`) with Kafka's own generated message
classes, which know every version since Kafka 4.0 accepts them. A frame that cannot be decoded is in the table `unread`.
`tables` joins requests with their answers, and describes every column. `ledger` writes the tables in the form of the
ledger that clients write, so that the one audit judges them: `written` gives records their identity, `coordination`
says who held which partition, and how transactions ended.
"""
