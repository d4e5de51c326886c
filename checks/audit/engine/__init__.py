"""The engine: two passes over the large tables, with mergeable aggregates as results.

`scan` runs the two Spark jobs. The first gives every part to `survey`, which adds sums, curves and the findings that
one row shows to a `Tally`. From that and the small tables the driver builds `RunFacts`. The second job cuts every part
into blocks (`cut`), brings the blocks of all tables together and lets the rules judge each block.

There are no joins and no sorts of rows: seqs and offsets are dense, so they are indexes into arrays.
This is why the passes are NumPy over Parquet parts, not DataFrames, which hash or sort each row to join it. One family
of rules as DataFrames (`tests.bench.others`: lost and duplicate writes, skipped and duplicate deliveries) took 5.7
times the CPU, 4.9 times the time and 1.9 times the memory of the audit with all its rules: 45 s, 331 s and 1.9 GiB
against 7.9 s, 68 s and 1.0 GiB, both cold, for 1M records (4M rows), beside much other work on two cores.

| module | content |
|---|---|
| `tally`, `counters` | typed aggregates with sparse distributions, the aggregates of the passes |
| `parts`, `group` | decoding a Parquet part, rows by key |
| `survey`, `summaries`, `time_buckets` | the first pass: what it adds, what it keeps of rows and for curves |
| `blocks`, `cut`, `commits`, `scan` | the second pass |
"""
