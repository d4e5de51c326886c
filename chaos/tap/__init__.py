"""A tap: a front of the relay before a cluster and applications that exist. It records, says what it sees, and judges.

    begin (ends of logs) -> relay -> follow the capture, live -> seal -> who spoke -> checks, as of any run

A tap is a run without clients of ours and without faults: it has a run directory, the one capture of `chaos.relay`,
and is judged on the wire by the one audit. Towards the cluster it only asks: metadata, offsets, groups, settings and
batches of the final log. `session` drives it, `live` reads the capture while it grows and says what goes wrong,
`speakers` finds out which process spoke on a connection, because all come to one address.

What began before the tap is no anomaly: of each partition the audit knows the records from the end that the log had
when the tap began, and the first position that a group asks for counts as committed. Records of the log that no
producer sent through the tap belong to nobody, and are not judged.
"""
