"""The fleet of a run: it writes the specs of clients, starts their processes, gives orders and follows their events.

`fleet` starts and crashes clients, `roster` holds what they report, `specs` writes what each incarnation gets;
`process` and `session` are their processes. The protocol and the programs are in `chaos.clients`.
"""
