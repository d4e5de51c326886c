"""Everything that speaks Kafka for the platform itself: connections, metadata, admin requests, groups, offsets."""
