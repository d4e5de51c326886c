"""The security of a started cluster: certificates, users, passwords and rights, made for one run.

There are three identities: the brokers and controllers, the platform, and the clients of the run. Nodes talk to each
other over mutual TLS, whatever the clients use. The platform and the clients connect to the clients' listener. With
SASL, the platform logs in by PLAIN, so that a fault that changes the credentials of clients leaves it alone. If the
cluster has ACLs, nodes and platform are super users, and clients have the rights that `chaos.kafka.users` lists.

All keys and passwords are files with mode 0600 below `brokers/` in the run directory, which is removed with the cluster
and never part of a bundle. `cluster.json` and the specs of clients name the files. Broker settings name them too, by a
config provider (KIP-297), so that no secret is in a settings file or in the arguments of a process.
"""
