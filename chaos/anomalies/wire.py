"""What the wire alone decides of an anomaly: `ON_WIRE`, why it decides nothing, or why its number may differ."""

ON_WIRE = "yes"
EFFECTS = "not visible without effects: a record that was fetched may never have been processed"
FETCHED = "more is fetched than delivered: a client may throw an answer away"
SENT_AGAIN = (
    "what a client sends again after its acknowledgement, as after a restart from a checkpoint, is another record for "
    "Kafka; effects show that it is the same one"
)
RETRIED = (
    "the order is the order of the first requests, not of the calls of the application; and a retry to which the "
    "library gives other timestamps, as sarama does, is other records"
)
KEYS = "not visible on the wire: the keys of records are in payloads"
REFUSED = (
    "an application may take a refused end of a transaction for a commit, as Flink's sink does for a checkpoint that "
    "counts; the wire shows that the commit was refused, and effects show what is missing"
)
