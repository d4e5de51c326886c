"""Kafka's own message schemas, as kafka-python reads them, for requests that kafka-python does not have."""
