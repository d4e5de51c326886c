"""Aftershock's second half: from the ledger of a run to a verdict, offline, on any machine with Spark.

`readback` reads the final log from the healed cluster, `audit` derives the findings (`DataFrame -> DataFrame`),
`expectations` holds them against the scenario's contract with Great Expectations, `verdict` merges, `report` shows.
"""
