"""The clients that use aiokafka: `python -m chaos.clients.aiokafka.main SPEC`.

The programs are those of `chaos.clients.python`; `consumer` and `producer` adapt the library to them, on an event loop
in a thread (`event_loop`). `runtime` installs a release.
"""
