"""Scenarios from the logs of Kafka brokers: `python -m chaos incident from-logs DIR`.

    files ─► entries ─► writers ─► timeline ─► cluster state ─┐
                                     │                       ├─► fault plan ─► scenario draft
                                     └► failures of brokers

- `entries` finds the logs of a folder, compressed ones too, and splits their lines into entries; it has the
  tables of layouts and prefixes, and the conversion of times.
- `events` has the table of Kafka's messages, and the classes of the resulting events.
- `writers` says which broker wrote each entry.
- `broker_timeline` puts the events of all brokers on one clock, and corrects clocks that are wrong.
- `cluster_state`: topics, groups and transactional ids; leaders, coordinators and controllers by time.
- `broker_failures`: outages and losses of records, with the log lines that show them.
- `fault_plan`: faults of the scenario, of brokers and clients, in order and with triggers.
- `client_settings` reads the settings of producers and consumers from a file of the user.
- `draft` fills the template `draft.yaml.jinja`.

Every value names its file and line. An inference names its reasons. An open question is a TODO, never a guess that
looks like a fact.
"""
