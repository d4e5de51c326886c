"""Clients that are Flink jobs with KafkaSource."""
