"""The docker driver: each broker runs in a container, on a network that belongs to the run.

`driver` is the cluster, `engine` the connection to Docker and the objects of a run there, `image` the image of a
release, `container` is the container of one broker with its CPU and memory limits, `network` holds addresses and cuts,
and `disk` holds disks with a fixed size.

The clients of the platform stay processes of this machine. They reach each broker at 127.0.0.1, where its port is
published; brokers reach each other on their network. Containers mount the run directory and write to it, so the engine
must run on this machine.
"""
