"""A broker that the platform starts itself.

`startup` starts one broker: its files, its JVM, and the wait until it is ready. `release` prepares a Kafka release with
its storage, runs a JVM and extracts errors from its log. `clock_reading` reads the clock of a broker from outside.
"""
