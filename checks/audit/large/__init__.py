"""What is as many as the records: read in parts, looked at twice, told in tallies.

`scan` runs the two Spark jobs. The first hands every part to `survey`, which adds sums, curves and what can be judged
from a row alone to a `tally`. From that and the small tables the driver makes the `case`: who read what from where. The
second job `cut`s every part into blocks, brings the blocks of all tables together and lets the rules in `write_path`
and `read_path` judge each. `columns` decodes a part, `group` and `times` reduce rows, `pack` makes columns small enough
to travel. There are no joins and no sorts of rows: seqs and offsets are dense, so they are places in an array.
"""
