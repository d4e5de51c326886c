"""Clusters: the brokers under test, and what can be done to them. `api` has the contract of every driver."""
