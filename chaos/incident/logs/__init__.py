"""From the logs of Kafka's brokers to the skeleton of a scenario: `python -m chaos incident from-logs DIR`.

files      which files of a folder are logs of brokers, whose, in which order; compressed and rotated ones too
layouts    how a line is laid out: log4j's layouts that are known, as data
reading    lines to entries: one instant, one logger, one message of one or many lines, and where it stands
patterns   what Kafka says, as data: which class of Kafka says what since when, and the event that it means
events     what was said, as data classes
history    all entries of all brokers on one clock: events, lives of each broker, its settings
clocks     whether the clocks of the brokers agree, by what several of them saw
inventory  what there was: brokers, topics, groups, transactional ids, who led what when
outages    brokers that died, were stopped, stood still, were cut off, or lost a disk
members    members that left their group, with the reason where one is given
losses     records that were cut off, and leaders that were not in sync
clients    what the settings of producers and consumers say, from a properties or YAML file
timing     when: triggers instead of times
plan       faults with triggers, and the contract, of the scenario
losing     so that a replay loses what the incident lost
chronicle  what the logs say in order, as comments
clientparts, text   the client entries of the file; YAML with comments
make       all of that in a row
skeleton   the scenario as YAML, each line with its source, and a TODO for what could not be told

A rule of all of them: what was read is named with file and line; what was inferred says from what; what is not known is
a TODO and never a guess that looks like a fact.
"""
