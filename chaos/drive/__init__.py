"""The driving half of a run: prepare it, deploy its cluster, drive clients and faults, destroy the cluster."""
