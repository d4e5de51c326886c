"""Clients that are Flink jobs with FlinkKafkaConsumer, the consumer of Flink 1."""
