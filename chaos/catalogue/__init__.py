"""The catalogue: all shipped scenarios, run on as few clusters as possible.

`runner` lists the entries with what each must show, and runs them in the lab (`chaos.lab`), with one lent cluster for
each worker. A scenario uses the cluster of an earlier one only if both need the same specification
(`chaos.drive.stages.cluster_spec`) and the cluster is healthy and empty (`chaos.cluster.lifecycle.lending`). No
scenario runs again because of its verdict.
"""
