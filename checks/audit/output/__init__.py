"""The tables of the audit, from the tally of both passes: `totals`, `mechanisms`, `metrics`, `recovery`, `curves`."""
