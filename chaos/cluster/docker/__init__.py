"""The docker driver: each broker runs in a container, on a network that belongs to the run.

`driver` is the cluster, `engine` the connection to Docker, with images and the objects of a run there, and `container`
the container of one broker with its limits, disk and network.

The clients of the platform stay processes of this machine. They reach each broker at 127.0.0.1, where its port is
published; brokers reach each other on their network. Containers mount the run directory and write to it, so the engine
must run on this machine.
"""
