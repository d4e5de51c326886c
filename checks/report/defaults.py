"""Defaults of Apache Kafka (broker and topic) and librdkafka, for settings that matter under faults.

The list is not complete: the report shows the default of other settings as unknown.
"""

from __future__ import annotations

from chaos.kafka.settings import Scalar

BROKER: dict[str, Scalar] = {
    "auto.create.topics.enable": True,
    "auto.leader.rebalance.enable": True,
    "broker.heartbeat.interval.ms": 2000,
    "broker.session.timeout.ms": 9000,
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.fetch.timeout.ms": 2000,
    "default.replication.factor": 1,
    "group.initial.rebalance.delay.ms": 3000,
    "group.max.session.timeout.ms": 1800000,
    "group.max.size": 2147483647,
    "group.min.session.timeout.ms": 6000,
    "leader.imbalance.check.interval.seconds": 300,
    "log.cleanup.policy": "delete",
    "log.flush.interval.messages": 9223372036854775807,
    "log.retention.bytes": -1,
    "log.retention.hours": 168,
    "log.segment.bytes": 1073741824,
    "message.max.bytes": 1048588,
    "min.insync.replicas": 1,
    "num.partitions": 1,
    "offsets.retention.minutes": 10080,
    "offsets.topic.num.partitions": 50,
    "offsets.topic.replication.factor": 3,
    "replica.fetch.wait.max.ms": 500,
    "replica.lag.time.max.ms": 30000,
    "replica.socket.timeout.ms": 30000,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.replication.factor": 3,
    "unclean.leader.election.enable": False,
}

TOPIC: dict[str, Scalar] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": 86400000,
    "flush.messages": 9223372036854775807,
    "max.message.bytes": 1048588,
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": 0.5,
    "min.insync.replicas": 1,
    "retention.bytes": -1,
    "retention.ms": 604800000,
    "segment.bytes": 1073741824,
    "segment.ms": 604800000,
    "unclean.leader.election.enable": False,
}

PRODUCER: dict[str, Scalar] = {
    "acks": "all",
    "batch.num.messages": 10000,
    "batch.size": 1000000,
    "compression.type": "none",
    "delivery.timeout.ms": 300000,
    "enable.gapless.guarantee": False,
    "enable.idempotence": False,
    "linger.ms": 5,
    "max.in.flight.requests.per.connection": 1000000,
    "message.timeout.ms": 300000,
    "metadata.max.age.ms": 900000,
    "partitioner": "consistent_random",
    "queue.buffering.max.messages": 100000,
    "request.timeout.ms": 30000,
    "retries": 2147483647,
    "retry.backoff.ms": 100,
    "socket.timeout.ms": 60000,
    "transactional.id": "",
}

CONSUMER: dict[str, Scalar] = {
    "auto.commit.interval.ms": 5000,
    "auto.offset.reset": "largest",
    "check.crcs": False,
    "enable.auto.commit": True,
    "enable.auto.offset.store": True,
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 500,
    "group.instance.id": "",
    "group.protocol": "classic",
    "heartbeat.interval.ms": 3000,
    "isolation.level": "read_committed",
    "max.poll.interval.ms": 300000,
    "metadata.max.age.ms": 900000,
    "partition.assignment.strategy": "range,roundrobin",
    "queued.min.messages": 100000,
    "session.timeout.ms": 45000,
    "socket.timeout.ms": 60000,
}

SYNONYMS: dict[str, str] = {
    "-1": "all",
    "latest": "largest",
    "end": "largest",
    "beginning": "smallest",
    "earliest": "smallest",
    "request.required.acks": "acks",
    "max.in.flight": "max.in.flight.requests.per.connection",
}
"""Names and values that librdkafka treats as equal."""
