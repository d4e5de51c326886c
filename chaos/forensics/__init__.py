"""Forensics of a cluster that exists: what its logs still say, read only. No group is joined, nothing is committed.

| part         | module         | what it reads                                                                        |
|--------------|----------------|--------------------------------------------------------------------------------------|
| commits      | `commits`      | `__consumer_offsets`: offset commits, transactions and members of groups            |
| lag          | `session`      | committed offsets and the ends of logs, at the time of asking                        |
| transactions | `transactions` | last stable offsets; DescribeProducers, ListTransactions and DescribeTransactions    |
| duplicates   | `duplicates`   | the records of the topics that are named                                             |
| replicas     | `replicas`     | logs of brokers, if folders are given                                                |

What a part cannot prove, it does not say. The log of commits does not name the member that committed, and compaction
leaves holes in it. So members are known at a commit only if the log has every record between the last complete list of
the members and the commit; else they are unknown, and no commit is foreign. A step of an offset is judged only between
two commits without a hole between them. A tombstone of an expired offset is the same as one of a deletion. A
transaction hangs if its partition says before and after all coordinators were asked that it is open, and no coordinator
has it. Equal contents in two records may be intended; an equal batch with an equal sequence is not.

All records are fetched one request at a time, and a pause after each keeps the bytes below the rate. Memory is bounded
by `commits.MOST_ENTRIES` of one partition, and by `duplicates.MOST_BATCHES` and `MOST_CONTENTS` of one topic; the page
says where a bound was reached.
"""
