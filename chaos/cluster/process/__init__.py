"""The process driver: each broker is a JVM on this machine, a KRaft broker and controller in one.

Releases before Kafka 3.3, and others on request, keep their metadata in a ZooKeeper server. All
traffic stays on 127.0.0.1. If the platform is killed, the reaper, which starts first, ends the brokers.

`driver` is the cluster, `partition_log` cuts the log of a partition, and `zookeeper` runs the ZooKeeper server.
"""
