"""The Kafka client of the platform itself: connections, metadata, admin requests, groups and offsets."""
