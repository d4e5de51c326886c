"""The engine: two passes over the large tables, with mergeable aggregates as results.

`scan` runs the two Spark jobs. The first gives every part to `survey`, which adds sums, curves and the findings that
one row shows to a `Tally`. From that and the small tables the driver builds `RunFacts`. The second job cuts every part
into blocks (`cut`), brings the blocks of all tables together and lets the rules judge each block.

There are no joins and no sorts of rows: seqs and offsets are dense, so they are indexes into arrays.
This is why the passes are NumPy over Parquet parts, not DataFrames, which hash or sort each row to join it. One family
of rules as DataFrames (`tests.bench.others`: lost and duplicate writes, skipped and duplicate deliveries), compared
with the audit and all its rules, both cold, on the same ledger, beside other work on two cores:

| records sent (rows) | CPU | wall | memory |
|---|---|---|---|
| 1M (4M) | 45 s : 7.9 s = 5.7 | 331 s : 68 s = 4.9 | 1.9 GiB : 1.0 GiB |
| 10M (40M) | 197 s : 25 s = 7.8 | 375 s : 39 s = 9.7 | 8.9 GiB : 1.6 GiB; no result with a heap of 4 GiB |

| module | content |
|---|---|
| `tally`, `counters` | typed aggregates with sparse distributions, the aggregates of the passes |
| `parts`, `group` | decoding a Parquet part, rows by key |
| `survey`, `summaries`, `time_buckets` | the first pass: what it adds, what it keeps of rows and for curves |
| `blocks`, `cut`, `commits`, `scan` | the second pass |
"""
