"""The Spark session of the checks: on this machine or on a cluster."""
