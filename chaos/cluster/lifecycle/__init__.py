"""The end of a cluster, whoever causes it: the reaper, garbage collection and lending."""
