"""The clients that use confluent-kafka (librdkafka).

    python -m chaos.clients.confluent.producer SPEC
    python -m chaos.clients.confluent.processor SPEC
    python -m chaos.clients.confluent.group_consumer SPEC
    python -m chaos.clients.confluent.assign_consumer SPEC

`programs` names the program for each spec, `environment` installs a release of the library. `sender` holds what the
programs that write share, `reader` what the programs that read share.
"""
