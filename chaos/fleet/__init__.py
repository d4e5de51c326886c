"""The fleet of a run: it writes the specs of clients, starts their processes, gives orders and follows their events.

`fleet` starts and crashes clients, `roster` holds what they report, `specs` writes what each incarnation gets.
`process` has the processes of clients and their clocks, `session` a session cluster of Flink and its job manager. The
protocol and the programs are in `chaos.clients`.
"""
