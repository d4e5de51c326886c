"""Brokers as JVMs, shared by the process and docker drivers: settings, storage, start and readiness."""
