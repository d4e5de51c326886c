"""The tables of the audit, from the tally of both passes; `tables` writes them.

Plain Python: the driver has the tally, and the tables have as many rows as checks, scopes and times, never as many as
records. A Spark job for each would take longer than the work, as for the rules of small tables. `double_ownership` of
60 assignments takes 0.3 ms in Python, and 0.8 s as a self-join of a Parquet file in a warm session. For 600, these are
30 ms and 1.0 s (the fastest of seven, on two cores that were busy with other work).
"""
