"""Scenarios from the logs of Kafka brokers: `python -m chaos incident from-logs DIR`.

    files ─► entries ─► events ─► timeline ─► cluster state ─┐
                                     │                       ├─► fault plan ─► scenario draft
                                     └► outages, changes, losses

- `log_files` finds the logs of a folder and the broker of each; compressed and rotated ones, too.
- `entries` splits lines into entries; it has the table of log4j layouts and the conversion of times.
- `patterns` is the table of Kafka's messages, `events` the classes of the resulting events.
- `broker_timeline` puts the events of all brokers on one clock, and corrects clocks that are wrong.
- `cluster_state`: topics, groups and transactional ids; leaders, coordinators and controllers by time.
- `outages`, `group_changes`, `losses`: what failed, with the log lines that show it.
- `planned_faults`, `fault_plan`: faults of the scenario, then all of them in order with their triggers.
- `client_settings` reads the settings of producers and consumers from a file of the user.
- `scenario_draft`, `client_entries`, `explain`, `yaml_page` write the scenario.

Every value names its file and line. An inference names its reasons. An open question is a TODO, never a guess that
looks like a fact.
"""
