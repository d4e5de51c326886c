"""Facts of a run that the rules rely on, as small Python objects on the driver.

There are as many facts as assignments, faults or partitions, never as many as records.

| module | facts |
|---|---|
| `readers` | the readers of a scenario |
| `epochs` | who read which partition from when to when |
| `offset_changes` | committed offsets that a fault deleted or set, and the lives of groups |
| `lost_offsets` | committed offsets that expired or were lost, and groups that began again |
| `starts` | where each epoch began, and whether it may begin there |
| `topic_changes` | lives of topics, and partitions created after a group had begun to read their topic |
| `ranges` | what each reader has to read of each partition |
| `observed` | what the observer recorded over time, such as partition leaders; times of faults |
| `shares` | share groups, their ranges, and what may end their locks early |
| `routes` | the partitions that partitioners promise |
| `run_facts` | everything that executors need to judge blocks of records |
"""
