"""Kafka's own message schemas for requests that kafka-python does not contain, in its format."""
