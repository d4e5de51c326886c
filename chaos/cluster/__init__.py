"""Clusters: the brokers under test, and the operations on them.

`api` is the contract of a driver. `process/`, `docker/` and `attached/` are the drivers; `drivers` lists them by name.
`brokers/startup` starts one broker. `teardown` ends runs, whoever asks for it.
"""
