"""Clients: producers and consumers, each a process of its own, under the supervision of `chaos.clients.fleet`.

What a client is given, writes, obeys and tells is a protocol and no base class: a client in Java, Go or Flink that
keeps it has equal standing.

**Given**: argv[1] is the path of a JSON spec, one of the models in `chaos.clients.protocol`. It names the run, the
ledger directory, the client (`shop/1`, which is also its Kafka `client.id`), its incarnation (1 for its first life),
the bootstrap servers, all settings of the scenario's entry, and where to go on after an earlier life. `security`, where
it is not null, says how to get in; its passwords are `env:NAME` or `file:PATH`, for the client to look up and keep to
itself.

**Writes**: the ledger tables of `chaos.ledger.schemas`, each as `<client, / as ->.<incarnation>.arrows`. A producer
writes `sends` and `lifecycle`, and `transactions` if it has any; a consumer writes `deliveries`, `commits`,
`assignments` and `lifecycle`; a processor, which reads, transforms and writes, all of them. One batch is one write(2).
The `sends` of a transaction are written before its end is asked for, its row in `transactions` after: one without a row
was cut off, and its outcome is unknown. A delivery row is in the ledger before its offset may be committed, unless the
commit setting says otherwise. A client writes the lifecycle events started, stopped, error, slowed and resumed; its
supervisor writes crashed. The detail of started names the client library and its release (confluent_kafka, librdkafka).

**Obeys**: one JSON object a line on stdin.

    {"do": "start"}                           begin to send (producers whose spec says `hold`)
    {"do": "stop"}                            finish, then exit with 0: a producer flushes, a consumer leaves its group
    {"do": "ignore_reports"}                            send on, but look at no delivery report any more (producers)
    {"do": "slow", "per_record_s": 0.02}      take that much longer for each record; 0 is full speed again (consumers)
    {"do": "seek", "offsets": {"orders/0": 9}} go on there, on the partitions it holds; or "ago_s": 5.0 for what was
                                              written so long ago (consumers)

Where several clients are threads of one process (the spec's `threads`), each writes its own tables, an order with a
`client` is for that one only, and every event says whose it is in `client`.

The end of stdin means that the owner died: the client ends at once. A crash is a SIGKILL and needs no order.

**Tells**: one JSON object a line on stdout; stderr is its log.

    {"event": "started"}                      it runs and its lifecycle row is written
    {"event": "progress", ...}                at most every 100 ms, and once at the end
        producer: sent, acked, failed, unknown (counts of this incarnation), done (nothing left to send or to wait for)
        consumer: delivered (count of this incarnation), assigned ["orders/0", ...],
                  positions {"orders/0": 17}: next offset after the last processed record of each partition it holds, or
                  where it began; a partition whose beginning the client could not tell is left out until it is known,
                  member_id and generation (null in assign mode); after a seek sought [["orders/0", from, to], ...]
    {"event": "stopped"}                      it did what `stop` asks for
    {"event": "error", "detail": "..."}       something went wrong; it goes on unless it exits

Exit code 0 follows a clean stop, and nothing else.

    python -m chaos.clients.confluent.producer SPEC
    python -m chaos.clients.confluent.processor SPEC
    python -m chaos.clients.confluent.group_consumer SPEC
    python -m chaos.clients.confluent.assign_consumer SPEC
"""
