"""The clients of confluent-kafka (librdkafka): producer, processor, group consumer and assign consumer."""
