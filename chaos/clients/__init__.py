"""The clients of a run: producers, processors and consumers, each an operating system process.

`chaos.fleet` starts and supervises them. A client is any program that follows the protocol below. There is no
base class: a client in Java, Go or Flink has the same standing as one in Python. Each client library has one folder
(`confluent`, `kafka_python`, `java`, `sarama`, …), with its programs, a module `traits` that says what it can do, and
a module `runtime` that says how to install and start it. `choice` finds the folders; nothing else lists them.

**Input**: the last argument is the path of a JSON spec, one of the models in `chaos.clients.protocol`. The spec names
the program that runs it, the run, the ledger directory, the client (`shop/1`, also its Kafka `client.id`), its
incarnation (1 for the first process), the bootstrap servers, the settings of the scenario entry, and the position at
which a later incarnation continues. If `security` is set, its passwords are `env:NAME` or `file:PATH`; the client looks
them up and does not log them. A client ignores fields that it does not know.

**Output to the ledger**: the tables of `chaos.ledger.schemas`, one file per table and incarnation,
`<table>/<client with - for />.<incarnation>.arrows`, or `.jsonl` for batch lines (`chaos.ledger.files`).
`chaos.ledger.schemas` names the columns that are never null. A producer writes `sends` and `lifecycle`, and
`transactions` if it is transactional. A consumer writes `deliveries`, `commits`, `assignments` and `lifecycle`. A
processor, which reads, transforms and writes, writes all of them.

- Each batch is one write(2).
- A processor sends each record with the header `aftershock-input`: topic, partition and offset of the record that it
  was made from, as `orders/0/1234`. It may also write them to `sends`.
- A client writes the `sends` of a transaction before it ends the transaction, and the row in `transactions` afterwards.
  A transaction without a row was cut off; its outcome is unknown.
- In a session cluster of Flink, each attempt of a subtask is an incarnation; the program of the job writes its row
  crashed.
- A client writes a delivery row before it commits the offset, unless the commit setting says otherwise.
- A static member (KIP-345) has a group.instance.id in its settings, and writes it to `assignments`. When it is fenced,
  it reports the error and exits.
- A client writes the lifecycle events started, stopped, error, slowed and resumed. The fleet writes crashed. The detail
  of started names the client library and its release (confluent_kafka, librdkafka, kafka_clients, sarama, …:
  `Traits.reported`).

**Orders**: one JSON object per line on stdin.

    {"do": "start"}                           start to send (producers with `hold` in the spec)
    {"do": "stop"}                            finish and exit with 0: a producer flushes, a consumer leaves its group
    {"do": "ignore_reports"}                  continue to send, but read no delivery report any more (producers)
    {"do": "slow", "per_record_s": 0.02}      add this processing time to each record; 0 restores full speed (consumers)
    {"do": "seek", "offsets": {"orders/0": 9}} continue at these offsets, on the assigned partitions that are named
    {"do": "seek", "ago_s": 5.0}              continue, on every assigned partition, at the first record of that time
    {"do": "seek", …, "lookup_first_s": 0.5}  assign all partitions without offsets, and after this time again at the
                                              targets (librdkafka in assign mode only)
    {"do": "resume"}                          resume all assigned partitions, though none is paused (librdkafka only)

Several clients may be threads of one process (`threads` in the spec). Each writes its own tables, an order with a
`client` field is for that client only, and every event carries a `client` field.

The end of stdin means that the fleet is gone: the client exits at once. A crash is a SIGKILL to the process group of
the client, not an order.

**Events**: one JSON object per line on stdout. stderr is the log.

    {"event": "started"}                      the client runs and its lifecycle row is written
    {"event": "progress", ...}                at most every 100 ms, and once at the end
        producer: sent, acked, failed, unknown (counts of this incarnation), done (nothing left to send or to wait for)
        consumer: delivered (count of this incarnation), assigned ["orders/0", ...],
                  positions {"orders/0": 17}: for each assigned partition the offset after the last processed record, or
                  the start position; a partition without a known start position is left out,
                  member_id and generation (null in assign mode); after a seek: sought [["orders/0", from, to], ...]
                  after orders to resume: resumed (their number)
                  in a session cluster: task_managers {"orders/0": "job-1.1"}, which read the assigned partitions
        both: after responses with a throttle time: throttled {"producer": [number, longest time in ms]}, as the side
                  (producer or consumer) that they belong to
    {"event": "stopped"}                      the order to stop is done
    {"event": "error", "detail": "..."}       something failed; the client continues unless it exits

Exit code 0 means a clean stop, and nothing else does.
"""
