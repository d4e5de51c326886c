"""A broker that the platform starts itself.

`startup` starts one broker: its files, its JVM, and the wait until it is ready. `jvm` builds the Java command line,
`release` prepares a Kafka release, `storage` formats the storage of a broker, and `log` extracts errors from its log.
"""
