"""The driving half of a run: prepare, deploy, drive clients and faults, drain, destroy."""
