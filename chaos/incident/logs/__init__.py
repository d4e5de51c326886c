"""Scenarios from the logs of Kafka brokers: `python -m chaos incident from-logs DIR`.

    files ─► entries ─► writers ─► timeline ─► cluster state ─┐
                                     │                       ├─► fault plan ─► scenario draft
                                     └► failures of brokers

- `log_files` finds the logs of a folder; compressed and rotated ones, too.
- `entries` splits lines into entries; it has the tables of layouts and prefixes, and the conversion of times.
- `patterns` is the table of Kafka's messages, `events` the classes of the resulting events.
- `writers` says which broker wrote each entry.
- `broker_timeline` puts the events of all brokers on one clock, and corrects clocks that are wrong.
- `cluster_state`: topics, groups and transactional ids; leaders, coordinators and controllers by time.
- `broker_failures`: outages and losses of records, with the log lines that show them.
- `planned_faults`: faults of the scenario, of brokers and clients. `fault_plan` puts them in order and sets triggers.
- `client_settings` reads the settings of producers and consumers from a file of the user.
- `scenario_draft` fills the template `draft.yaml.jinja`, with filters of `yaml_text`.

Every value names its file and line. An inference names its reasons. An open question is a TODO, never a guess that
looks like a fact.
"""
