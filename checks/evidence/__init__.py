"""Rows of a run that need no Spark: the audit's tables, the ledger's small tables, and the outcomes of the faults."""
