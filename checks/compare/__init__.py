"""Comparison of topics on two sides, A and B, record by record, with bounded memory at any number of records.

| step    | module   | what happens                                                                                    |
|---------|----------|-------------------------------------------------------------------------------------------------|
| cut     | `sides`  | the ends of B, then of A: so B has no record below its end that A did not have                  |
| read    | `read`   | Spark tasks read ranges of offsets: per record its place, timestamp, and 64-bit hashes of key,  |
|         |          | value and headers, in Parquet files with one row group for each bucket of hashes                |
| match   | `match`  | tasks match bucket by bucket, the n-th copy in A with the n-th in B: by content, then in other  |
|         |          | partitions, by key, and by value, headers and timestamp                                         |
| order   | `order`  | tasks look at matched records in the order of B, block by block of offsets                      |
| judge   | `judge`  | what nothing matched is missing, extra, behind, or not comparable                               |
| name    | `name`   | the few records that are named are read again, for key and difference                           |

Definitions. Reordered in a partition is the smaller of two numbers: matched records that stand in B behind one which
follows them in A (late), and matched records that stand in B before one which precedes them in A (early): one record
that moved counts once, in whichever direction. Not comparable (`unknown`) is a record without a match before the first
matched record of its partition, if the log of the other side begins later than at offset 0; retention may have removed
it there; and a record behind the last matched one, if a transaction is open on the other side. Behind is a record of A
without a match after the last matched one of its partition, if the log of either side grew meanwhile. Where partitions
do not correspond, and of a compacted topic, no place shows whether a record was removed or is still to come, and each
record without a match is undecided there.

Records of aborted transactions and control records are never read (read_committed); the end is the last stable offset.
A difference is overlooked only if two different keys, values or headers have one hash: for n records without a
counterpart on each side, with a probability of at most n^2 / 2^64. The work is numpy on Spark's Python workers, as in
the audit and for the same reason: rows would pass from the JVM more slowly than a bucket is sorted.
"""
