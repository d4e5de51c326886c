"""The rules: one per anomaly of `chaos.anomalies`, in one module per family. See `rule.Rule` and `registry.RULES`.

| module | anomalies |
|---|---|
| `write_outcomes` | lost_write, unnoticed_failure, resurrected_write |
| `write_positions` | misplaced_write, misrouted_write, offset_reuse, backdated_write |
| `records` | phantom_write, corrupt_record, returned_record, duplicate_write, reordered_write |
| `transactions` | torn_transaction, hanging_transaction |
| `isolation` | aborted_read, precommitted_read, aborted_share |
| `retention` | overdue_record |
| `undelivered` | skipped_delivery, stalled_delivery, lost_processing, evicted_delivery |
| `deliveries` | duplicate_delivery, dirty_read, nonmonotonic_poll, poll_skip |
| `commits` | overcommit, commit_rewind, zombie_commit |
| `quorum` | competing_controllers |
| `groups` | double_ownership, foreign_commit, unbalanced_assignment, misplaced_coordinator |
| `vanished` | expired_commit, lost_commit |
| `shares` | lost_share, stalled_share, redelivered_share, miscounted_share, lock_overrun, overlimit_share |

`producer_block`, `partition_block` and `share_block` hold the rows of one block as rules see them (for commits:
`engine.commits`); `registry` applies the rules to a block and to the run.
"""
