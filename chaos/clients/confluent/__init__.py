"""The clients that use confluent-kafka (librdkafka).

    python -m chaos.clients.confluent.producer SPEC
    python -m chaos.clients.confluent.processor SPEC
    python -m chaos.clients.confluent.group_consumer SPEC
    python -m chaos.clients.confluent.assign_consumer SPEC

`runtime` installs a release of the library and names these programs. `sender` holds what the programs that write share,
`reader` what the programs that read share, `group` the membership in a consumer group.
"""
