"""The engine: two passes over the large tables, with mergeable aggregates as results.

`scan` runs the two Spark jobs. The first gives every part to `survey`, which adds sums, curves and the findings that
one row shows to a `Tally`. From that and the small tables the driver builds `RunFacts`. The second job cuts every part
into blocks (`cut`), brings the blocks of all tables together and lets the rules judge each block.

There are no joins and no sorts of rows: seqs and offsets are dense, so they are indexes into arrays.

| module | content |
|---|---|
| `tally`, `counters` | typed aggregates with sparse distributions, the aggregates of the passes |
| `parts`, `group` | decoding a Parquet part, rows by key |
| `survey`, `segments`, `digest`, `time_buckets` | the first pass |
| `survey_facts` | facts derived from the first pass |
| `blocks`, `cut`, `commits`, `scan` | the second pass |
"""
