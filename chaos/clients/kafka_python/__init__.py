"""The clients that use kafka-python: `python -m chaos.clients.kafka_python.main SPEC`.

The programs are those of `chaos.clients.python`; `consumer` and `producer` adapt the library to them. `runtime`
installs a release.
"""
