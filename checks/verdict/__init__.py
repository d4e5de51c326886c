"""The verdict of a run, from its expectations, fault outcomes and counts."""
