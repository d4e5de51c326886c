"""The docker driver: each broker in a container of its own, on a network that belongs to the run.

`driver` is the cluster, `engine` the connection to Docker and what a run has there, `image` the image of a release,
`making` everything of a cluster but its start, `containers` one broker's container with its CPU and memory, `network`
addresses and cuts, `disk` disks with a size.

Clients and controllers of the platform stay processes of this machine, and reach each broker at 127.0.0.1, where its
port is published; brokers talk to each other on their own network. What they write lies in the run directory, which is
mounted into the containers, so the engine has to be one of this machine.
"""
