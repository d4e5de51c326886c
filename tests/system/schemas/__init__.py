"""Message schemas of requests between brokers, which a test sends as if it were one."""
