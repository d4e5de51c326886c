"""The tables of the audit, from the tally of both passes; `tables` writes them.

Plain Python: the driver has the tally, and the tables have as many rows as checks, scopes and times, never as many as
records. A Spark job for each would take longer than the work.
"""
