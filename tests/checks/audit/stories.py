"""For each check a history that breaks it, one that is clean, and one that comes near.

`expect` names the findings of a story; every other check must find nothing in it. A check with a split is written
`duplicate_delivery.legal`. The sets below say of checks what no single history shows.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable

from checks.audit.engine.blocks import BLOCK_BITS
from tests.checks.audit.story import STEP_US, Epoch, Story

Expected = dict[str, int]
STORIES: dict[str, tuple[Callable[[Story], None], Expected]] = {}
BLOCK = 1 << BLOCK_BITS
"""Number of the first seq, or offset, of the second block."""
SECOND = 1_000_000
APPLY_TO_EVERY_SCENARIO = {
    *("lost_write", "duplicate_write", "reordered_write", "misplaced_write", "phantom_write", "corrupt_record"),
    *("resurrected_write", "offset_reuse", "backdated_write"),
}
"""Checks that have something to examine in a scenario with one producer and nothing else."""
COMPARE_TIMES = {
    *("duplicate_delivery", "lost_processing", "overcommit", "commit_rewind", "foreign_commit"),
    *("zombie_commit", "precommitted_read", "backdated_write", "hanging_transaction"),
    *("returned_record", "expired_commit", "lost_commit"),
    *("redelivered_share", "miscounted_share", "lock_overrun", "competing_controllers", "overdue_record"),
}
"""Checks that a clock that ran backwards makes undecidable."""
COMPARE_LOG_TIMES = {"returned_record", "lost_share", "missing_output", "duplicate_output", "unconsumed_output"}
"""Checks that compare times of records in the log with others."""


def story(**expect: int) -> Callable[[Callable[[Story], None]], Callable[[Story], None]]:
    def register(write: Callable[[Story], None]) -> Callable[[Story], None]:
        STORIES[write.__name__] = write, {name.replace("__", "."): count for name, count in expect.items()}
        return write

    return register


# --- the write path


@story()
def all_is_well(s: Story) -> None:
    s.wrote(0, 1, 2)
    s.assigned(generation=1).got(0, 1).commit(2).got(2).commit(3).revoked()


@story(lost_write=1, offset_reuse=1)
def acked_and_gone(s: Story) -> None:
    s.observed("leader", 2).observed("leader_epoch", 3).observed("isr", "[1, 2, 3]")
    s.producer_config = {"acks": "1"}
    s.wrote(0).send(1, 1).send(2, 2)
    s.fault("injected").observed("leader", 1).observed("leader_epoch", 4)
    s.log(1, 2, timestamp_us=s.now).rows["sends"][-1]["offset"] = 1


@story(lost_write=1, offset_reuse=1)
def acked_at_an_offset_that_has_the_same_number_of_the_next_life(s: Story) -> None:
    s.wrote(0).send(1, 1)
    s.send(1, outcome="unknown", incarnation=2).log(1, 1, incarnation=2)


@story()
def timed_out_and_gone(s: Story) -> None:
    s.wrote(0).send(1, outcome="unknown").send(2, outcome="fail")


@story()
def acked_and_evicted(s: Story) -> None:
    s.evicted(1)
    s.send(0, 0).wrote(1)


@story(lost_write=2)
def gone_though_nothing_deletes(s: Story) -> None:
    """The default retention of a week is not over."""
    s.log_start = 2
    s.send(0, 0).send(1, 1).wrote(2)


@story(lost_write=1)
def gone_beyond_what_was_deleted(s: Story) -> None:
    s.log_start = 2
    s.send(0, 0).send(1, 1).wrote(2).cut(1)


@story()
def gone_after_a_deletion_without_proof(s: Story) -> None:
    s.log_start = 2
    s.send(0, 0).send(1, 1).wrote(2).cut(1, phase="injected")


@story(lost_write=1)
def gone_though_the_retention_is_an_hour(s: Story) -> None:
    s.log_start, s.topic_config = 1, {"retention.ms": 3_600_000}
    s.send(0, 0).wrote(1)


CHECKED_US = 11_000_000
"""The interval of checks of retention, and the time by which one may be late."""


CLEANED_US = 40_000_000
"""The time between two looks of the cleaner, for its work, and by which it may be late."""


def _superseded(s: Story, *keys: str, lag_ms: int = 2_000, last: str = "k3") -> None:
    """Records of keys in a segment that ended, and 14.5 s later one in the active segment."""
    s.compacted().topic_config["max.compaction.lag.ms"] = lag_ms
    for seq, key in enumerate(keys):
        s.wrote(seq, key=key)
    s.tick_on(14_500_000).wrote(len(keys), key=last)
    s.read_from_us = s.now + 1_000_000 + CLEANED_US


@story(overdue_record=2)
def superseded_and_kept_beyond_the_lag(s: Story) -> None:
    _superseded(s, "k1", "k1", "k2", "k1")


@story()
def superseded_by_a_record_of_the_active_segment(s: Story) -> None:
    _superseded(s, "k1", last="k1")


@story()
def superseded_and_kept_within_the_lag(s: Story) -> None:
    _superseded(s, "k1", "k1", lag_ms=6_000)


@story()
def superseded_in_a_segment_that_nothing_ended(s: Story) -> None:
    _superseded(s, "k1", "k1")
    for table in ("sends", "log"):
        s.rows[table].pop()


@story()
def superseded_and_removed_in_time(s: Story) -> None:
    _superseded(s, "k1", "k1")
    s.rows["log"].pop(0)


@story()
def superseded_for_as_long_as_the_cleaner_likes(s: Story) -> None:
    _superseded(s, "k1", "k1")
    del s.topic_config["max.compaction.lag.ms"]


@story(lost_key=1)
def compacted_before_the_least_lag(s: Story) -> None:
    s.compacted().topic_config["min.compaction.lag.ms"] = 60_000
    s.send(0, 0, key="k1").wrote(1, key="k1").read_back()


@story()
def compacted_when_the_least_lag_may_have_been_over(s: Story) -> None:
    s.compacted().topic_config["min.compaction.lag.ms"] = 60_000
    s.send(0, 0, key="k1").wrote(1, key="k1").tick_on(51_000_000).read_back()


@story()
def kept_for_the_least_lag(s: Story) -> None:
    s.compacted().topic_config["min.compaction.lag.ms"] = 60_000
    s.wrote(0, 1, key="k1").read_back()


@story(overdue_record=3)
def kept_beyond_its_time(s: Story) -> None:
    """Nothing was written since, so even the last segment is due."""
    s.topic_config = {"retention.ms": 2_000}
    s.wrote(0, 1, 2).read_from_us = s.now + 2_500_000 + CHECKED_US


@story(overdue_record=2, lost_write=1)
def kept_beyond_its_time_beside_an_acknowledgement_without_an_offset(s: Story) -> None:
    """Nobody knows whether that one was due."""
    s.topic_config = {"retention.ms": 2_000}
    s.wrote(0, 1).send(2).read_from_us = s.now + 2_500_000 + CHECKED_US


@story()
def kept_until_the_next_check(s: Story) -> None:
    s.topic_config = {"retention.ms": 2_000}
    s.wrote(0, 1, 2).read_from_us = s.now + 1_500_000 + CHECKED_US


@story()
def kept_in_the_segment_of_a_later_record(s: Story) -> None:
    s.topic_config = {"retention.ms": 2_000}
    s.wrote(0, 1).tick_on(20_000_000)
    s.wrote(2).read_from_us = s.now + 1_000_000


@story(overdue_record=2)
def kept_in_a_segment_that_is_over_by_its_time(s: Story) -> None:
    s.topic_config = {"retention.ms": 2_000, "segment.ms": 1_000}
    s.wrote(0, 1).tick_on(20_000_000)
    s.wrote(2).read_from_us = s.now + 1_000_000


@story(overdue_record=7)
def kept_in_a_segment_that_is_over_by_its_size(s: Story) -> None:
    """Three records of 500,000 bytes do not fit into a segment."""
    s.topic_config, s.sending = {"retention.ms": 2_000, "segment.bytes": 2**20}, {"value_size": 500_000}
    s.wrote(*range(10)).tick_on(20_000_000)
    s.wrote(10).read_from_us = s.now + 1_000_000


@story()
def kept_in_a_segment_that_may_have_room_for_compressed_records(s: Story) -> None:
    s.topic_config = {"retention.ms": 2_000, "segment.bytes": 2**20, "compression.type": "gzip"}
    s.sending = {"value_size": 500_000}
    s.wrote(*range(10)).tick_on(20_000_000)
    s.wrote(10).read_from_us = s.now + 1_000_000


@story()
def kept_behind_a_record_of_unknown_time(s: Story) -> None:
    s.topic_config = {"retention.ms": 2_000}
    s.wrote(0).send(1, outcome="unknown").log(1, 1).read_from_us = s.now + 20_000_000


@story()
def kept_without_an_end(s: Story) -> None:
    s.topic_config = {"retention.ms": -1}
    s.wrote(0).read_from_us = s.now + 10**12


@story()
def kept_in_a_compacted_topic(s: Story) -> None:
    s.compacted().topic_config["retention.ms"] = 2_000
    s.wrote(0, key="k1").read_from_us = s.now + 20_000_000


@story(evicted_delivery=1)
def its_timestamps_are_seconds(s: Story) -> None:
    """The topic keeps a week, and Kafka takes the times for times in 1970."""
    s.log_start, s.sending = 1, {"timestamps": "seconds"}
    s.send(0, 0).wrote(1).assigned().got(1).commit(2)


@story(lost_write=1)
def its_timestamps_are_too_recent_for_retention(s: Story) -> None:
    s.log_start, s.sending = 1, {"timestamps": "-6d"}
    s.send(0, 0).wrote(1)


@story(lost_write=1)
def the_brokers_set_the_timestamps(s: Story) -> None:
    s.log_start, s.sending = 1, {"timestamps": "seconds"}
    s.topic_config = {"message.timestamp.type": "LogAppendTime"}
    s.send(0, 0).wrote(1)


@story(lost_key=1)
def gone_from_a_compacted_topic_whatever_its_timestamp(s: Story) -> None:
    s.compacted().log_start, s.sending = 1, {"keys": 9, "timestamps": "seconds"}
    s.send(0, 0, key="k1").wrote(1, key="k2")


@story()
def gone_from_a_topic_that_also_deletes(s: Story) -> None:
    s.compacted().log_start, s.sending = 1, {"keys": 9, "timestamps": "seconds"}
    s.topic_config["cleanup.policy"] = "compact,delete"
    s.send(0, 0, key="k1").wrote(1, key="k2")


@story(lost_write__undecided=1)
def acks_0_and_gone_or_expired(s: Story) -> None:
    s.log_start, s.topic_config, s.producer_config = 1, {"retention.ms": 1000}, {"acks": "0"}
    s.send(0, None).send(1, None).log(1, 1)


@story(lost_key=1)
def gone_from_the_start_of_a_compacted_topic(s: Story) -> None:
    s.compacted().log_start = 1
    s.send(0, 0, key="k1").wrote(1, key="k2")


@story(lost_write=1, dirty_read=1)
def delivered_and_then_gone_though_nothing_deletes(s: Story) -> None:
    s.log_start = 1
    s.send(0, 0).wrote(1).assigned().got(0, 1).commit(2)


@story(lost_write=1)
def acks_0_and_gone(s: Story) -> None:
    s.producer_config = {"acks": "0"}
    s.send(0, None).log(0, 0).send(1, None)


@story(lost_write__undecided=1)
def acks_0_and_gone_or_evicted(s: Story) -> None:
    s.evicted(1)
    s.send(0, None).wrote(1)


@story()
def compacted_away(s: Story) -> None:
    s.compacted().send(0, 0, key="k1").send(1, 1, key="k1").log(2, 2, key="k1").send(2, 2, key="k1").wrote(3, key="k2")


@story(lost_key=1)
def the_last_of_its_key_is_gone(s: Story) -> None:
    s.compacted().wrote(0, key="k1").send(1, 1, key="k1").wrote(2, key="k2")


@story(lost_key=1, phantom_write=1)
def the_last_of_its_key_is_gone_and_a_record_of_another_run_has_its_number(s: Story) -> None:
    s.compacted().send(0, 0, key="k1").wrote(1, key="k2").log(2, 0, key="k3", run="0badf00d")


@story(lost_key=1)
def several_of_a_key_are_gone(s: Story) -> None:
    s.compacted().send(0, 0, key="k1").send(1, 1, key="k1").wrote(2, key="k2")


@story(lost_key=1)
def its_key_went_on_in_another_partition(s: Story) -> None:
    s.partitions, s.sending = 2, {"partitioner": "round_robin"}
    s.compacted().send(0, 0, key="k1").wrote(1, key="k1", partition=1)


@story()
def superseded_by_a_record_that_timed_out(s: Story) -> None:
    s.compacted().send(0, 0, key="k1").send(1, outcome="unknown", key="k1").log(1, 1, key="k1")


@story(lost_key=1)
def what_timed_out_supersedes_nothing_if_it_is_gone(s: Story) -> None:
    s.compacted().send(0, 0, key="k1").send(1, outcome="unknown", key="k1").wrote(2, key="k2")


@story(lost_key=1)
def what_was_aborted_supersedes_nothing(s: Story) -> None:
    s.compacted().send(0, 0, key="k1").send(1, 1, key="k1", txn=1).log(1, 1, key="k1", committed=False)
    s.transaction(1, "aborted", s.now)


@story(lost_key__undecided=1)
def perhaps_superseded_in_a_transaction(s: Story) -> None:
    s.compacted().send(0, 0, key="k1").send(1, 1, key="k1", txn=1).transaction(1, "unknown", s.now)


@story()
def a_committed_record_is_superseded(s: Story) -> None:
    s.compacted().send(0, 0, key="k1", txn=1).transaction(1, "committed", s.now).wrote(1, key="k1")


@story(lost_key__undecided=1)
def a_log_without_its_keys(s: Story) -> None:
    s.compacted().send(0, 0, key="k1").send(1, outcome="unknown", key="k1").log(1, 1)


@story(lost_key__undecided=1)
def acks_0_of_a_key(s: Story) -> None:
    s.producer_config = {"acks": "0"}
    s.compacted().send(0, None, key="k1").send(1, None, key="k2").log(1, 1, key="k2")


@story()
def evicted_with_its_key(s: Story) -> None:
    s.evicted(1)
    s.compacted().send(0, 0, key="k1").wrote(1, key="k2")


@story(unnoticed_failure=1, unnoticed_failure__undecided=1)
def forgotten_in_a_compacted_topic(s: Story) -> None:
    s.sending = {"mode": "fire_and_forget"}
    s.compacted().send(0, outcome="fail", key="k1").send(1, outcome="unknown", key="k1").wrote(2, key="k1")


@story()
def a_tombstone_has_expired_after_what_it_deleted(s: Story) -> None:
    s.deleting().send(0, 0, key="k1").send(1, 1, key="k1").wrote(2, key="k2").tick(2 * SECOND)
    s.read_back()


@story(lost_key=1)
def a_tombstone_is_gone_before_its_time(s: Story) -> None:
    s.deleting(9_000).send(0, 0, key="k1").send(1, 1, key="k1").wrote(2, key="k2").tick(2 * SECOND)
    s.read_back()


@story(resurrected_key=1)
def a_deleted_key_has_its_value_again(s: Story) -> None:
    s.deleting().wrote(0, key="k1").send(1, 1, key="k1").wrote(2, key="k2").tick(2 * SECOND)
    s.read_back()


@story(resurrected_key__undecided=1)
def a_tombstone_may_have_expired_while_the_log_was_read(s: Story) -> None:
    """A reader that lags more than delete.retention.ms may get the value and not the tombstone."""
    s.deleting().wrote(0, key="k1").send(1, 1, key="k1").wrote(2, key="k2").tick(2 * SECOND)
    s.read_back(took_us=SECOND)


@story(resurrected_key=1)
def a_log_read_just_in_time_shows_each_tombstone(s: Story) -> None:
    s.deleting().wrote(0, key="k1").send(1, 1, key="k1").wrote(2, key="k2").tick(2 * SECOND)
    s.read_back(took_us=SECOND - 1)


@story(resurrected_key=1)
def a_tombstone_cannot_have_expired_however_long_the_log_was_read(s: Story) -> None:
    s.deleting(9_000).wrote(0, key="k1").send(1, 1, key="k1").wrote(2, key="k2")
    s.read_back(took_us=8 * SECOND)


@story(resurrected_key__undecided=1)
def nobody_knows_for_how_long_the_log_was_read(s: Story) -> None:
    s.deleting().wrote(0, key="k1").send(1, 1, key="k1").wrote(2, key="k2").tick(2 * SECOND)
    s.read_back().read_from_us = None


@story()
def a_tombstone_has_expired_before_an_earlier_one_of_its_key(s: Story) -> None:
    """The earlier one is no value that came back."""
    s.deleting().wrote(1, key="k1").send(3, 3, key="k1").wrote(4, key="k2").tick(2 * SECOND)
    s.read_back()


@story()
def a_value_is_superseded_beside_a_tombstone_that_timed_out(s: Story) -> None:
    s.deleting().send(0, 0, key="k1").send(1, outcome="unknown", key="k1").wrote(2, key="k1").tick(2 * SECOND)
    s.read_back()


@story()
def a_tombstone_stays(s: Story) -> None:
    s.deleting().wrote(0, 1, key="k1").tick(2 * SECOND)
    s.read_back()


@story()
def a_key_is_written_again_after_its_tombstone(s: Story) -> None:
    s.deleting().wrote(0, key="k1").send(1, 1, key="k1").wrote(2, key="k1").tick(2 * SECOND)
    s.read_back()


@story(lost_key__undecided=1)
def nobody_knows_when_the_log_without_a_tombstone_was_read(s: Story) -> None:
    s.deleting().send(1, 1, key="k1").wrote(2, key="k2")


@story(lost_key__undecided=1)
def a_value_perhaps_deleted_by_a_tombstone_that_timed_out(s: Story) -> None:
    s.deleting().send(0, 0, key="k1").send(1, outcome="unknown", key="k1").wrote(2, key="k2").tick(2 * SECOND)
    s.read_back()


@story(lost_key=1)
def a_tombstone_that_timed_out_cannot_have_expired_yet(s: Story) -> None:
    s.deleting(9_000).send(0, 0, key="k1").send(1, outcome="unknown", key="k1").wrote(2, key="k2").tick(2 * SECOND)
    s.read_back()


@story(lost_key=1)
def a_value_is_not_deleted_by_a_value_that_timed_out(s: Story) -> None:
    s.deleting().send(0, 0, key="k1").send(2, outcome="unknown", key="k1").wrote(4, key="k2").tick(2 * SECOND)
    s.read_back()


@story()
def every_third_record_is_a_tombstone_and_one_has_expired(s: Story) -> None:
    s.deleting().sending |= {"tombstone_every": 3}
    s.send(0, 0, key="k1").send(2, 2, key="k1").wrote(3, key="k2").tick(2 * SECOND)
    s.read_back()


@story(lost_key=1)
def a_tombstone_of_another_key_deletes_nothing(s: Story) -> None:
    s.deleting().send(0, 0, key="k1").send(1, outcome="unknown", key="k3").wrote(2, key="k2").tick(2 * SECOND)
    s.read_back()


@story(lost_key__undecided=1)
def a_value_perhaps_deleted_by_a_tombstone_without_a_row(s: Story) -> None:
    s.deleting().life(s.producer, "started").send(0, 0, key="k1").wrote(2, key="k2").life(s.producer, "crashed")
    s.tick(2 * SECOND)
    s.read_back()


def _sent_again_in_vain(s: Story) -> None:
    """Restart the producer, fail to send the tombstone, and write another key."""
    s.life(s.producer, "started", incarnation=2).send(1, outcome="fail", key="k1", incarnation=2)
    s.wrote(2, key="k2", incarnation=2).life(s.producer, "stopped", incarnation=2).tick(2 * SECOND)
    s.read_back()


@story(lost_key__undecided=1)
def a_value_perhaps_deleted_by_a_tombstone_of_an_earlier_incarnation(s: Story) -> None:
    """The row of the tombstone died with its producer, and it failed when the next incarnation sent it again."""
    s.deleting().life(s.producer, "started").send(0, 0, key="k1").life(s.producer, "crashed")
    _sent_again_in_vain(s)


@story(lost_key=1)
def a_tombstone_of_an_earlier_incarnation_cannot_have_expired_yet(s: Story) -> None:
    s.deleting(9_000).life(s.producer, "started").send(0, 0, key="k1").life(s.producer, "crashed")
    _sent_again_in_vain(s)


@story(lost_key=1)
def nothing_is_torn_when_each_incarnation_stopped(s: Story) -> None:
    s.deleting().life(s.producer, "started").send(0, 0, key="k1").life(s.producer, "stopped")
    _sent_again_in_vain(s)


@story(lost_key__undecided=1, resurrected_key__undecided=1)
def a_tombstone_is_gone_and_an_earlier_value_perhaps_visible(s: Story) -> None:
    s.deleting().send(0, 0, key="k1").log(0, 0, key="k1", committed=None).send(1, 1, key="k1").tick(2 * SECOND)
    s.read_back()


@story()
def evicted_from_a_topic_that_is_also_cut(s: Story) -> None:
    """cleanup.policy=compact,delete: what retention removed is evicted, whatever its key."""
    s.compacted().evicted(1).send(0, 0, key="k1").wrote(1, key="k2")


@story(skipped_delivery=1, poll_skip=1)
def the_last_value_of_a_key_is_skipped(s: Story) -> None:
    """What was removed is not owed; what is left is."""
    s.compacted().send(0, 0, key="k1").wrote(1, key="k1").wrote(2, key="k2").wrote(3, key="k3")
    s.assigned().got(1, 3).revoked()


@story(lost_write=1, offset_reuse=1)
def another_incarnation_is_no_substitute(s: Story) -> None:
    s.life(s.producer, "started", "crashed")
    s.send(0, 0).log(0, 0, incarnation=2).send(0, 0, incarnation=2).life(
        s.producer, "started", "stopped", incarnation=2
    )


@story(duplicate_write=2)
def written_three_times(s: Story) -> None:
    s.wrote(0).log(1, 0).log(2, 0)


@story(duplicate_write=1)
def written_again_after_a_restart(s: Story) -> None:
    s.life(s.producer, "started").wrote(0).life(s.producer, "crashed").life(s.producer, "started", incarnation=2)
    s.send(0, 1, incarnation=2).log(1, 0, incarnation=2).life(s.producer, "stopped", incarnation=2)


@story()
def same_seq_of_another_producer(s: Story) -> None:
    s.wrote(0).send(0, 1, producer="other/1").log(1, 0, producer="other/1").life("other/1", "started", "stopped")


@story(reordered_write=1)
def out_of_order(s: Story) -> None:
    s.send(0, 1).send(1, 0).log(0, 1).log(1, 0)


@story(duplicate_write=1)
def out_of_order_only_by_a_copy(s: Story) -> None:
    s.wrote(0, 1).log(2, 0)


@story(reordered_write=1)
def out_of_order_over_two_blocks(s: Story) -> None:
    s.send(0, 1).log(1, 0).send(BLOCK, 0).log(0, BLOCK)


@story()
def in_order_over_two_blocks(s: Story) -> None:
    s.send(0, 0).log(0, 0).send(BLOCK, 1).log(1, BLOCK)


@story()
def in_order_in_each_partition(s: Story) -> None:
    s.partitions = 2
    s.send(0, 0, partition=1).log(0, 0, partition=1).send(1, 0).log(0, 1)


@story(misplaced_write=1)
def acked_elsewhere(s: Story) -> None:
    s.wrote(0).send(1, 5).log(1, 1)


@story(misplaced_write=1)
def acked_in_another_partition(s: Story) -> None:
    s.partitions = 2
    s.send(0, 0).log(0, 0, partition=1)


@story(duplicate_write=1)
def acked_where_one_copy_is(s: Story) -> None:
    s.send(0, 1).log(0, 0).log(1, 0)


@story(phantom_write=1)
def not_one_of_ours(s: Story) -> None:
    s.wrote(0).log(1, None)


@story(lost_write=1, phantom_write=1)
def not_one_of_ours_at_an_acknowledged_offset(s: Story) -> None:
    """A record without an identity may be any record: its offset was not used twice."""
    s.wrote(0).send(1, 1).log(1, None)


@story(phantom_write=1)
def of_another_run(s: Story) -> None:
    s.wrote(0).log(1, 1, run="00000000")


@story(phantom_write=1)
def of_an_incarnation_that_never_was(s: Story) -> None:
    s.wrote(0).log(1, 1, incarnation=9)


@story(phantom_write=1)
def stopped_without_having_sent_it(s: Story) -> None:
    s.wrote(0).log(1, 1).life(s.producer, "started", "stopped")


@story()
def its_row_died_with_the_producer(s: Story) -> None:
    s.wrote(0).log(1, 1).life(s.producer, "started", "crashed")


@story(corrupt_record=1)
def bits_flipped(s: Story) -> None:
    s.wrote(0).send(1, 1).log(1, 1, crc_ok=False)


@story(returned_record=2)
def deleted_records_are_back(s: Story) -> None:
    s.wrote(0, 1, 2).cut(2).wrote(3)


@story()
def deleted_and_gone(s: Story) -> None:
    s.evicted(2)
    s.send(0, 0).send(1, 1).wrote(2).cut(2).wrote(3)


@story()
def a_deletion_without_proof(s: Story) -> None:
    s.wrote(0, 1, 2).cut(2, phase="injected")


@story(returned_record=1)
def deleted_further_later(s: Story) -> None:
    s.evicted(1)
    s.send(0, 0).wrote(1, 2).cut(1).wrote(3).cut(2).cut(1)


@story(returned_record=1)
def deleted_twice_and_back(s: Story) -> None:
    s.wrote(0).cut(1).cut(1)


@story()
def written_in_the_moment_of_the_deletion_or_nobody_knows_when(s: Story) -> None:
    s.cut(2)
    s.log(0, 0, timestamp_us=s.now).send(0, 0).send(1, 1).log(1, 1, timestamp_us=None)


@story()
def written_again_after_the_deletion(s: Story) -> None:
    """The log lost everything, so its offsets begin again."""
    s.cut(2).wrote(0, 1)


@story(returned_record=1)
def deleted_in_another_partition(s: Story) -> None:
    s.partitions = 2
    s.send(0, 0).log(0, 0).send(1, 0, partition=1).log(0, 1, partition=1).cut(1, partition=1)


# --- how producers send


def _in_turn(s: Story, *partitions: int | None, outcome: str = "ok") -> None:
    """Records 0, 1, ... of a producer that is to take two partitions in turn."""
    s.partitions, s.sending = 2, {"partitioner": "round_robin"}
    for seq, partition in enumerate(partitions):
        s.send(seq, 10 + seq if outcome == "ok" else None, outcome, partition=partition)
        s.log(10 + seq, seq, partition=partition or 0)


@story(misrouted_write=2)
def not_in_turn(s: Story) -> None:
    _in_turn(s, 0, 1, 1, 0)


@story()
def in_turn(s: Story) -> None:
    _in_turn(s, 0, 1, 0, 1)


@story()
def not_in_turn_as_far_as_anybody_knows(s: Story) -> None:
    _in_turn(s, 0, 0, outcome="unknown")


@story()
def acked_in_an_unknown_partition(s: Story) -> None:
    _in_turn(s, None, None)


@story(misrouted_write=1)
def in_another_partition_than_its_key_has(s: Story) -> None:
    s.partitions, s.sending = 2, {"partitioner": "by_key_number", "keys": 4}
    s.send(0, 0, key="k3").log(0, 0).send(1, 1, key="k2").log(1, 1).send(2, 2).log(2, 2)


@story()
def by_its_key_before_and_after_a_partition_was_added(s: Story) -> None:
    s.partitions, s.added, s.sending = 2, 1, {"partitioner": "by_key_number", "keys": 6}
    s.send(0, 0, key="k5", partition=1).log(0, 0, partition=1)
    s.send(1, 0, key="k5", partition=2).log(0, 1, partition=2)


@story(misrouted_write=1)
def in_a_partition_that_no_number_of_partitions_gives_its_key(s: Story) -> None:
    s.partitions, s.added, s.sending = 2, 1, {"partitioner": "by_key_number", "keys": 6}
    s.send(0, 0, key="k5", partition=0).log(0, 0)
    s.send(1, 0, key="k4", partition=1).log(0, 1, partition=1)


@story()
def by_a_hash_of_its_key(s: Story) -> None:
    s.partitions, s.sending = 2, {"partitioner": "consistent_random", "keys": 4}
    for seq in range(4):
        partition = zlib.crc32(f"k{seq}".encode()) % 2
        s.send(seq, seq, key=f"k{seq}", partition=partition).log(seq, seq, partition=partition)


@story(misrouted_write=1)
def not_in_turn_before_and_after_the_topic_was_deleted(s: Story) -> None:
    """The deleted topic may have had another number of partitions."""
    s.partitions, s.sending = 2, {"partitioner": "round_robin"}
    s.observed("leader_epoch", 0).send(0, 0, partition=1).deleted()
    s.send(1, 0, partition=1).log(0, 1, partition=1).send(2, 1, partition=1).log(1, 2, partition=1)


@story(unnoticed_failure=2)
def failed_and_nobody_looked(s: Story) -> None:
    s.sending = {"mode": "fire_and_forget"}
    s.wrote(0).send(1, outcome="fail").send(2, outcome="unknown")


@story()
def unanswered_and_there(s: Story) -> None:
    s.sending = {"mode": "fire_and_forget"}
    s.wrote(0).send(1, outcome="unknown").log(1, 1)


@story()
def failed_and_waited_for(s: Story) -> None:
    s.sending = {"mode": "synchronous"}
    s.wrote(0).send(1, outcome="fail").send(2, outcome="unknown")


# --- the read path


@story(skipped_delivery=1, poll_skip=1)
def left_out_in_one_assignment(s: Story) -> None:
    s.wrote(0, 1, 2).assigned().got(0, 2).commit(3)


@story(skipped_delivery=1)
def left_out_between_two_owners(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).revoked()
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3)
    s.rows["commits"][0]["requested_us"] = s.now  # the start is not explained by any commit
    s.rows["assignments"][-1]["source"] = "start"


@story(duplicate_delivery__legal=1)
def overtaken_in_a_pool_and_not_committed(s: Story) -> None:
    s.consumer = {"workers": {}}
    s.members = 2
    first = s.wrote(0, 1, 2).assigned(1, generation=1).got(0)
    s.ordinal += 1  # 1 was polled, and its worker died with it
    first.got(2).commit(1)
    s.life(s.reader(1), "crashed", role="consumer")
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3)


@story(lost_processing=1)
def overtaken_in_a_pool_and_committed(s: Story) -> None:
    s.consumer = {"workers": {"tracking": "naive"}}
    s.members = 2
    first = s.wrote(0, 1, 2, 3).assigned(1, generation=1).got(0)
    s.ordinal += 1
    first.got(2).commit(3)
    s.life(s.reader(1), "crashed", role="consumer")
    s.assigned(2, position=3, source="committed", generation=2).got(3).commit(4)


@story(skipped_delivery=1)
def overtaken_in_a_pool_and_never_done(s: Story) -> None:
    """The commit is not past the record."""
    s.consumer = {"workers": {}}
    first = s.wrote(0, 1, 2).assigned(generation=1).got(0)
    s.ordinal += 1
    first.got(2).commit(1).died()


@story(lost_processing=1, skipped_delivery=1, poll_skip=1)
def overtaken_in_a_pool_and_left_out_by_another_group(s: Story) -> None:
    """What a member of a group did not finish is no explanation for another group."""
    s.second_group, s.second_entry = s.out, s.consumer_config
    s.consumer = {"workers": {"tracking": "naive"}}
    first = s.wrote(0, 1, 2).assigned(generation=1).got(0)
    s.ordinal += 1
    first.got(2).commit(3).died()
    s.assigned(0, generation=1).got(0, 2).commit(3)


@story(skipped_delivery=1, poll_skip=1)
def left_out_by_the_poll_of_a_pool(s: Story) -> None:
    s.consumer = {"workers": {}}
    s.wrote(0, 1, 2).assigned().got(0, 2).commit(3)


@story()
def gap_left_by_a_marker(s: Story) -> None:
    s.wrote(0).send(1, 2).log(2, 1)
    s.assigned().got(0).got(2, seq=lambda _: 1).commit(3)


@story()
def before_the_range(s: Story) -> None:
    s.consumer_config = {}
    s.wrote(0, 1, 2).assigned(position=1).got(1, 2).commit(3)


@story(stalled_delivery=2)
def tail_not_reached(s: Story) -> None:
    s.wrote(0, 1, 2).assigned().got(0).commit(1)


def _away(s: Story, reset: str = "latest") -> Epoch:
    """One record is read, nothing is committed, and two records are written while nobody reads."""
    s.members, s.consumer_config = 2, {"auto.offset.reset": reset}
    epoch = s.wrote(0).assigned().got(0).died()
    s.wrote(1, 2)
    return epoch


@story(skipped_delivery=2)
def gone_to_the_end_and_nothing_came_after(s: Story) -> None:
    _away(s)
    s.assigned(2, position=3, source="reset", generation=2)


@story()
def gone_to_the_end_and_back(s: Story) -> None:
    _away(s)
    s.assigned(2, position=3, source="reset", generation=2)
    s.assigned(2, position=1, source="seek", generation=2).got(1, 2)


@story(stalled_delivery=2)
def gone_to_the_end_and_on_the_way_back(s: Story) -> None:
    """A longer drain would have helped."""
    _away(s)
    s.assigned(2, position=3, source="reset", generation=2)
    s.assigned(2, position=1, source="seek", generation=2)


@story(skipped_delivery=1)
def sought_beyond_a_record_and_nothing_came_after(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0)
    s.assigned(position=2, source="seek")


@story(skipped_delivery=1)
def sought_ahead_and_back_and_ahead_again(s: Story) -> None:
    """The begin at 6 left nothing out in the end: the one at 7 did, when 5 had been reached."""
    s.wrote(*range(8)).assigned().got(0, 1, 2)
    s.assigned(position=6, source="seek").got(6)
    s.assigned(position=3, source="seek").got(3, 4)
    s.assigned(position=7, source="seek").got(7)


@story(skipped_delivery=2)
def sought_ahead_twice_and_delivered_nothing_in_between(s: Story) -> None:
    s.wrote(*range(7)).assigned().got(0, 1, 2)
    s.assigned(position=5, source="seek").got(5)
    s.assigned(position=4, source="seek")
    s.assigned(position=6, source="seek").got(6)


@story(skipped_delivery=2)
def rewound_by_an_aborted_transaction_and_gone_on_beyond(s: Story) -> None:
    """What was polled in a transaction that was aborted counts as not delivered; the next poll went on above it."""
    s.wrote(*range(4)).assigned().got(0)
    s.assigned(position=1, source="seek")
    s.assigned(position=3, source="seek").got(3)


@story(skipped_delivery=2)
def begun_above_the_first_record_of_its_range(s: Story) -> None:
    s.wrote(*range(4)).assigned(position=None, source="reset").got(2, 3)


@story(stalled_delivery=1)
def sought_to_a_record_that_nobody_delivered(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0)
    s.assigned(position=1, source="seek")


@story(stalled_delivery=2)
def sought_out_of_the_log_and_back_to_its_begin(s: Story) -> None:
    _away(s, "earliest")
    s.assigned(2, position=9, source="seek", generation=2)


@story(skipped_delivery=2)
def sought_out_of_the_log_and_to_its_end(s: Story) -> None:
    _away(s)
    s.assigned(2, position=9, source="seek", generation=2)


@story(skipped_delivery=2)
def put_at_the_end_by_a_fault_and_nothing_came_after(s: Story) -> None:
    _away(s, "earliest")
    s.moved(3).saw_committed(3).assigned(2, position=3, source="committed", generation=2)


@story(stalled_delivery=2)
def partition_never_held(s: Story) -> None:
    s.partitions = 2
    s.wrote(0).send(1, 0, partition=1).log(0, 1, partition=1).send(2, 1, partition=1).log(1, 2, partition=1)
    s.assigned().got(0).commit(1)


def _open_at_the_end(s: Story, *got: int, **config: str) -> Epoch:
    """A transaction is open when the log is read back: its record is at offset 2, one of nobody's transaction at 3."""
    s.consumer_config |= config
    s.wrote(0, 1).send(2, 2, txn=1, outcome="unknown").log(2, 2, committed=None).send(3, 3).log(3, 3, committed=None)
    return s.assigned(generation=1).got(*got).commit(got[-1] + 1)


@story(stalled_delivery__undecided=2)
def read_up_to_an_open_transaction(s: Story) -> None:
    """Readers of committed records get nothing behind the last stable offset."""
    _open_at_the_end(s, 0, 1)


@story(stalled_delivery=1, stalled_delivery__undecided=2)
def not_read_up_to_an_open_transaction(s: Story) -> None:
    _open_at_the_end(s, 0)


@story(stalled_delivery=2)
def read_up_to_an_open_transaction_by_a_reader_of_uncommitted_records(s: Story) -> None:
    _open_at_the_end(s, 0, 1, **{"isolation.level": "read_uncommitted"})


@story(skipped_delivery__undecided=2)
def put_behind_an_open_transaction_by_a_fault(s: Story) -> None:
    _open_at_the_end(s, 0, 1).revoked()
    s.moved(4).saw_committed(4).assigned(2, position=4, source="committed", generation=2)


@story(overcommit=1, lost_processing__undecided=2)
def committed_past_an_open_transaction(s: Story) -> None:
    _open_at_the_end(s, 0, 1).commit(4)


@story(stalled_delivery__undecided=1)
def never_held_from_the_latest(s: Story) -> None:
    s.partitions = 2
    s.consumer_config = {}
    s.wrote(0).send(1, 0, partition=1).log(0, 1, partition=1)
    s.assigned().got(0).commit(1)


NEVER = {"when": "never"}


def _added(s: Story, after_us: int, mode: str = "subscribe") -> Story:
    """The topic is read by partition 1, and so long after partition 0 is seen for the first time."""
    s.partitions, s.mode = 2, mode
    s.consumer_config = {"auto.offset.reset": "latest"}
    s.observed("answers", "true", "cluster").observed("leader", 1, f"{s.name}/1")
    s.send(9, 1, partition=1).log(1, 9, partition=1)
    first = s.assigned(position=1, partition=1, generation=1).got(1, seq=lambda _: 9)
    if s.consumer.get("commit") != NEVER:
        first.commit(2)
    s.tick(after_us)
    return s.observed("leader", 1).wrote(0, 1, 2)


@story(skipped_delivery=2)
def found_late_and_read_from_the_latest(s: Story) -> None:
    _added(s, 5 * SECOND).assigned(position=2, generation=2).got(2).commit(3)


@story(skipped_delivery=3)
def found_late_and_nothing_came_after(s: Story) -> None:
    _added(s, 5 * SECOND).assigned(position=3, generation=2)


@story(skipped_delivery=3)
def found_late_by_the_library_and_nothing_came_after(s: Story) -> None:
    late = _added(s, 5 * SECOND).assigned(position=None, source=None, generation=2)
    late.row("position", position=3)


@story(stalled_delivery=3)
def added_and_never_found(s: Story) -> None:
    _added(s, 5 * SECOND)


@story(evicted_delivery=1, skipped_delivery=1)
def found_late_when_the_first_record_was_gone(s: Story) -> None:
    _added(s, 5 * SECOND).assigned(position=2, generation=2).got(2).commit(3)
    s.evicted(1)
    s.rows["log"] = [r for r in s.rows["log"] if r["offset"] >= s.log_start]


def _evicted_in_a_transaction(s: Story, outcome: str, isolation: str) -> None:
    """A record of a transaction is evicted before a reader that began below it gets there."""
    s.consumer_config = {"auto.offset.reset": "earliest", "isolation.level": isolation}
    s.evicted(1)
    began = s.now
    s.send(0, 0, txn=1).transaction(1, outcome, began).wrote(1).assigned().got(1).commit(2)


@story(evicted_delivery=1)
def evicted_before_it_was_read_in_a_committed_transaction(s: Story) -> None:
    _evicted_in_a_transaction(s, "committed", "read_committed")


@story()
def evicted_before_it_was_read_in_an_aborted_transaction(s: Story) -> None:
    _evicted_in_a_transaction(s, "aborted", "read_committed")


@story(evicted_delivery__undecided=1)
def evicted_before_it_was_read_in_a_transaction_of_unknown_end(s: Story) -> None:
    _evicted_in_a_transaction(s, "unknown", "read_committed")


@story(evicted_delivery=1)
def evicted_before_a_reader_of_uncommitted_records_got_it(s: Story) -> None:
    _evicted_in_a_transaction(s, "unknown", "read_uncommitted")


@story(evicted_delivery=1)
def evicted_before_a_reader_of_uncommitted_records_got_what_was_aborted(s: Story) -> None:
    _evicted_in_a_transaction(s, "aborted", "read_uncommitted")


@story()
def found_before_anything_was_written(s: Story) -> None:
    _added(s, 5 * SECOND).assigned(position=0, generation=2).got(0, 1, 2).commit(3)


@story()
def there_before_the_group_began(s: Story) -> None:
    """As far as the observer sees: it looks now and then, and a look may take long."""
    _added(s, 2 * SECOND).assigned(position=2, generation=2).got(2).commit(3)


@story()
def added_where_offsets_are_committed_already(s: Story) -> None:
    _added(s, 5 * SECOND).saw_committed(2)
    s.assigned(position=2, source="committed", generation=2).got(2).commit(3)


@story()
def added_under_an_assign_mode_consumer(s: Story) -> None:
    s.consumer = {"group": "named", "start": "group", "commit": {"when": "after_batch"}}
    _added(s, 5 * SECOND, mode="assign").life(s.reader(1), "crashed", role="consumer")
    s.life(s.reader(1), "started", incarnation=2, role="consumer")
    s.assigned(position=2, source="reset", incarnation=2).got(2).commit(3)


@story(skipped_delivery=2, poll_skip=2)
def added_under_a_query_that_misses_its_first_records(s: Story) -> None:
    s.consumer = {"start": "latest", "commit": NEVER}
    _added(s, 5 * SECOND, mode="assign").assigned(position=0, source="start").got(2)


@story()
def added_under_a_query_that_reads_it_from_its_beginning(s: Story) -> None:
    s.consumer = {"start": "latest", "commit": NEVER}
    _added(s, 5 * SECOND, mode="assign").assigned(position=0, source="start").got(0, 1, 2)


@story(lost_processing=2, overcommit=1)
def committed_then_died(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2, 3).assigned(1, generation=1).commit(3).got(0).died()
    s.assigned(2, position=3, source="committed", generation=2).got(3).commit(4)


@story(lost_processing=1, overcommit=1, stalled_delivery=1)
def committed_then_died_before_the_last_record(s: Story) -> None:
    s.wrote(0, 1, 2).assigned().got(0).commit(2).died()


@story(lost_processing=1)
def committed_unseen_by_the_ledger(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1)
    s.saw_committed(2)
    s.rows["lifecycle"].append(
        {
            "client": s.reader(1),
            "role": "consumer",
            "incarnation": 1,
            "event": "crashed",
            "detail": "{}",
            "at_us": s.now,
        }
    )
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3)


@story(lost_processing=1)
def committed_for_the_observer_only_and_died(s: Story) -> None:
    s.wrote(0, 1)
    epoch = s.assigned(1, generation=1).got(0).commit(1)
    s.saw_committed(2)
    epoch.died()


@story()
def committed_then_died_and_was_processed_by_the_next(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1).assigned(1, generation=1).got(0, 1).commit(2).died()
    s.assigned(2, position=2, source="committed", generation=2).revoked()


@story(duplicate_delivery__legal=1)
def again_from_the_committed_offset(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1).assigned(1, generation=1).got(0).commit(1).got(1).lost()
    s.assigned(2, position=1, source="committed", generation=2).got(1).commit(2)


@story(duplicate_delivery__illegal=1)
def again_from_below_the_committed_offset(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1).assigned(1, generation=1).got(0).commit(1).revoked()
    s.assigned(2, position=0, source="committed", generation=2).got(0, 1).commit(2)


@story(duplicate_delivery__legal=1)
def again_after_a_commit_of_unknown_outcome(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1).commit(2, "unknown").lost()
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3)


@story()
def on_from_a_commit_of_unknown_outcome(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1).commit(2, "unknown").lost()
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3)


@story(duplicate_delivery__illegal=1)
def again_after_a_failed_commit_and_a_later_one(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1, "fail").got(1).commit(2).revoked()
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3)


@story(duplicate_delivery__legal=1)
def again_from_a_commit_of_unknown_outcome(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1).commit(2, "unknown").got(2).lost()
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3)


@story(duplicate_delivery__illegal=1)
def again_from_a_failed_commit(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1).commit(2, "fail").got(2).lost()
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3)


@story(duplicate_delivery__illegal=1)
def again_from_an_older_commit(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1).commit(2).revoked()
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3)


@story(duplicate_delivery__legal=1)
def again_from_a_commit_only_the_observer_saw(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1, 2).lost()
    s.saw_committed(2)
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3)


@story(duplicate_delivery__illegal=1)
def again_from_a_commit_seen_to_be_overtaken(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1).lost()
    s.saw_committed(2)
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3)


@story(duplicate_delivery__illegal=1)
def again_by_the_consumer_of_the_lower_name(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1).assigned(2, generation=1).got(0, 1).commit(2).revoked()
    s.assigned(1, position=1, source="committed", generation=2).got(1).commit(2)


@story(duplicate_delivery__legal=1)
def again_from_a_commit_whose_row_died_with_its_member(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1, 2).died()
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3)


@story(duplicate_delivery__illegal=1, nonmonotonic_poll=1)
def twice_in_one_assignment(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0, 0, 1).commit(2)


@story(lost_write__undecided=1)
def acked_in_a_partition_that_was_not_read_back(s: Story) -> None:
    s.partitions, s.added = 2, -1
    s.wrote(0).send(1, 0, partition=1)


@story(lost_write__undecided=1)
def acked_without_a_partition_in_a_topic_that_was_not_read_back(s: Story) -> None:
    s.producer_config, s.exists = {"acks": "0"}, False
    s.send(0, partition=None)


@story(duplicate_write=1)
def written_twice_after_an_aborted_attempt(s: Story) -> None:
    s.in_transaction(1, "aborted", 0)
    began = s.now
    s.send(0, 1, txn=2).log(1, 0).log(2, 0).transaction(2, "committed", began)


@story()
def written_in_two_aborted_attempts(s: Story) -> None:
    s.in_transaction(1, "aborted", 0)
    began = s.now
    s.send(0, 1, txn=2).log(1, 0, committed=False).transaction(2, "aborted", began)


@story(duplicate_delivery__legal=2, lost_write__undecided=2, dirty_read__undecided=4)
def again_from_the_beginning_of_a_partition_that_was_not_read_back(s: Story) -> None:
    """Nobody says where it began, nor where the log does."""
    s.partitions, s.added, s.members = 2, -1, 2
    s.send(0, 0, partition=1).send(1, 1, partition=1).assigned(1, partition=1, generation=1).got(0, 1).lost()
    s.assigned(2, partition=1, position=None, source=None, generation=2).got(0, 1).commit(2)


@story(duplicate_delivery__illegal=1, nonmonotonic_poll=1)
def twice_in_one_assignment_once_without_an_identity(s: Story) -> None:
    """It is the record that the log has there, the first one of all."""
    s.wrote(0, 1).assigned().got(0).got(0, seq=lambda _: None).got(1).commit(2)


@story(nonmonotonic_poll=1, dirty_read=2)
def twice_at_an_offset_without_a_record_once_without_an_identity(s: Story) -> None:
    """Nothing says that it is one record, though the first has the identity of the last one of the log."""
    s.wrote(0, 1).assigned().got(0, 1).got(2, seq=lambda _: 1).got(2, seq=lambda _: None).commit(3)


@story(duplicate_delivery__legal=2)
def an_evicted_member_went_on_with_its_batch(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2)
    slow = s.assigned(1, generation=1).got(0).commit(1)
    quick = s.assigned(2, position=1, source="committed", generation=2).got(1, 2)
    slow.got(1, 2).commit(3, "fail").lost(generation=1)
    quick.commit(3)


@story(duplicate_delivery__legal=2)
def sought_back(s: Story) -> None:
    s.wrote(0, 1, 2).assigned().got(0, 1, 2).commit(3)
    s.assigned(position=1, source="seek").got(1, 2).commit(3)


@story(duplicate_delivery__legal=1)
def reset_where_nothing_was_committed(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1).assigned(1, generation=1).got(0).lost()
    s.assigned(2, position=0, generation=2).got(0, 1).commit(2)


@story(duplicate_delivery__illegal=1)
def reset_although_something_was_committed(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1).assigned(1, generation=1).got(0).commit(1).revoked()
    s.assigned(2, position=0, generation=2).got(0, 1).commit(2)


@story(duplicate_delivery__legal=1)
def auto_commit_reported_late(s: Story) -> None:
    s.members = 2
    s.consumer = {"commit": {"kind": "auto"}}
    s.wrote(0, 1, 2)
    a = s.assigned(1, generation=1).got(0).commit(1, kind="auto", requested_us=s.now, completed_us=s.now)
    a.got(1).lost()
    b = s.assigned(2, position=1, source="committed", generation=2)
    b.got(1, 2).commit(3, kind="auto", requested_us=s.now, completed_us=s.now)


@story(duplicate_delivery__legal=1)
def auto_commit_not_reported_before_the_crash(s: Story) -> None:
    s.members = 2
    s.consumer = {"commit": {"kind": "auto"}}
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0, 1, 2).died()
    b = s.assigned(2, position=2, source="committed", generation=2).got(2)
    b.commit(3, kind="auto", requested_us=s.now, completed_us=s.now)


@story()
def assign_mode_goes_on_from_its_checkpoint(s: Story) -> None:
    s.mode = "assign"
    s.consumer = {"commit": {"when": "never"}}
    s.wrote(0, 1).assigned(source="start").got(0).died()
    s.assigned(position=1, source="checkpoint", incarnation=2).got(1)


@story(duplicate_delivery__illegal=1)
def assign_mode_behind_its_checkpoint(s: Story) -> None:
    s.mode = "assign"
    s.wrote(0, 1).assigned(source="start").got(0).died()
    s.assigned(position=0, source="checkpoint", incarnation=2).got(0, 1)


def _storing(s: Story) -> Story:
    s.mode, s.consumer = "assign", {"checkpoint_every": "1s"}
    return s


def _stored(s: Story) -> Story:
    """Three records processed, a checkpoint after the first one and no other."""
    _storing(s).wrote(0, 1, 2, 3).assigned(source="start").got(0).stored(1).got(1, 2).died()
    return s


@story(duplicate_delivery__legal=2)
def assign_mode_restores_a_checkpoint(s: Story) -> None:
    _stored(s).assigned(position=1, source="checkpoint", incarnation=2).got(1, 2, 3)


@story(duplicate_delivery__legal=1)
def assign_mode_restores_a_checkpoint_without_a_row(s: Story) -> None:
    """It was complete when its process died, which had no time to write the row."""
    _stored(s).assigned(position=2, source="checkpoint", incarnation=2).got(2, 3)


@story(duplicate_delivery__illegal=1, duplicate_delivery__legal=1)
def assign_mode_delivers_below_its_restored_checkpoint(s: Story) -> None:
    """The state of the source is older than the state of the operator behind it, as after FlinkKafkaConsumer."""
    _stored(s).assigned(position=2, source="checkpoint", incarnation=2).got(1, 2, 3)


@story(duplicate_delivery__illegal=3)
def assign_mode_behind_the_checkpoint_that_has_a_row(s: Story) -> None:
    _stored(s).assigned(position=0, source="checkpoint", incarnation=2).got(0, 1, 2, 3)


@story(duplicate_delivery__illegal=3, duplicate_delivery__legal=2)
def assign_mode_behind_the_checkpoint_of_the_incarnation_before(s: Story) -> None:
    _stored(s).assigned(position=1, source="checkpoint", incarnation=2).got(1, 2).stored(3).died()
    s.assigned(position=0, source="checkpoint", incarnation=3).got(0, 1, 2, 3)


def _two_attempts(s: Story) -> tuple[Epoch, Epoch]:
    """Two subtasks of a job in a session cluster, each an incarnation; both have a checkpoint after one record."""
    _storing(s).partitions = 2
    for offset in (0, 1, 2):
        s.send(2 * offset, offset).log(offset, 2 * offset)
        s.send(2 * offset + 1, offset, partition=1).log(offset, 2 * offset + 1, partition=1)
    first = s.assigned(source="start", incarnation=2).got(0, seq=lambda o: 2 * o)
    second = s.assigned(source="start", incarnation=3, partition=1).got(0, seq=lambda o: 2 * o + 1)
    return first.stored(1).got(1, seq=lambda o: 2 * o), second.stored(1)


@story(duplicate_delivery__legal=1)
def assign_mode_restores_one_subtask_while_the_other_goes_on(s: Story) -> None:
    first, second = _two_attempts(s)
    first.died()
    s.assigned(position=1, source="checkpoint", incarnation=4).got(1, 2, seq=lambda o: 2 * o)
    second.got(1, 2, seq=lambda o: 2 * o + 1)


@story(duplicate_delivery__legal=1, duplicate_delivery__illegal=1)
def assign_mode_restores_one_subtask_and_the_other_repeats(s: Story) -> None:
    """The subtask that goes on was not restored, so it has no reason to process a record again."""
    first, second = _two_attempts(s)
    second.got(1, seq=lambda o: 2 * o + 1)
    first.died()
    s.assigned(position=1, source="checkpoint", incarnation=4).got(1, 2, seq=lambda o: 2 * o)
    s.assigned(position=1, source="start", incarnation=5, partition=1).got(1, 2, seq=lambda o: 2 * o + 1)


@story(skipped_delivery=1)
def assign_mode_beyond_what_it_had_processed(s: Story) -> None:
    _storing(s).wrote(0, 1, 2).assigned(source="start").got(0).stored(1).died()
    s.assigned(position=2, source="checkpoint", incarnation=2).got(2)


def _storing_and_committing(s: Story) -> Epoch:
    """Three records processed and committed, a checkpoint after the second one."""
    s.mode, s.consumer = "assign", {"checkpoint_every": "1s", "group": s.name, "commit": {"when": "after_batch"}}
    return s.wrote(0, 1, 2).assigned(source="start").got(0, 1).stored(2).got(2).commit(3)


@story(duplicate_delivery__legal=1)
def assign_mode_commits_from_its_restored_checkpoint(s: Story) -> None:
    _storing_and_committing(s).died()
    s.assigned(position=2, source="checkpoint", incarnation=2).commit(2).got(2).commit(3)


@story(commit_rewind=1, duplicate_delivery__illegal=2)
def assign_mode_commits_from_before_its_checkpoint(s: Story) -> None:
    _storing_and_committing(s).died()
    s.assigned(position=1, source="checkpoint", incarnation=2).got(1).commit(2).got(2).commit(3)


@story(duplicate_delivery__legal=1)
def assign_mode_at_its_start_again_before_the_first_checkpoint(s: Story) -> None:
    _storing(s).wrote(0, 1).assigned(source="start").got(0).died()
    s.assigned(position=0, source="start", incarnation=2).got(0, 1)


@story(duplicate_delivery__illegal=1)
def assign_mode_at_its_start_again_after_a_checkpoint(s: Story) -> None:
    _storing(s).wrote(0, 1).assigned(source="start").got(0).stored(1).died()
    s.assigned(position=0, source="start", incarnation=2).got(0, 1)


@story(duplicate_delivery__legal=2)
def assign_mode_restores_the_first_checkpoint_without_a_row(s: Story) -> None:
    _storing(s).wrote(0, 1, 2).assigned(source="start").got(0, 1, 2).died()
    s.assigned(position=1, source="checkpoint", incarnation=2).got(1, 2)


@story(duplicate_delivery__illegal=1)
def assign_mode_of_results_ignores_rows_of_checkpoints(s: Story) -> None:
    s.mode = "assign"
    s.wrote(0, 1).assigned(source="start").got(0).stored(0).died()
    s.assigned(position=0, source="checkpoint", incarnation=2).got(0, 1)


@story(duplicate_delivery__illegal=1)
def assign_mode_at_its_start_again(s: Story) -> None:
    s.mode = "assign"
    s.wrote(0, 1).assigned(source="start").got(0).died()
    s.assigned(position=0, source="start", incarnation=2).got(0, 1)


@story(duplicate_delivery__legal=1)
def assign_mode_without_checkpoint_at_its_start_again(s: Story) -> None:
    s.mode = "assign"
    s.consumer = {"checkpoint": False}
    s.wrote(0, 1).assigned(source="start").got(0).died()
    s.assigned(position=0, source="start", incarnation=2).got(0, 1)


@story()
def two_assign_mode_consumers_get_everything_each(s: Story) -> None:
    s.mode, s.members = "assign", 2
    s.wrote(0, 1)
    s.assigned(1, source="start").got(0, 1)
    s.assigned(2, source="start").got(0, 1)


@story(nonmonotonic_poll=1, poll_skip=1, skipped_delivery=1, duplicate_delivery__illegal=1)
def back_and_forth_in_one_assignment(s: Story) -> None:
    s.wrote(0, 1, 2, 3).assigned().got(0, 1, 3, 1).commit(4)


@story(nonmonotonic_poll=1)
def swapped_in_one_assignment(s: Story) -> None:
    s.wrote(0, 1, 2).assigned().got(0, 2, 1).commit(3)


@story()
def back_over_a_seek(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0)
    s.assigned(position=1, source="seek").got(1).commit(2)


@story(poll_skip=1, skipped_delivery=1)
def first_of_the_assignment_left_out(s: Story) -> None:
    s.wrote(0, 1).assigned(position=0).got(1).commit(2)


@story()
def no_position_on_record(s: Story) -> None:
    s.consumer_config = {}
    s.wrote(0, 1).assigned(position=None, source=None).got(1).commit(2)


def _library_begins(s: Story, reset: str) -> Epoch:
    """Two records, then an assignment whose start the client library chooses."""
    s.consumer_config = {"auto.offset.reset": reset}
    return s.wrote(0, 1).assigned(position=None, source=None)


@story()
def began_at_the_end_without_a_delivery(s: Story) -> None:
    _library_begins(s, "latest").row("position", position=2)


@story(stalled_delivery__undecided=2)
def began_nobody_knows_where_without_a_delivery(s: Story) -> None:
    _library_begins(s, "latest")


@story()
def began_at_the_end_and_got_what_came_later(s: Story) -> None:
    s.consumer_config = {"auto.offset.reset": "latest"}
    began = s.assigned(position=None, source=None).row("position", position=0)
    s.wrote(0, 1)
    began.got(0, 1).commit(2)


@story(skipped_delivery=1)
def began_above_the_committed_offset(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0).commit(1).revoked()
    s.assigned(position=None, source=None).row("position", position=2)


@story(poll_skip=1, skipped_delivery=1)
def a_later_position_does_not_replace_the_recorded_one(s: Story) -> None:
    s.wrote(0, 1).assigned(position=0).row("position", position=1).got(1).commit(2)


@story(duplicate_delivery__legal=2)
def out_of_range_without_a_position_on_record(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0, 1).commit(9).revoked()
    s.assigned(position=None, source=None).got(0, 1)


@story(dirty_read=1)
def not_in_the_log_any_more(s: Story) -> None:
    s.wrote(0).assigned().got(0, 1).commit(1)
    s.now += 1


@story(dirty_read=1)
def without_identity_and_not_in_the_log(s: Story) -> None:
    s.wrote(0).assigned().got(0).got(1, seq=lambda _: None).commit(1)


@story(dirty_read=1, skipped_delivery=1, offset_reuse=1)
def another_record_is_there_now(s: Story) -> None:
    s.wrote(0, 1, 2).assigned().got(0).got(1, seq=lambda _: 77).got(2).commit(3)


@story()
def delivered_and_evicted(s: Story) -> None:
    s.evicted(1)
    s.send(0, 0).wrote(1).assigned().got(0, 1).commit(2)


@story(phantom_write=1)
def delivered_without_identity(s: Story) -> None:
    s.wrote(0).log(1, None).assigned().got(0).got(1, seq=lambda _: None).commit(2)


@story()
def delivered_under_no_assignment_on_record(s: Story) -> None:
    s.consumer = {"commit": {"when": "never"}}
    s.wrote(0, 1).assigned().got(0)
    Epoch(s, s.reader(1), None, 0, 1).got(1)  # type: ignore[arg-type]


# --- groups


@story(overcommit=1)
def committed_ahead(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0).commit(2).got(1).commit(2)


@story()
def committed_at_the_start(s: Story) -> None:
    s.wrote(0).assigned().commit(0).got(0).commit(1)


@story()
def committed_past_a_marker(s: Story) -> None:
    s.log_end = 2
    s.wrote(0).assigned().got(0).commit(2)


@story()
def committed_past_a_marker_to_the_next_record(s: Story) -> None:
    s.wrote(0).send(1, 2).log(2, 1).assigned().got(0).commit(2).got(2, seq=lambda _: 1).commit(3)


@story()
def committed_automatically_before_it_was_reported(s: Story) -> None:
    """The library may have committed at any time up to the report."""
    s.consumer = {"commit": {"kind": "auto"}}
    epoch = s.wrote(0, 1).assigned().got(0)
    requested_us = s.now
    epoch.got(1).commit(2, kind="auto", requested_us=requested_us)


def _commits_past_an_aborted_record(s: Story, isolation: str) -> None:
    s.consumer_config = {"auto.offset.reset": "earliest", "isolation.level": isolation}
    s.wrote(0).in_transaction(1, "aborted", 1).wrote(2)
    epoch = s.assigned().got(0).commit(2)
    epoch.got(*((1, 2) if isolation == "read_uncommitted" else (2,))).commit(3)


@story()
def committed_past_an_aborted_record(s: Story) -> None:
    _commits_past_an_aborted_record(s, "read_committed")


@story(overcommit=1)
def committed_past_an_aborted_record_that_the_reader_sees(s: Story) -> None:
    _commits_past_an_aborted_record(s, "read_uncommitted")


@story()
def failed_commit_ahead(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0).commit(2, "fail").got(1).commit(2)


@story(commit_rewind=1)
def committed_back(s: Story) -> None:
    s.wrote(0, 1, 2).assigned().got(0, 1).commit(2).commit(1).got(2).commit(3)


@story(commit_rewind=1)
def committed_back_in_no_time(s: Story) -> None:
    s.wrote(0, 1, 2).assigned().got(0, 1).commit(2).commit(1, requested_us=s.tick(), completed_us=s.now).got(2).commit(
        3
    )


@story(zombie_commit=1, commit_rewind=1, duplicate_delivery__legal=1)
def committed_back_after_a_commit_of_an_evicted_member(s: Story) -> None:
    s.members = 2
    old = s.wrote(0, 1).assigned(1, generation=1).got(0).commit(1).got(1)
    new = s.assigned(2, position=1, source="committed", generation=2)
    s.tick()
    old.commit(2)
    new.commit(1).got(1).commit(2)
    old.lost(generation=1)


@story(commit_rewind=1, duplicate_delivery__illegal=2)
def committed_back_after_a_begin_that_no_commit_explains(s: Story) -> None:
    s.mode, s.consumer = "assign", {"group": "back", "commit": {"when": "after_batch"}, "start": "group"}
    s.wrote(0, 1, 2).assigned(1, position=0).got(0, 1, 2).commit(3).died()
    s.life(s.reader(1), "started", incarnation=2, role="consumer")
    s.assigned(1, position=1, source="committed", incarnation=2).got(1).commit(2).got(2).commit(3)


@story(duplicate_delivery__legal=2)
def committed_back_after_a_seek(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0, 1).commit(2)
    s.assigned(position=0, source="seek").got(0).commit(1).got(1).commit(2)


@story(duplicate_delivery__legal=1)
def committed_back_at_the_position_of_a_seek(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0, 1).commit(2)
    s.assigned(position=1, source="seek").commit(1).got(1).commit(2)


@story()
def commits_in_flight_at_once(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0, 1).commit(2, kind="async", requested_us=s.now, completed_us=s.now + 5_000)
    s.rows["commits"].append({**s.rows["commits"][-1], "offset": 1, "completed_us": s.now + 6_000})


@story(double_ownership=1)
def two_owners_in_one_generation(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    a = s.assigned(1, generation=4).got(0).commit(1)
    s.assigned(2, position=1, source="committed", generation=4).got(1).commit(2)
    a.revoked(generation=4)


@story(double_ownership=1)
def two_owners_at_once_without_generations(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    a = s.assigned(1).got(0).commit(1)
    s.assigned(2, position=1, source="committed").got(1).commit(2)
    a.revoked()


def _in_turn_without_generations(s: Story, overlap_us: int) -> Epoch:
    """Two members of a group that begin one after the other; the first one gives the partition up by then, or later."""
    s.members = 2
    a = s.wrote(0, 1).assigned(1).got(0).commit(1)
    a.revoked(at_us=s.now + STEP_US + overlap_us)
    return s.assigned(2, position=1, source="committed").got(1).commit(2)


@story()
def two_owners_in_turn_without_generations(s: Story) -> None:
    _in_turn_without_generations(s, 0)


@story(double_ownership=1)
def two_owners_for_a_microsecond_without_generations(s: Story) -> None:
    _in_turn_without_generations(s, 1)


@story()
def died_when_another_had_begun_without_generations(s: Story) -> None:
    """It may have been evicted before it died."""
    s.members = 2
    a = s.wrote(0, 1).assigned(1).got(0).commit(1)
    s.assigned(2, position=1, source="committed").got(1).commit(2)
    a.died()


@story()
def two_members_to_the_end_of_a_topic_and_of_the_next_one_without_generations(s: Story) -> None:
    """The first one may have been evicted before the topic was deleted, and not have noticed it to the end."""
    s.members = 2
    s.observed("leader_epoch", 0).send(0, 0).assigned(1).got(0).commit(1)
    b = s.assigned(2, position=1, source="committed")
    s.deleted().again(1, 0)
    b.got(0, seq=_of(1)).commit(1)


@story(duplicate_delivery__legal=2)
def sought_back_in_one_generation(s: Story) -> None:
    """A member shares a partition with nobody but itself."""
    s.wrote(0, 1).assigned(generation=1).got(0, 1).commit(2)
    s.assigned(position=0, source="seek", generation=1).got(0, 1)


@story()
def static_member_back_in_its_generation(s: Story) -> None:
    s.wrote(0, 1)
    a = s.assigned(1, generation=4, instance_id="one").got(0).commit(1).died()
    s.life(a.consumer, "started", incarnation=2, role="consumer")
    s.assigned(1, position=1, source="committed", generation=4, incarnation=2, instance_id="one").got(1).commit(2)


@story(double_ownership=1)
def dynamic_member_back_in_its_generation(s: Story) -> None:
    s.wrote(0, 1)
    a = s.assigned(1, generation=4).got(0).commit(1).died()
    s.life(a.consumer, "started", incarnation=2, role="consumer")
    s.assigned(1, position=1, source="committed", generation=4, incarnation=2).got(1).commit(2)


@story(double_ownership=1)
def static_instances_that_differ_in_one_generation(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    a = s.assigned(1, generation=4, instance_id="one").got(0).commit(1)
    s.assigned(2, position=1, source="committed", generation=4, instance_id="two").got(1).commit(2)
    a.revoked(generation=4)


def static_twins(s: Story) -> tuple[Epoch, Epoch]:
    """Two processes of one static member in one generation; the later one goes on where the earlier one committed."""
    s.wrote(0, 1)
    a = s.assigned(1, generation=4, instance_id="one").got(0).commit(1)
    s.life(a.consumer, "started", incarnation=2, role="consumer")
    b = s.assigned(1, position=1, source="committed", generation=4, incarnation=2, instance_id="one").got(1).commit(2)
    return a, b


@story()
def static_member_stopped_before_it_knew_of_its_twin(s: Story) -> None:
    a, _ = static_twins(s)
    a.revoked(generation=4)


@story(double_ownership=1)
def static_member_went_on_beside_its_twin(s: Story) -> None:
    a, b = static_twins(s)
    a.revoked(generation=5)
    b.revoked(generation=5)


@story()
def static_member_fenced_by_its_twin(s: Story) -> None:
    a, _ = static_twins(s)
    a.died()


@story()
def learned_late_that_it_was_evicted(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    a = s.assigned(1, generation=4).got(0).commit(1)
    s.assigned(2, position=1, source="committed", generation=5).got(1).commit(2)
    a.lost(generation=4)


@story()
def learned_late_without_generations(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    a = s.assigned(1).got(0).commit(1)
    s.assigned(2, position=1, source="committed").got(1).commit(2)
    a.lost()


@story(foreign_commit=1, skipped_delivery=1)
def moved_by_another_job(s: Story) -> None:
    s.mode, s.members, s.consumer = (
        "assign",
        2,
        {"group": "shared", "commit": {"when": "after_batch"}, "start": "group"},
    )
    s.wrote(0, 1, 2)
    a = s.assigned(1, position=0).got(0).commit(1).died()
    s.assigned(2, position=0).got(0, 1).commit(2).got(2)
    s.life(a.consumer, "started", incarnation=2, role="consumer")
    s.assigned(1, position=2, source="committed", incarnation=2).got(2).commit(3)


def _moved_back(s: Story) -> Epoch:
    """A job that had committed 3 begins again at 1, which another job of its group committed."""
    s.mode, s.members = "assign", 2
    s.consumer = {"group": "shared", "commit": {"when": "after_batch"}, "start": "group"}
    s.wrote(0, 1, 2)
    a = s.assigned(1, position=0).got(0, 1, 2).commit(3).died()
    s.assigned(2, position=0).got(0).commit(1).got(1, 2)
    s.life(a.consumer, "started", incarnation=2, role="consumer")
    return s.assigned(1, position=1, source="committed", incarnation=2)


@story(foreign_commit=1, duplicate_delivery__legal=2)
def moved_back_by_another_job(s: Story) -> None:
    _moved_back(s).got(1).commit(2).got(2).commit(3)


@story(foreign_commit=1, duplicate_delivery__legal=2)
def moved_back_by_another_job_to_where_it_had_been_itself(s: Story) -> None:
    s.mode, s.members = "assign", 2
    s.consumer = {"group": "twice", "commit": {"when": "after_batch"}, "start": "group"}
    a = s.wrote(0, 1, 2).assigned(1, position=0).got(0).commit(1).got(1, 2).commit(3).died()
    s.assigned(2, position=0).got(0).commit(1).got(1, 2)
    s.life(a.consumer, "started", incarnation=2, role="consumer")
    s.assigned(1, position=1, source="committed", incarnation=2).got(1).commit(2).got(2).commit(3)


@story(foreign_commit=1, duplicate_delivery__legal=2, commit_rewind=1)
def moved_back_by_another_job_and_then_back_by_itself(s: Story) -> None:
    _moved_back(s).got(1, 2).commit(3).commit(2)


@story(foreign_commit=1, duplicate_delivery__legal=2, commit_rewind=1)
def committed_below_where_another_job_had_moved_it(s: Story) -> None:
    _moved_back(s).commit(0).got(1, 2).commit(3)


@story()
def resumed_where_it_and_another_job_had_committed(s: Story) -> None:
    s.mode, s.members = "assign", 2
    s.consumer = {"group": "same", "commit": {"when": "after_batch"}, "start": "group"}
    s.wrote(0, 1)
    a = s.assigned(1, position=0).got(0).commit(1).died()
    s.assigned(2, position=0).got(0).commit(1).got(1)
    s.life(a.consumer, "started", incarnation=2, role="consumer")
    s.assigned(1, position=1, source="committed", incarnation=2).got(1).commit(2)


@story()
def resumed_at_its_own_commit(s: Story) -> None:
    s.mode, s.consumer = "assign", {"group": "own", "commit": {"when": "after_batch"}, "start": "group"}
    s.wrote(0, 1)
    a = s.assigned(1, position=0).got(0).commit(1).died()
    s.life(a.consumer, "started", incarnation=2, role="consumer")
    s.assigned(1, position=1, source="committed", incarnation=2).got(1).commit(2)


@story()
def resumed_at_its_own_commit_of_unknown_outcome(s: Story) -> None:
    s.mode, s.consumer = "assign", {"group": "mine", "commit": {"when": "after_batch"}, "start": "group"}
    s.wrote(0, 1)
    a = s.assigned(1, position=0).got(0).commit(1, "unknown").died()
    s.life(a.consumer, "started", incarnation=2, role="consumer")
    s.assigned(1, position=1, source="committed", incarnation=2).got(1).commit(2)


@story(backdated_write=1)
def the_clock_stepped_back(s: Story) -> None:
    """The verdict is inconclusive: events of the drive, or requests in flight, show it."""
    s.wrote(0)
    s.now -= 500_000
    s.wrote(1).assigned().got(0, 1).commit(2)


# --- the order of the records of several producers in time


def _from_another(s: Story, seq: int, offset: int, **times: int) -> None:
    """Acknowledged to the second incarnation of the producer, one millisecond after it was sent."""
    s.send(seq, offset, incarnation=2, **times).log(offset, seq, incarnation=2)


@story(backdated_write=1)
def sent_after_another_was_acknowledged_and_before_it(s: Story) -> None:
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, 5).log(5, 0).tick(1)
    _from_another(s, 1, 3)


@story(backdated_write=2)
def sent_after_another_was_acknowledged_and_before_it_in_a_batch(s: Story) -> None:
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, 5).log(5, 0).tick(1)
    now = s.now
    for seq, offset in ((1, 3), (2, 4), (3, 6)):
        _from_another(s, seq, offset, invoked_us=now, completed_us=now + 500)


@story()
def sent_while_another_was_acknowledged_and_before_it(s: Story) -> None:
    """It may have been appended first."""
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, 5).log(5, 0)
    _from_another(s, 1, 3)


@story(reordered_write=1)
def sent_while_another_was_acknowledged_and_after_an_own_record(s: Story) -> None:
    """Its own record was acknowledged before it was sent, and is behind it; that of another may have been appended
    later."""
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, 4).log(4, 0)
    _from_another(s, 1, 5, completed_us=s.now + STEP_US)
    s.send(2, 3).log(3, 2)


@story(backdated_write=1)
def sent_after_another_was_acknowledged_and_before_it_in_another_block(s: Story) -> None:
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, BLOCK).log(BLOCK, 0).tick(1)
    _from_another(s, 1, 3)


@story(reordered_write=1)
def sent_after_one_of_its_own_was_acknowledged_and_before_it_in_another_block(s: Story) -> None:
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, BLOCK).log(BLOCK, 0).tick(1)
    s.send(1, 3).log(3, 1)
    _from_another(s, 2, BLOCK + 1)


@story()
def sent_while_another_was_acknowledged_and_before_it_in_another_block(s: Story) -> None:
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, BLOCK).log(BLOCK, 0)
    _from_another(s, 1, 3)


@story()
def sent_after_another_was_acknowledged_and_after_it(s: Story) -> None:
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, 3).log(3, 0).tick(1)
    _from_another(s, 1, 5)


@story()
def sent_after_another_was_acknowledged_in_another_partition(s: Story) -> None:
    s.partitions = 2
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, 5, partition=1).log(5, 0, partition=1).tick(1)
    _from_another(s, 1, 3)


@story(lost_write=1)
def sent_after_another_was_lost_and_where_the_next_leader_had_its_end(s: Story) -> None:
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, 5).tick(1)
    _from_another(s, 1, 3)


@story(reordered_write=1)
def sent_by_the_same_producer_and_in_another_order(s: Story) -> None:
    s.send(0, 5).log(5, 0).send(1, 3).log(3, 1)


@story(backdated_write=1)
def sent_over_the_border_of_a_block_of_offsets(s: Story) -> None:
    border = 1 << 20
    s.log_start = border - 1
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.send(0, border).log(border, 0).tick(1)
    _from_another(s, 1, border - 1)


@story(backdated_write=1)
def delivered_before_it_was_sent(s: Story) -> None:
    s.wrote(0).assigned().got(0, sent_us=s.now + 1, polled_us=s.now).commit(1)


@story()
def delivered_when_it_was_sent(s: Story) -> None:
    s.wrote(0).assigned().got(0, sent_us=s.now, polled_us=s.now).commit(1)


@story()
def delivered_without_the_time_of_its_send(s: Story) -> None:
    s.wrote(0).assigned().got(0, sent_us=None).commit(1)


# --- offsets that were given away twice, or evicted


@story(resurrected_write=1)
def failed_and_there(s: Story) -> None:
    s.wrote(0).send(1, outcome="fail").log(1, 1)


@story()
def failed_and_sent_again(s: Story) -> None:
    """Two sends of one record: the one that did not fail put it there."""
    s.wrote(0).send(1, outcome="fail").wrote(1)


@story()
def failed_in_a_transaction_and_hidden(s: Story) -> None:
    s.in_transaction(1, "aborted", 0).send(1, outcome="fail", txn=1).log(1, 1, committed=False)


@story(resurrected_write__undecided=1)
def failed_in_a_transaction_and_nobody_knows_who_sees_it(s: Story) -> None:
    s.in_transaction(1, "aborted", 0).send(1, outcome="fail", txn=1).log(1, 1, committed=None)


@story(resurrected_write__undecided=1)
def failed_in_a_transaction_and_nobody_knows_who_sees_one_of_two_copies(s: Story) -> None:
    s.in_transaction(1, "aborted", 0).send(1, outcome="fail", txn=1)
    s.log(1, 1, committed=False).log(2, 1, committed=None)


@story(resurrected_write=1)
def failed_in_a_transaction_and_seen(s: Story) -> None:
    s.in_transaction(1, "committed", 0).send(1, outcome="fail", txn=1).log(1, 1)


@story(offset_reuse=1, lost_write=1)
def acked_where_another_record_is(s: Story) -> None:
    s.observed("leader", 2).observed("leader_epoch", 3)
    s.wrote(0).send(1, 1)
    s.fault("injected").observed("leader", 1).observed("leader_epoch", 4)
    s.send(2, 1).log(1, 2)


@story(offset_reuse=1, dirty_read=1, skipped_delivery=1)
def delivered_where_another_record_is(s: Story) -> None:
    s.wrote(0, 1, 2).assigned().got(0).got(1, seq=lambda _: 7).got(2).commit(3)


@story(offset_reuse=1, dirty_read=2)
def two_readers_got_different_records(s: Story) -> None:
    s.mode, s.members = "assign", 2
    s.wrote(0)
    s.assigned(1, source="start").got(0).got(1, seq=lambda _: 7)
    s.assigned(2, source="start").got(0).got(1, seq=lambda _: 8)


@story(duplicate_write=1)
def the_same_record_acked_and_delivered_at_one_offset(s: Story) -> None:
    s.send(0, 0).log(0, 0).send(1, 1).log(1, 0).rows["sends"].pop()
    s.assigned().got(0).got(1, seq=lambda _: 0).commit(2)


@story(evicted_delivery=2)
def removed_before_it_was_read(s: Story) -> None:
    s.evicted(3)
    s.send(0, 0).send(1, 1).send(2, 2).wrote(3)
    s.assigned().got(0).commit(1).got(3).commit(4)


@story()
def removed_after_it_was_read(s: Story) -> None:
    s.evicted(2)
    s.send(0, 0).send(1, 1).wrote(2).assigned().got(0, 1, 2).commit(3)


@story()
def removed_before_the_range_of_the_reader(s: Story) -> None:
    s.evicted(2)
    s.send(0, 0).send(1, 1).wrote(2).assigned(position=2).got(2).commit(3)


@story(evicted_delivery__undecided=1)
def removed_from_a_partition_that_was_never_held(s: Story) -> None:
    s.partitions = 2
    s.evicted(1)
    s.send(0, 0).wrote(1).send(2, 0, partition=1)
    s.assigned(position=1).got(1).commit(2)


@story()
def removed_without_ever_having_been_acknowledged(s: Story) -> None:
    s.evicted(1)
    s.send(0, outcome="unknown").wrote(1).assigned().got(1).commit(2)


@story()
def removed_of_an_aborted_transaction(s: Story) -> None:
    s.evicted(1)
    s.send(0, 0, txn=1).transaction(1, "aborted", s.now).wrote(1).assigned().got(1).commit(2)


# --- transactions


@story()
def a_transaction_committed_and_one_aborted(s: Story) -> None:
    s.in_transaction(1, "committed", 0, 1).in_transaction(2, "aborted", 2, 3).in_transaction(3, "committed", 4)
    s.assigned().got(0, 1, 4).commit(5)


@story()
def read_uncommitted_gets_everything(s: Story) -> None:
    s.consumer_config = {"auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"}
    s.in_transaction(1, "committed", 0).in_transaction(2, "aborted", 1)
    s.assigned().got(0, 1).commit(2)


@story(stalled_delivery=1)
def read_uncommitted_lacks_what_was_aborted(s: Story) -> None:
    s.consumer_config = {"auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"}
    s.in_transaction(1, "committed", 0).in_transaction(2, "aborted", 1)
    s.assigned().got(0).commit(1)


@story(aborted_read=1)
def an_aborted_record_delivered(s: Story) -> None:
    s.in_transaction(1, "committed", 0).in_transaction(2, "aborted", 1)
    s.assigned().got(0, 1).commit(2)


@story(aborted_read=1)
def a_hidden_record_delivered_whose_transaction_nobody_ended(s: Story) -> None:
    s.life(s.producer, "started").in_transaction(1, "committed", 0)
    s.send(1, 1, txn=2).log(1, 1, committed=False).life(s.producer, "crashed")
    s.assigned().got(0, 1).commit(2)


@story(aborted_read=1, torn_transaction=1)
def a_record_delivered_that_an_aborted_transaction_left_visible(s: Story) -> None:
    s.in_transaction(1, "committed", 0).in_transaction(2, "aborted", 1, seen=True)
    s.assigned().got(0, 1).commit(2)


@story(aborted_read=1, torn_transaction=1)
def a_visible_record_of_an_aborted_transaction_delivered_beside_records_without_one(s: Story) -> None:
    s.wrote(0).in_transaction(1, "aborted", 1, seen=True).wrote(2)
    s.assigned().got(0, 1, 2).commit(3)


@story()
def acked_in_an_aborted_transaction_and_not_there(s: Story) -> None:
    s.in_transaction(1, "committed", 0).send(1, 1, txn=2).transaction(2, "aborted", s.now)


@story()
def acked_in_a_transaction_that_a_crash_cut_off(s: Story) -> None:
    s.life(s.producer, "started").in_transaction(1, "committed", 0).send(1, 1, txn=2).life(s.producer, "crashed")


@story()
def written_again_after_its_transaction_was_aborted(s: Story) -> None:
    s.send(0, 0, txn=1).log(0, 0, committed=False).transaction(1, "aborted", s.now - 2_000)
    s.send(0, 1, txn=2).log(1, 0).transaction(2, "committed", s.now - 2_000)
    s.assigned().got(1, seq=lambda _: 0).commit(2)


@story(torn_transaction=1)
def part_of_a_committed_transaction_is_hidden(s: Story) -> None:
    s.in_transaction(1, "committed", 0, 1).rows["log"][-1]["committed"] = False


@story(torn_transaction=1, lost_write=1)
def part_of_a_committed_transaction_is_absent(s: Story) -> None:
    s.in_transaction(1, "committed", 0, 1).rows["log"].pop()


@story(torn_transaction=1)
def part_of_an_aborted_transaction_is_seen(s: Story) -> None:
    s.in_transaction(1, "aborted", 0, 1).rows["log"][-1]["committed"] = True


@story(torn_transaction=1)
def an_unknown_record_of_an_aborted_transaction_is_seen(s: Story) -> None:
    s.send(0, outcome="unknown", txn=1).transaction(1, "aborted", s.now).log(0, 0).in_transaction(2, "committed", 1)


@story()
def an_unknown_record_of_an_aborted_transaction_is_hidden(s: Story) -> None:
    s.send(0, outcome="unknown", txn=1).transaction(1, "aborted", s.now).log(0, 0, committed=False)


@story(torn_transaction__undecided=1)
def nobody_knows_who_sees_an_unknown_record_of_an_aborted_transaction(s: Story) -> None:
    s.send(0, outcome="unknown", txn=1).transaction(1, "aborted", s.now).log(0, 0, committed=None)


@story()
def an_unknown_record_of_a_transaction_of_unknown_end_is_seen(s: Story) -> None:
    s.send(0, outcome="unknown", txn=1).transaction(1, "unknown", s.now).log(0, 0)


@story()
def an_unknown_record_of_an_aborted_transaction_is_sent_again(s: Story) -> None:
    s.send(0, outcome="unknown", txn=1).transaction(1, "aborted", s.now).in_transaction(2, "committed", 0)


@story()
def a_transaction_of_unknown_end_is_seen(s: Story) -> None:
    s.in_transaction(1, "unknown", 0, seen=True).in_transaction(2, "unknown", 1, seen=False)


def _cut_off(s: Story, *seen: bool | None, outcomes: str = "ok ok ok") -> Story:
    """Records at offset 0 of partitions 0, 1 and so on, in a transaction of a producer that was killed before its end.

    seen: by read_committed readers; None: the record is absent.
    """
    s.partitions = len(seen)
    s.life(s.producer, "started")
    for seq, (visible, outcome) in enumerate(zip(seen, outcomes.split(), strict=False)):
        s.send(seq, 0 if outcome == "ok" else None, outcome, txn=1, partition=seq)
        if visible is not None:
            s.log(0, seq, committed=visible, partition=seq)
    return s.life(s.producer, "crashed")


@story(torn_transaction=1)
def half_of_a_transaction_that_a_crash_cut_off_is_hidden(s: Story) -> None:
    _cut_off(s, True, False)


@story(torn_transaction=2)
def half_of_a_transaction_that_a_crash_cut_off_is_absent(s: Story) -> None:
    _cut_off(s, None, True, None)


@story(torn_transaction=1)
def half_of_a_transaction_of_unknown_end_is_hidden(s: Story) -> None:
    s.in_transaction(1, "unknown", 0, seen=True).wrote(1, txn=1).rows["log"][-1]["committed"] = False


def _in_part_over_two_blocks(s: Story, seen: bool | None) -> Story:
    """The second of three transactions of unknown end goes on in the next block of seqs; the others are not seen."""
    began = s.now
    records = ((1, 0, 0, False), (2, 1, 1, True), (2, BLOCK, 2, seen), (3, BLOCK + 1, 3, False))
    for txn, seq, offset, committed in records:
        s.send(seq, offset, txn=txn).log(offset, seq, committed=committed)
    for txn in (1, 2, 3):
        s.transaction(txn, "unknown", began)
    return s


@story()
def a_transaction_of_unknown_end_is_seen_in_two_blocks(s: Story) -> None:
    _in_part_over_two_blocks(s, True)


@story(torn_transaction=1)
def half_of_a_transaction_of_unknown_end_is_hidden_in_the_next_block(s: Story) -> None:
    _in_part_over_two_blocks(s, False)


@story(torn_transaction__undecided=1)
def half_of_a_transaction_of_unknown_end_is_perhaps_hidden_in_the_next_block(s: Story) -> None:
    _in_part_over_two_blocks(s, None)


@story()
def all_of_a_transaction_that_a_crash_cut_off_is_seen_but_what_was_not_acknowledged(s: Story) -> None:
    _cut_off(s, True, None, False, outcomes="ok unknown unknown")


@story()
def only_what_was_not_acknowledged_of_a_transaction_that_a_crash_cut_off_is_seen(s: Story) -> None:
    """Its request may have come after the abort, in the next transaction (KIP-890)."""
    _cut_off(s, True, False, outcomes="unknown ok")


@story()
def nothing_of_a_transaction_that_a_crash_cut_off_is_seen(s: Story) -> None:
    _cut_off(s, False, None, False)


@story()
def half_of_a_transaction_that_a_crash_cut_off_is_evicted(s: Story) -> None:
    s.life(s.producer, "started").send(0, 0, txn=1).wrote(1, txn=1).evicted(1).life(s.producer, "crashed")


@story()
def half_of_a_transaction_that_a_crash_cut_off_is_compacted_away(s: Story) -> None:
    s.life(s.producer, "started").compacted().send(0, 0, key="k1", txn=1).wrote(1, key="k1", txn=1)
    s.life(s.producer, "crashed")


@story(torn_transaction__undecided=1)
def half_of_a_transaction_that_a_crash_cut_off_is_seen_by_nobody_knows_whom(s: Story) -> None:
    s.life(s.producer, "started").wrote(0, txn=1).send(1, 1, txn=1).log(1, 1, committed=None)
    s.life(s.producer, "crashed")


@story()
def sent_again_after_a_transaction_that_a_crash_cut_off(s: Story) -> None:
    """Seq 0 is seen where the second transaction put it; of the first one, nothing is."""
    s.send(0, 0, txn=1).log(0, 0, committed=False).send(1, 1, txn=1).log(1, 1, committed=False)
    s.transaction(1, "unknown", s.now - 4_000)
    s.send(0, 2, txn=2).log(2, 0).transaction(2, "committed", s.now - 2_000)


@story(torn_transaction=1)
def half_of_a_transaction_that_a_crash_cut_off_is_hidden_at_an_offset_that_nobody_was_told(s: Story) -> None:
    """The log was cut, which says nothing about a record that it has."""
    s.life(s.producer, "started").evicted(1).wrote(1, txn=1).send(2, txn=1).log(2, 2, committed=False)
    s.life(s.producer, "crashed")


@story(torn_transaction__undecided=1, lost_write__undecided=1)
def a_committed_record_that_may_have_been_evicted_is_absent(s: Story) -> None:
    s.evicted(1).wrote(1, txn=1).send(2, txn=1).transaction(1, "committed", s.now - 2_000)


@story(torn_transaction__undecided=1)
def nobody_knows_who_sees_a_committed_record(s: Story) -> None:
    s.in_transaction(1, "committed", 0).rows["log"][-1]["committed"] = None


@story()
def each_transaction_is_seen_as_a_whole_in_two_topics(s: Story) -> None:
    s.in_both(1, "committed", 0, 1, 2, 3).in_both(2, "aborted", 4, 5).in_both(3, "committed", 6, 7)


@story(torn_transaction=1)
def a_committed_transaction_is_hidden_in_the_second_topic(s: Story) -> None:
    s.in_both(1, "committed", 0, 1).rows["log"][-1]["committed"] = False


@story(torn_transaction=1, lost_write=1)
def a_committed_transaction_is_absent_in_the_second_topic(s: Story) -> None:
    s.in_both(1, "committed", 0, 1).rows["log"].pop()


@story(torn_transaction=2)
def an_aborted_transaction_is_seen_in_the_second_topic(s: Story) -> None:
    for row in s.in_both(1, "aborted", 0, 1, 2, 3).rows["log"][1::2]:
        row["committed"] = True


@story(precommitted_read=1)
def delivered_while_the_transaction_was_still_sent_to(s: Story) -> None:
    epoch = s.assigned()
    s.send(0, 0, txn=1).log(0, 0)
    epoch.got(0)
    s.send(1, 1, txn=1).log(1, 1).transaction(1, "committed", s.now - 5_000)
    epoch.got(1).commit(2)


@story()
def delivered_before_the_producer_knew_of_its_commit(s: Story) -> None:
    epoch = s.assigned()
    s.send(0, 0, txn=1).log(0, 0)
    epoch.got(0, polled_us=s.now)
    s.transaction(1, "committed", s.now - 5_000, requested_us=s.now - 1_000)
    epoch.commit(1)


@story(dirty_read=1, offset_reuse=1)
def another_record_was_delivered_than_the_aborted_one_that_is_there_now(s: Story) -> None:
    s.in_transaction(1, "aborted", 0).wrote(1).assigned().got(0, seq=lambda _: 77).got(1).commit(2)


def _polled_before_the_end_was_learned(s: Story, outcome: str, requested: int | None) -> None:
    """requested: when the end was requested, in us before the poll; None for a ledger that does not say it."""
    epoch = s.assigned()
    s.send(0, 0, txn=1).log(0, 0).tick(5_000)
    epoch.got(0, polled_us=s.now)
    requested_us = None if requested is None else s.now - 1_000 - requested
    s.transaction(1, outcome, s.now - 9_000, requested_us=requested_us)
    epoch.commit(1)


@story(precommitted_read=1)
def delivered_before_the_end_of_the_transaction_was_requested(s: Story) -> None:
    """All its sends had been invoked: the offsets of the transaction were being added."""
    _polled_before_the_end_was_learned(s, "committed", -1)


@story(precommitted_read=1)
def delivered_before_the_end_of_a_transaction_of_unknown_end_was_requested(s: Story) -> None:
    _polled_before_the_end_was_learned(s, "unknown", -500)


@story(aborted_read=1, torn_transaction=1)
def delivered_before_the_abort_of_the_transaction_was_requested(s: Story) -> None:
    """Only the abort makes it wrong: the record is in the log, and readers of committed records see it."""
    _polled_before_the_end_was_learned(s, "aborted", -1)


@story()
def delivered_nobody_knows_when_in_a_transaction(s: Story) -> None:
    s.in_transaction(1, "committed", 0).assigned().got(0, polled_us=None).commit(1)


@story()
def delivered_when_the_end_of_the_transaction_had_been_requested(s: Story) -> None:
    _polled_before_the_end_was_learned(s, "committed", 0)


@story(precommitted_read__undecided=1)
def delivered_before_an_end_of_which_the_ledger_has_no_request(s: Story) -> None:
    _polled_before_the_end_was_learned(s, "committed", None)


@story()
def delivered_after_an_end_of_which_the_ledger_has_no_request(s: Story) -> None:
    s.in_transaction(1, "committed", 0).assigned().got(0).commit(1)


@story(hanging_transaction=1)
def stood_still_at_the_end_of_the_drive(s: Story) -> None:
    s.life(s.producer, "started").wrote(0).offsets_observed(1, 1).send(1, 1, txn=1).log(1, 1, committed=False)
    s.life(s.producer, "crashed").offsets_observed(1, 2)


@story(hanging_transaction=1)
def stood_still_until_the_broker_gave_up(s: Story) -> None:
    s.wrote(0).offsets_observed(0, 1).tick(10_002_000)
    s.offsets_observed(1, 1)


@story()
def stood_still_for_ten_seconds(s: Story) -> None:
    s.wrote(0).offsets_observed(0, 1).tick(9_998_000)
    s.offsets_observed(1, 1)


@story(hanging_transaction=1)
def stood_still_for_longer_than_ten_seconds(s: Story) -> None:
    s.wrote(0).offsets_observed(0, 1).tick(9_998_001)
    s.offsets_observed(1, 1)


@story(hanging_transaction=1)
def stood_still_though_only_a_transaction_of_unknown_end_was_open(s: Story) -> None:
    s.offsets_observed(0, 0)
    began = s.now
    s.send(0, 0, txn=1).log(0, 0).offsets_observed(0, 1).tick(30_000_000)
    s.transaction(1, "unknown", began).offsets_observed(1, 1)


@story(hanging_transaction=1)
def stood_still_though_a_transaction_without_a_record_was_open(s: Story) -> None:
    s.wrote(0).offsets_observed(0, 1)
    began = s.now - 10_000
    s.tick(30_000_000)
    s.transaction(1, "committed", began).offsets_observed(1, 1)


@story()
def stood_still_while_a_transaction_was_going_on(s: Story) -> None:
    s.offsets_observed(0, 0)
    began = s.now
    s.send(0, 0, txn=1).log(0, 0).offsets_observed(0, 1).tick(30_000_000)
    s.transaction(1, "committed", began).offsets_observed(1, 1)


@story()
def stood_still_from_the_moment_in_which_a_transaction_began(s: Story) -> None:
    s.offsets_observed(0, 0).send(0, 0, txn=1).log(0, 0).observed("end_offset", 1)
    began = s.now
    s.tick(30 * SECOND)
    s.transaction(1, "committed", began).offsets_observed(1, 1)


@story()
def stood_still_for_a_short_time(s: Story) -> None:
    s.wrote(0).offsets_observed(0, 1).tick(9_000_000)
    s.offsets_observed(1, 1)


@story()
def stood_still_while_nobody_answered(s: Story) -> None:
    s.wrote(0).offsets_observed(0, 1).observed("offsets_answer", "false").tick(30_000_000)
    s.observed("offsets_answer", "true").offsets_observed(1, 1)


# --- commits, owners and coordinators


@story(zombie_commit=1)
def committed_after_another_had_begun(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    old = s.assigned(1, generation=1).got(0, 1)
    new = s.assigned(2, generation=2)
    s.tick()
    old.commit(2)
    new.revoked()
    old.lost(generation=1)


@story()
def committed_in_assign_mode_after_the_next_process_had_begun(s: Story) -> None:
    """No membership fences a process that assigns partitions to itself."""
    s.mode, s.consumer = "assign", {"group": "named", "start": "group", "commit": {"when": "after_batch"}}
    s.wrote(0, 1)
    old = s.assigned(position=0, source="reset").got(0, 1).revoked()
    s.assigned(position=0, source="reset", incarnation=2)
    s.tick()
    old.commit(2)


@story(zombie_commit=1)
def committed_after_its_static_twin_had_begun(s: Story) -> None:
    s.wrote(0, 1)
    old = s.assigned(1, generation=4, instance_id="one").got(0, 1)
    s.life(old.consumer, "started", incarnation=2, role="consumer")
    s.assigned(1, generation=4, incarnation=2, instance_id="one")
    s.tick()
    old.commit(2)
    old.died()


@story(zombie_commit=1)
def committed_after_another_had_begun_without_generations(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    old = s.assigned(1).got(0, 1).revoked()
    s.assigned(2)
    s.tick()
    old.commit(2)


@story(zombie_commit=1)
def committed_in_a_lost_partition_without_generations(s: Story) -> None:
    """Another member begins in the moment in which this one loses the partition."""
    s.members = 2
    old = s.wrote(0, 1).assigned(1).got(0, 1).lost()
    s.assigned(2, at_us=s.now)
    old.commit(2, requested_us=s.tick())


@story()
def committed_in_a_partition_sought_before_another_had_begun_without_generations(s: Story) -> None:
    """The seek replaced the assignment: nobody knows whether the member still has the partition."""
    s.members = 2
    old = s.wrote(0, 1).assigned(1).got(0, 1)
    s.assigned(1, position=2, source="seek")
    s.assigned(2, position=2, source="start")
    s.tick()
    old.commit(2)


@story(zombie_commit=1)
def committed_before_the_second_of_two_others_had_begun(s: Story) -> None:
    s.members = 3
    old = s.wrote(0, 1).assigned(1, generation=1).got(0, 1)
    new = s.assigned(2, generation=2)
    s.tick()
    old.commit(2)
    new.revoked()
    s.assigned(3, position=2, source="committed", generation=3)
    old.lost(generation=1)


@story(zombie_commit=1)
def committed_after_another_had_begun_in_the_next_life_of_the_group(s: Story) -> None:
    s.members = 2
    old = s.wrote(0, 1).assigned(1, generation=3).got(0, 1).revoked()
    s.moved(kind="group.delete").assigned(2, generation=1)
    s.tick()
    old.commit(2)


@story(duplicate_delivery__legal=2)
def committed_in_a_lower_generation_of_the_next_life_of_the_group(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1).assigned(1, generation=3).got(0, 1).commit(2).revoked()
    s.moved(kind="group.delete").assigned(2, generation=1).got(0, 1).commit(2)


@story()
def committed_in_the_moment_in_which_another_began(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    old = s.assigned(1, generation=1).got(0, 1)
    s.assigned(2, generation=2)
    old.commit(2).lost(generation=1)


@story()
def committed_while_it_was_revoked(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    old = s.assigned(1, generation=1).got(0)
    old.commit(1, completed_us=s.now + 9_000).revoked()
    s.assigned(2, position=1, source="committed", generation=2).got(1).commit(2)


@story()
def refused_after_another_had_begun(s: Story) -> None:
    s.members = 2
    s.wrote(0)
    old = s.assigned(1, generation=1)
    s.assigned(2, generation=2).got(0).commit(1)
    old.commit(0, "fail").lost(generation=1)


def _members(s: Story, held: tuple[str, ...], topics: tuple[list[str], ...]) -> list[dict[str, object]]:
    members = [
        {"member_id": f"m{n}", "client_id": s.reader(n), "partitions": [f"{s.name}/{p}" for p in partitions]}
        for n, partitions in enumerate(held, 1)
    ]
    return [m | {"topics": t} for m, t in zip(members, topics, strict=True)] if topics else members


def _settled(s: Story, *held: str, us: int = 3_000_000, topics: tuple[list[str], ...] = ()) -> None:
    s.partitions, s.members = 4, 2
    s.wrote(0).assigned().got(0).commit(1).revoked()
    s.group_seen(state="Stable", members=_members(s, held, topics)).tick(us)
    s.group_seen(state="PreparingRebalance")


@story(unbalanced_assignment=1)
def three_partitions_against_one(s: Story) -> None:
    _settled(s, "012", "3")


@story(unbalanced_assignment=1)
def partitions_that_are_not_neighbours(s: Story) -> None:
    _settled(s, "02", "13")


@story()
def two_partitions_each(s: Story) -> None:
    _settled(s, "01", "23")


@story()
def partitions_that_need_not_be_neighbours(s: Story) -> None:
    s.consumer_config = {"auto.offset.reset": "earliest", "partition.assignment.strategy": "cooperative-sticky"}
    _settled(s, "02", "13")


@story()
def three_partitions_against_one_for_a_moment(s: Story) -> None:
    _settled(s, "012", "3", us=200_000)


@story()
def three_partitions_against_one_until_the_group_had_settled(s: Story) -> None:
    _settled(s, "012", "3", us=300_000 - STEP_US)


@story(unbalanced_assignment=1)
def three_partitions_against_one_when_the_group_had_settled(s: Story) -> None:
    _settled(s, "012", "3", us=300_000 - STEP_US + 1)


@story()
def three_partitions_against_one_while_nobody_answered(s: Story) -> None:
    s.group_seen(answers=False)
    _settled(s, "012", "3")
    s.group_seen(answers=True)


@story()
def everything_to_the_only_member_that_found_the_topic(s: Story) -> None:
    _settled(s, "0123", "", topics=([s.name], []))


@story(unbalanced_assignment=1)
def three_partitions_against_one_of_members_that_found_the_topic(s: Story) -> None:
    _settled(s, "012", "3", topics=([s.name], [s.name]))


@story(unbalanced_assignment__undecided=1)
def spread_over_members_with_different_topics(s: Story) -> None:
    s.consumer_config = {"auto.offset.reset": "earliest", "partition.assignment.strategy": "roundrobin"}
    _settled(s, "0123", "", topics=([s.name], []))


@story(unbalanced_assignment__undecided=1)
def spread_by_an_assignor_that_promises_nothing(s: Story) -> None:
    s.consumer_config = {"auto.offset.reset": "earliest", "partition.assignment.strategy": "mine"}
    _settled(s, "012", "3")


def _voted(s: Story, first: str, second: str, *held: str) -> None:
    """A generation of the second entry's member, then the first entry's members, in this order."""
    s.partitions, s.members = 4, len(held) - 1
    s.consumer_config = {"auto.offset.reset": "earliest", "partition.assignment.strategy": first}
    own = {"group.protocol": "consumer"} if second == "KIP-848" else {"partition.assignment.strategy": second}
    s.second_entry = {"auto.offset.reset": "earliest"} | own
    s.wrote(0).assigned().got(0).commit(1).revoked()
    members = [
        {"client_id": s.reader(n), "partitions": [f"{s.name}/{p}" for p in partitions], "topics": [s.name]}
        for n, partitions in enumerate(held)
    ]
    s.group_seen(state="Stable", members=members).tick(3_000_000)
    s.group_seen(state="PreparingRebalance")


@story()
def spread_by_the_assignor_with_most_votes(s: Story) -> None:
    _voted(s, "roundrobin,range", "range,roundrobin", "02", "1", "3")


@story(unbalanced_assignment=1)
def spread_by_the_assignor_with_fewer_votes(s: Story) -> None:
    _voted(s, "range,roundrobin", "roundrobin,range", "02", "1", "3")


@story(unbalanced_assignment__undecided=1)
def spread_after_a_tied_vote(s: Story) -> None:
    _voted(s, "range,roundrobin", "roundrobin,range", "02", "13")


@story()
def spread_after_a_tied_vote_as_both_assignors_do(s: Story) -> None:
    _voted(s, "range,roundrobin", "roundrobin,range", "01", "23")


@story(unbalanced_assignment=1)
def spread_after_a_tied_vote_as_neither_assignor_does(s: Story) -> None:
    _voted(s, "range,roundrobin", "roundrobin,range", "012", "3")


@story(unbalanced_assignment=1)
def spread_by_the_one_assignor_that_both_entries_have(s: Story) -> None:
    _voted(s, "mine,range", "range", "02", "1", "3")


@story()
def spread_by_the_brokers_as_one_entry_has_no_assignor(s: Story) -> None:
    _voted(s, "range", "KIP-848", "02", "1", "3")


@story(unbalanced_assignment=1)
def spread_by_the_brokers_and_not_evenly(s: Story) -> None:
    _voted(s, "range", "KIP-848", "012", "3")


def _mixed_resets(s: Story) -> None:
    s.consumer_config = {"auto.offset.reset": "latest"}
    s.second_entry = {"auto.offset.reset": "earliest"}
    s.wrote(0, 1, 2)


@story()
def latest_by_the_entry_of_the_member(s: Story) -> None:
    _mixed_resets(s)
    s.assigned(1, position=2).got(2).commit(3).revoked()


@story(skipped_delivery=2)
def earliest_by_the_entry_of_the_member(s: Story) -> None:
    _mixed_resets(s)
    s.assigned(0, position=2).got(2).commit(3).revoked()


@story(skipped_delivery=2)
def earliest_by_the_entry_of_a_member_without_a_recorded_position(s: Story) -> None:
    _mixed_resets(s)
    s.assigned(0, position=None).got(2).commit(3).revoked()


def _coordinated(s: Story, coordinator: int, us: int) -> None:
    s.wrote(0).assigned().got(0).commit(1).revoked()
    s.observed("partitions", 50, "__consumer_offsets")
    for n in range(50):
        s.observed("leader", 1, f"__consumer_offsets/{n}")
    s.group_seen(coordinator=coordinator).tick(us)
    s.group_seen(coordinator=1)


@story(misplaced_coordinator=1)
def coordinated_by_another_broker(s: Story) -> None:
    _coordinated(s, 2, 3_000_000)


@story()
def coordinated_by_another_broker_when_last_asked(s: Story) -> None:
    """The next sample comes late."""
    _coordinated(s, 2, 500_000)
    s.group_seen(coordinator=2).tick(500_000)
    s.group_seen(late=True).tick(3_000_000)
    s.group_seen(coordinator=1, late=False)


@story(misplaced_coordinator=1)
def coordinated_by_another_broker_when_asked_late_again(s: Story) -> None:
    _coordinated(s, 2, 500_000)
    s.group_seen(coordinator=2).tick(500_000)
    s.group_seen(late=True).tick(3_000_000)
    s.group_seen(late=False).tick(100_000)
    s.group_seen(coordinator=1)


@story()
def coordinated_by_another_broker_for_two_seconds(s: Story) -> None:
    _coordinated(s, 2, 1_999_000)


@story(misplaced_coordinator=1)
def coordinated_by_another_broker_for_longer_than_two_seconds(s: Story) -> None:
    _coordinated(s, 2, 1_999_001)


@story()
def coordinated_by_nobody(s: Story) -> None:
    _coordinated(s, -1, 3_000_000)


@story()
def coordinated_by_another_broker_that_did_not_answer(s: Story) -> None:
    _coordinated(s, 1, 0)
    s.group_seen(answers=False, coordinator=2).tick(3_000_000)
    s.group_seen(coordinator=1, answers=True)


@story()
def coordinated_by_the_leader(s: Story) -> None:
    _coordinated(s, 1, 3_000_000)


@story()
def coordinated_by_another_broker_during_an_election(s: Story) -> None:
    _coordinated(s, 2, 1_000_000)


# --- groups with offsets that a fault moved


def _read_two(s: Story, **more: object) -> Story:
    """Three records: a member gets the first two, commits, and leaves."""
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0, 1).commit(2).revoked()
    return s


@story(duplicate_delivery__legal=2)
def over_again_when_the_group_was_deleted(s: Story) -> None:
    _read_two(s).moved(kind="group.delete")
    s.assigned(2, position=0, generation=1).got(0, 1, 2).commit(3)


@story(duplicate_delivery__legal=2)
def over_again_when_its_offsets_were_deleted(s: Story) -> None:
    _read_two(s).moved(None, kind="group.delete_offsets")
    s.assigned(2, position=0, generation=2).got(0, 1, 2).commit(3)


@story(duplicate_delivery__legal=1)
def over_again_from_where_it_was_reset_to(s: Story) -> None:
    _read_two(s).moved(1)
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3)


@story(duplicate_delivery__legal=2)
def over_again_when_the_fault_may_have_worked(s: Story) -> None:
    _read_two(s).moved(kind="group.delete", end="failed")
    s.assigned(2, position=0, generation=1).got(0, 1, 2).commit(3)


@story(duplicate_delivery__legal=2)
def over_again_though_the_observer_still_saw_the_old_offset(s: Story) -> None:
    _read_two(s).moved(kind="group.delete").saw_committed(2)
    s.assigned(2, position=0, generation=1).got(0, 1, 2).commit(3)


@story(duplicate_delivery__illegal=2)
def over_again_when_another_group_was_deleted(s: Story) -> None:
    _read_two(s).moved(kind="group.delete", group="another")
    s.assigned(2, position=0, generation=2).got(0, 1, 2).commit(3)


@story(duplicate_delivery__illegal=2)
def over_again_when_offsets_of_another_partition_were_deleted(s: Story) -> None:
    s.partitions = 2
    _read_two(s).moved(None, None, kind="group.delete_offsets").rows["faults"][-1]["evidence"] = (
        '{"offsets": {"' + s.name + '/1": null}}'
    )
    s.assigned(2, position=0, generation=2).got(0, 1, 2).commit(3)


@story(duplicate_delivery__illegal=2)
def over_again_before_the_group_was_deleted(s: Story) -> None:
    _read_two(s).assigned(2, position=0, generation=2).got(0, 1, 2).commit(3).revoked()
    s.moved(kind="group.delete")


@story(duplicate_delivery__illegal=2)
def over_again_below_where_it_was_reset_to(s: Story) -> None:
    _read_two(s).moved(1)
    s.assigned(2, position=0, source="committed", generation=2).got(0, 1, 2).commit(3)


@story(duplicate_delivery__illegal=1)
def over_again_though_it_had_committed_since_it_was_deleted(s: Story) -> None:
    _read_two(s).moved(kind="group.delete")
    s.assigned(2, position=2, source="start", generation=1).got(2).commit(3).revoked()
    s.assigned(1, position=2, generation=2).got(2).commit(3)


@story(skipped_delivery=2)
def left_out_by_the_latest_when_the_group_was_deleted(s: Story) -> None:
    s.consumer_config = {}
    s.wrote(0, 1, 2, 3).assigned(1, generation=1).got(0).commit(1).revoked()
    s.moved(kind="group.delete").assigned(1, position=3, generation=2).got(3).commit(4)


@story(skipped_delivery=2)
def left_out_by_a_reset(s: Story) -> None:
    """And not committed past by the member that had held the partition."""
    s.wrote(0, 1, 2, 3).assigned(1, generation=1).got(0).commit(1).revoked()
    s.moved(3).saw_committed(3).assigned(1, position=3, source="committed", generation=2).got(3).commit(4)


@story(expired_commit=1, duplicate_delivery__legal=2)
def over_again_when_its_offset_had_expired(s: Story) -> None:
    _expired(_alone(s, 60 * SECOND))


@story(expired_commit__undecided=1, lost_commit__undecided=1, duplicate_delivery__legal=2)
def over_again_when_its_offset_was_gone_before_it_was_due(s: Story) -> None:
    """A client outside the scenario may have deleted it."""
    _expired(_alone(s, 30 * SECOND))


@story(expired_commit__undecided=1, lost_commit__undecided=1, duplicate_delivery__legal=2)
def over_again_when_its_offset_had_expired_or_was_lost(s: Story) -> None:
    _expired(_alone(s, 60 * SECOND).group_seen(answers=False).group_seen(answers=True))


@story(lost_commit=1, duplicate_delivery__legal=2)
def over_again_when_the_coordinator_had_lost_its_offset(s: Story) -> None:
    _expired(_alone(s, 0).group_seen(answers=False).group_seen(answers=True))


@story(lost_commit=1, duplicate_delivery__legal=2)
def over_again_when_its_offset_was_gone_while_it_had_members(s: Story) -> None:
    _expired(_read_two(s).saw_committed(2).group_seen(state="Stable"))


@story(expired_commit__undecided=1, lost_commit__undecided=1, duplicate_delivery__legal=2)
def over_again_when_its_offset_was_gone_and_nobody_saw_its_state(s: Story) -> None:
    _expired(_read_two(s).saw_committed(2))


@story(expired_commit=1, duplicate_delivery__legal=2)
def over_again_when_the_offset_of_a_group_without_members_had_expired(s: Story) -> None:
    """The time counts from the commit."""
    s.mode, s.consumer = "assign", {"group": s.name, "commit": {"when": "after_batch"}, "start": "group"}
    s.wrote(0, 1, 2).assigned(1).got(0, 1).commit(2).died()
    s.group_seen(answers=True).saw_committed(2).tick(60 * SECOND)
    s.saw_committed(None).life(s.reader(1), "started", incarnation=2, role="consumer")
    s.assigned(1, incarnation=2).got(0, 1, 2).commit(3)


@story(expired_commit=1, duplicate_delivery__legal=2)
def over_again_when_the_offset_of_a_new_group_had_expired(s: Story) -> None:
    """With group.protocol=consumer, the time counts from the commit, too, though the group has a member."""
    s.consumer_config = {"auto.offset.reset": "earliest", "group.protocol": "consumer"}
    _read_two(s).saw_committed(2).group_seen(answers=True, state="Stable").tick(60 * SECOND)
    _expired(s)


@story(duplicate_delivery__illegal=2)
def over_again_though_the_coordinator_never_lost_its_offset(s: Story) -> None:
    _expired(_alone(s, 0).group_seen(answers=False).group_seen(answers=True), gone=False)


@story(duplicate_delivery__legal=2)
def over_again_when_the_observer_saw_what_a_fault_deleted(s: Story) -> None:
    _read_two(s).saw_committed(2).moved(None, kind="group.delete_offsets").saw_committed(None)
    s.assigned(2, position=0, generation=2).got(0, 1, 2).commit(3)


@story(lost_commit=1, duplicate_delivery__legal=2)
def over_again_before_the_observer_saw_that_its_offset_was_lost(s: Story) -> None:
    """The coordinator answers a member first."""
    _read_two(s).saw_committed(2).group_seen(answers=True, state="Stable").group_seen(answers=False)
    s.assigned(2, position=0, generation=1).got(0, 1, 2).commit(3)
    s.saw_committed(3).group_seen(answers=True)


@story(duplicate_delivery__illegal=2)
def over_again_though_the_observer_saw_its_offset_in_force(s: Story) -> None:
    """The coordinator was interrupted, and had the offset when it answered again."""
    _read_two(s).saw_committed(2).group_seen(answers=True, state="Stable").group_seen(answers=False)
    s.group_seen(answers=True).assigned(2, position=0, generation=2).got(0, 1, 2).commit(3)


@story(duplicate_delivery__illegal=2)
def over_again_though_its_coordinator_was_never_interrupted(s: Story) -> None:
    _read_two(s).saw_committed(2).group_seen(answers=True, state="Stable")
    s.assigned(2, position=0, generation=2).got(0, 1, 2).commit(3)
    s.saw_committed(3)


def _cut(s: Story, *, silent: bool = True) -> Story:
    """Two commits: the last one is gone when the coordinator answers again."""
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1).commit(2).revoked()
    s.group_seen(answers=True, state="Stable").saw_committed(2)
    return s.group_seen(answers=False).group_seen(answers=True).saw_committed(1) if silent else s.saw_committed(1)


@story(lost_commit=1, duplicate_delivery__legal=1)
def from_an_earlier_commit_when_the_last_one_was_cut_off(s: Story) -> None:
    _cut(s).assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3)


@story(lost_commit=1, duplicate_delivery__legal=1)
def from_an_earlier_commit_before_the_observer_saw_that(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1).commit(2).revoked()
    s.group_seen(answers=True, state="Stable").saw_committed(2).group_seen(answers=False)
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2)
    s.group_seen(answers=True).saw_committed(1)


def _two_commits(s: Story) -> Epoch:
    """Two commits: the log has the first one."""
    s.members = 2
    epoch = s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).logged(1).got(1).commit(2)
    return epoch


def _answered_too_early(s: Story) -> None:
    """The coordinator that takes over answers with the first commit, and a member begins there."""
    s.group_seen(answers=True, state="Stable").saw_committed(2)
    s.group_seen(answers=False).group_seen(answers=True).saw_committed(1)
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3).logged(3)


@story(duplicate_delivery__legal=1)
def from_an_earlier_commit_while_the_log_had_the_last_one(s: Story) -> None:
    """The new coordinator answers before its high watermark has reached the last commit."""
    _two_commits(s).logged(2).revoked()
    _answered_too_early(s.commits_read_back())


@story(lost_commit=1, duplicate_delivery__legal=1)
def from_an_earlier_commit_when_the_log_had_lost_the_last_one(s: Story) -> None:
    _two_commits(s).revoked()
    _answered_too_early(s.commits_read_back())


@story(lost_commit=1, duplicate_delivery__legal=1)
def from_an_earlier_commit_when_the_log_has_the_last_one_from_later(s: Story) -> None:
    """Another member committed the same offset after the loss."""
    epoch = _two_commits(s).revoked()
    _answered_too_early(s.commits_read_back())
    epoch.logged(2, at_us=s.now)


@story(lost_commit=1, duplicate_delivery__legal=1)
def from_an_earlier_commit_when_the_last_one_was_deleted_in_the_log(s: Story) -> None:
    epoch = _two_commits(s).logged(2).revoked()
    epoch.logged(None, at_us=s.now)
    _answered_too_early(s.commits_read_back())


@story(expired_commit__undecided=1, lost_commit__undecided=1, duplicate_delivery__legal=1)
def from_an_earlier_commit_when_the_last_one_was_in_force_again(s: Story) -> None:
    """The log was not read: nobody knows whether a commit was lost, or the answer came too early."""
    _two_commits(s).revoked()
    s.group_seen(answers=True, state="Stable").saw_committed(2)
    s.group_seen(answers=False).group_seen(answers=True).saw_committed(1)
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2)
    s.saw_committed(2)


@story(duplicate_delivery__legal=1)
def from_a_lower_offset_that_somebody_committed(s: Story) -> None:
    """Without an interruption it is a commit that the ledger does not have."""
    _cut(s, silent=False).assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3)


@story(commit_rewind=1, duplicate_delivery__legal=1)
def from_a_lower_offset_that_a_member_committed_after_an_interruption(s: Story) -> None:
    s.members = 2
    epoch = s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1).commit(2)
    s.group_seen(answers=True, state="Stable").saw_committed(2).group_seen(answers=False).group_seen(answers=True)
    epoch.commit(1).revoked()
    s.saw_committed(1).assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3)


@story(expired_commit=1, duplicate_delivery__legal=3)
def over_again_in_two_partitions_when_their_offsets_had_expired(s: Story) -> None:
    """One life of the group ended."""
    s.partitions = 2
    s.send(9, 0, partition=1).log(0, 9, partition=1)
    s.assigned(1, partition=1, generation=1).got(0, seq=lambda _: 9).commit(1).revoked()
    _read_two(s).saw_committed(2).observed("committed", 1, f"group:{s.name}/{s.name}/1")
    s.group_seen(answers=True, state="Empty").tick(60 * SECOND)
    s.saw_committed(None).tick(5 * SECOND - STEP_US)
    s.observed("committed", "null", f"group:{s.name}/{s.name}/1")
    s.assigned(2, partition=1, generation=1).got(0, seq=lambda _: 9).commit(1)
    s.assigned(2, generation=1).got(0, 1, 2).commit(3)


@story(expired_commit=2, duplicate_delivery__legal=4)
def over_again_twice(s: Story) -> None:
    """Two lives of the group ended."""
    s.members = 3
    _alone(s, 60 * SECOND).saw_committed(None).assigned(2, generation=1).got(0, 1).commit(2).revoked()
    s.group_seen(state="Stable").saw_committed(2).group_seen(state="Empty").tick(60 * SECOND)
    s.saw_committed(None).assigned(3, generation=1).got(0, 1, 2).commit(3)


@story(expired_commit=1, duplicate_delivery__legal=2)
def over_again_as_soon_as_its_offset_may_have_expired(s: Story) -> None:
    """The observer may see that the last member left three seconds late."""
    _expired(_alone(s, 57 * SECOND - STEP_US))


@story(expired_commit__undecided=1, lost_commit__undecided=1, duplicate_delivery__legal=2)
def over_again_just_before_its_offset_may_have_expired(s: Story) -> None:
    _expired(_alone(s, 57 * SECOND - STEP_US - 1))


@story(lost_commit=1, duplicate_delivery__legal=1)
def from_an_earlier_commit_when_the_last_one_might_have_expired(s: Story) -> None:
    """An offset that expires leaves none behind."""
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0).commit(1).got(1).commit(2).revoked()
    s.group_seen(answers=True, state="Empty").saw_committed(2).tick(60 * SECOND)
    s.group_seen(answers=False).group_seen(answers=True).saw_committed(1)
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3)


@story(expired_commit__undecided=1, lost_commit__undecided=1, duplicate_delivery__legal=2)
def over_again_when_it_may_have_been_alone_while_nobody_answered(s: Story) -> None:
    """Its members may have left while the observer got no answer, and its offset may have expired then."""
    _read_two(s).saw_committed(2).group_seen(answers=True, state="Stable").group_seen(answers=False)
    _expired(s.tick_on(61 * SECOND).group_seen(answers=True))


def _alone(s: Story, us: int) -> Story:
    """Its only member leaves the group for some time."""
    return _read_two(s).saw_committed(2).group_seen(answers=True, state="Empty").tick_on(us)


def _expired(s: Story, gone: bool = True) -> None:
    """A member reads all again after the observer saw that its group has no offset any more."""
    if gone:
        s.saw_committed(None)
    s.assigned(2, position=0, generation=1 if gone else 2).got(0, 1, 2).commit(3)


@story(stalled_delivery=1)
def held_in_the_first_generation_of_two_lives(s: Story) -> None:
    """Nobody saw the end of the group, which commits nothing: a member has another id in the same generation."""
    s.partitions = s.members = 2
    s.consumer_config, s.consumer = {"auto.offset.reset": "latest"}, {"commit": {"when": "never"}}
    s.wrote(0)
    one = s.assigned(1, position=1, generation=1)
    two = s.assigned(2, position=0, generation=1, partition=1)
    s.wrote(1, 2)
    one.got(1)
    one.lost()
    two.lost()
    s.assigned(2, position=2, generation=1)
    s.assigned(1, position=0, generation=1, partition=1)
    for row in s.rows["assignments"][-2:]:
        row["member_id"] += "-again"


@story(double_ownership=1)
def held_by_two_at_once_when_the_group_was_deleted(s: Story) -> None:
    s.members = 2
    old = s.wrote(0, 1).assigned(1, generation=1).got(0).commit(1)
    s.moved(kind="group.delete").assigned(2, position=1, source="committed", generation=1).got(1).commit(2)
    old.revoked()


@story(duplicate_delivery__legal=2, commit_rewind=1)
def committed_back_since_the_group_was_deleted(s: Story) -> None:
    _read_two(s).moved(kind="group.delete")
    s.assigned(2, position=0, generation=1).got(0).commit(1).got(1, 2).commit(3).commit(2)


@story(foreign_commit=1)
def moved_by_another_job_when_it_had_been_reset(s: Story) -> None:
    s.mode, s.members = "assign", 2
    s.consumer = {"group": "disputed", "commit": {"when": "after_batch"}, "start": "group"}
    s.wrote(0, 1, 2).assigned(1, position=0).got(0, 1).died()
    s.moved(0).assigned(2, position=0).got(0, 1).commit(2).got(2)
    s.life(s.reader(1), "started", incarnation=2, role="consumer")
    s.assigned(1, position=2, source="committed", incarnation=2).got(2).commit(3)


@story(duplicate_delivery__legal=1)
def moved_by_a_fault_and_by_nobody_else(s: Story) -> None:
    s.mode, s.members = "assign", 2
    s.consumer = {"group": "reset", "commit": {"when": "after_batch"}, "start": "group"}
    s.wrote(0, 1, 2).assigned(1, position=0).got(0, 1).commit(2).died()
    s.moved(1).life(s.reader(1), "started", incarnation=2, role="consumer")
    s.assigned(1, position=1, source="committed", incarnation=2).got(1, 2).commit(3)
    s.assigned(2, position=0).got(0, 1, 2)


@story()
def a_partition_added_when_the_group_had_been_deleted(s: Story) -> None:
    """It begins again, and what was there by then is not owed to it."""
    _added(s, 5 * SECOND).moved(kind="group.delete").assigned(position=2, generation=1).got(2).commit(3)


# --- topics that are deleted and created again


def _of(first_seq: int) -> Callable[[int], int]:
    return lambda offset: first_seq + offset


def _deleted(s: Story, **more: int) -> Epoch:
    """Three records of a topic are sent and read, then it is deleted."""
    s.observed("leader_epoch", 0)
    for seq in range(3):
        s.send(seq, seq)
    epoch = s.assigned(generation=1).got(0, 1, 2).commit(3)
    s.deleted(**more)
    return epoch


@story()
def created_again_under_a_reader(s: Story) -> None:
    _deleted(s).story.again(3, 0, 1)
    s.assigned(generation=2).got(0, 1, seq=_of(3)).commit(2)


@story()
def created_again_under_an_assignment_that_stays(s: Story) -> None:
    epoch = _deleted(s)
    s.again(3, 0, 1)
    epoch.got(0, 1, seq=_of(3)).commit(2).revoked()


@story(lost_write=1)
def acked_in_the_topic_created_again_and_gone(s: Story) -> None:
    epoch = _deleted(s)
    s.again(3, 0, 1).send(5, 2)
    epoch.got(0, 1, seq=_of(3)).commit(2)


@story(dirty_read=1, offset_reuse=1)
def read_from_the_topic_created_again_and_not_there(s: Story) -> None:
    epoch = _deleted(s)
    s.again(3, 0, 1).send(5, 1, outcome="unknown")
    epoch.got(0, seq=_of(3)).got(1, seq=lambda _: 5).commit(2)
    s.assigned(2, position=1, source="committed", generation=2).got(1, seq=_of(3))
    s.members = 2


@story()
def acked_while_the_topic_was_created_again(s: Story) -> None:
    """No record of the new topic was lost, for its leader never changed: this one was of the deleted topic."""
    invoked_us = s.now
    epoch = _deleted(s)
    s.again(3, 0, 1).send(9, 3, invoked_us=invoked_us)
    epoch.got(0, 1, seq=_of(3)).commit(2)


@story()
def acked_in_a_partition_that_the_new_topic_does_not_have(s: Story) -> None:
    invoked_us = s.now
    epoch = _deleted(s, steady=False)
    s.again(3, 0, 1).send(9, 3, partition=1, invoked_us=invoked_us)
    epoch.got(0, 1, seq=_of(3)).commit(2)


@story()
def in_the_log_of_a_partition_that_was_not_read_back(s: Story) -> None:
    """The log decides, whether it has the partition or not; found among generated histories (seed 105)."""
    invoked_us = s.now
    epoch = _deleted(s, steady=False)
    s.again(3, 0, 1).send(9, None, partition=1, invoked_us=invoked_us).log(0, 9, partition=1)
    s.send(10, 1, partition=1, invoked_us=invoked_us).log(1, 10, partition=1)
    epoch.got(0, 1, seq=_of(3)).commit(2)


@story(lost_write__undecided=1)
def acked_while_the_topic_was_created_again_before_a_failover(s: Story) -> None:
    invoked_us = s.now
    epoch = _deleted(s, steady=False)
    s.again(3, 0, 1).send(9, 3, invoked_us=invoked_us)
    epoch.got(0, 1, seq=_of(3)).commit(2)


@story()
def sent_before_the_deletion_and_written_after_it(s: Story) -> None:
    invoked_us = s.now
    epoch = _deleted(s)
    s.send(3, 0, invoked_us=invoked_us).log(0, 3).again(3, 1)
    epoch.got(0, 1, seq=_of(3)).commit(2)


@story()
def read_after_the_topic_was_deleted(s: Story) -> None:
    """The consumer had fetched it before."""
    for seq in range(3):
        s.send(seq, seq)
    epoch = s.assigned(generation=1).got(0, 1)
    s.deleted()
    epoch.got(2)
    s.again(3, 0, 1)
    epoch.got(0, 1, seq=_of(3)).commit(2)


@story(skipped_delivery=3)
def read_on_at_the_position_in_the_deleted_topic(s: Story) -> None:
    epoch = _deleted(s)
    s.again(3, 0, 1, 2, 3, 4)
    epoch.got(3, 4, seq=_of(3)).commit(5)


@story(skipped_delivery=2)
def reset_to_the_end_of_the_topic_created_again(s: Story) -> None:
    s.consumer_config = {"auto.offset.reset": "latest"}
    epoch = _deleted(s)
    s.again(3, 0, 1, 2)
    epoch.got(2, seq=_of(3)).commit(3)


@story(skipped_delivery=3)
def a_commit_of_the_deleted_topic_in_force_in_the_new_one(s: Story) -> None:
    s.members = 2
    epoch = _deleted(s)
    s.again(3, 0, 1, 2, 3, 4)
    epoch.commit(3).revoked()
    s.assigned(2, position=3, source="committed", generation=2).got(3, 4, seq=_of(3)).commit(5)


@story()
def a_commit_of_the_deleted_topic_while_the_new_one_is_read(s: Story) -> None:
    """It is not ahead of what was processed, and the next one is not behind it."""
    epoch = _deleted(s)
    s.again(3, 0, 1, 2, 3, 4)
    epoch.got(0, 1, seq=_of(3)).commit(3).commit(2).got(2, 3, 4, seq=_of(3)).commit(5)


@story(duplicate_delivery__legal=2)
def a_commit_of_the_deleted_topic_beyond_the_end_of_the_new_one(s: Story) -> None:
    s.members = 2
    epoch = _deleted(s)
    s.again(3, 0, 1)
    epoch.commit(3).got(0, 1, seq=_of(3)).died()
    s.assigned(2, position=3, source="committed", generation=2).got(0, 1, seq=_of(3)).commit(2)


@story(skipped_delivery=3)
def a_checkpoint_of_the_deleted_topic(s: Story) -> None:
    s.mode, s.consumer = "assign", {"group": s.name, "commit": {"when": "after_batch"}}
    _deleted(s).died()
    s.again(3, 0, 1, 2, 3, 4)
    s.assigned(position=3, source="checkpoint", incarnation=2).got(3, 4, seq=_of(3))


@story(skipped_delivery=2)
def a_stored_checkpoint_of_the_deleted_topic(s: Story) -> None:
    """It is not where the reader had come, and is restored in the new topic."""
    _storing(s).observed("leader_epoch", 0)
    for seq in range(3):
        s.send(seq, seq)
    epoch = s.assigned(source="start").got(0, 1).stored(2).got(2)
    s.deleted()
    epoch.died()
    s.again(3, 0, 1, 2, 3, 4)
    s.assigned(position=2, source="checkpoint", incarnation=2).got(2, 3, 4, seq=_of(3))


@story(stalled_delivery=1)
def not_read_to_the_end_of_the_topic_created_again(s: Story) -> None:
    epoch = _deleted(s)
    s.again(3, 0, 1)
    epoch.got(0, seq=_of(3)).commit(1)


@story()
def deleted_for_good(s: Story) -> None:
    s.exists = False
    _deleted(s, again=False).revoked()
    s.send(3, outcome="fail")


@story()
def sent_after_another_was_acknowledged_and_before_it_in_a_topic_that_was_deleted(s: Story) -> None:
    s.exists = False
    s.life(s.producer, "started", "stopped").life(s.producer, "started", "stopped", incarnation=2)
    s.observed("leader_epoch", 0).send(0, 5).tick(1)
    s.send(1, 3, incarnation=2).deleted(again=False)


@story()
def created_again_twice(s: Story) -> None:
    epoch = _deleted(s)
    s.send(3, 0).send(4, 1)
    epoch.got(0, 1, seq=_of(3)).commit(2)
    s.deleted("A+").again(5, 0, 1)
    epoch.got(0, 1, seq=_of(5)).commit(2)


@story()
def created_again_twice_in_short_order(s: Story) -> None:
    """By its offsets, what was sent in between is of the second topic."""
    epoch = _deleted(s, wait_us=0)
    s.send(3, 0).send(4, 1)
    epoch.got(0, 1, seq=_of(3)).commit(2)
    s.tick(2 * SECOND)
    s.send(5, 2)
    epoch.got(2, seq=_of(3)).commit(3)
    s.deleted("A+").again(6, 0, 1)
    epoch.got(0, 1, seq=_of(6)).commit(2)


@story()
def created_again_twice_and_nobody_can_say_which_it_was(s: Story) -> None:
    epoch = _deleted(s, wait_us=0, steady=False)
    s.send(3, 4).send(4, 5)
    epoch.got(4, 5, seq=lambda offset: offset - 1).commit(6)
    s.tick(2 * SECOND)
    s.deleted("A+").again(6, 0, 1)
    epoch.got(0, 1, seq=_of(6)).commit(2)


@story()
def read_from_topics_that_nobody_can_tell_apart_in_falling_order(s: Story) -> None:
    """The offset of one topic says nothing about that of another."""
    epoch = _deleted(s, wait_us=0, steady=False)
    s.send(3, 5).send(4, 4)
    epoch.got(5, seq=lambda _: 3).got(4, seq=lambda _: 4).commit(6)
    s.tick(2 * SECOND)
    s.deleted("A+").again(6, 0, 1)
    epoch.got(0, 1, seq=_of(6)).commit(2)


@story(lost_write=1)
def lost_from_the_third_topic_when_a_broker_never_listed_the_second(s: Story) -> None:
    epoch = _deleted(s, listed=False)
    s.send(3, 0).send(4, 1)
    epoch.got(0, 1, seq=_of(3)).commit(2)
    s.tick(2 * SECOND)
    s.deleted("A+", steady=False).again(5, 0, 1).send(7, 2)
    epoch.got(0, 1, seq=_of(5)).commit(2)


@story()
def read_from_the_second_topic_after_the_third_was_created(s: Story) -> None:
    """The consumer had fetched it before. By its offset, the record is of the second topic."""
    epoch = _deleted(s, wait_us=0)
    s.send(3, 0).send(4, 1)
    epoch.got(0, seq=_of(3)).commit(1)
    s.tick(2 * SECOND)
    s.deleted("A+").again(6, 0, 1)
    epoch.got(1, seq=_of(3))
    epoch.got(0, 1, seq=_of(6)).commit(2)


@story()
def read_from_one_of_two_topics_after_the_third_was_created(s: Story) -> None:
    """Its acknowledgement came before the third topic was there, so that nothing of that one was read and is gone."""
    epoch = _deleted(s, wait_us=0, steady=False)
    s.send(3, 0).send(4, 1)
    epoch.got(0, seq=_of(3)).commit(1)
    s.tick(2 * SECOND)
    s.deleted("A+", steady=False).again(6, 0, 1)
    epoch.got(1, seq=_of(3))
    epoch.got(0, 1, seq=_of(6)).commit(2)


@story(lost_write__undecided=1, dirty_read__undecided=1)
def read_from_one_of_three_topics(s: Story) -> None:
    """Its acknowledgement came when the third topic was there."""
    epoch, invoked_us = _deleted(s, wait_us=0, steady=False), s.now
    s.tick(2 * SECOND)
    s.deleted("A+", steady=False, wait_us=0)
    s.send(3, 7, invoked_us=invoked_us)
    epoch.got(7, seq=lambda _: 3)
    s.tick(2 * SECOND)
    s.again(6, 0, 1)
    epoch.got(0, 1, seq=_of(6)).commit(2)


@story()
def read_from_one_of_two_topics_after_it_timed_out(s: Story) -> None:
    """Nobody knows which topic a record reached that was never acknowledged; it repeats no offset of the first."""
    epoch = _deleted(s, wait_us=0)
    s.send(3, 0).send(4, outcome="unknown")
    epoch.got(0, 1, seq=_of(3)).commit(2)
    s.tick(2 * SECOND)
    s.deleted("A+").again(6, 0, 1)
    epoch.got(0, 1, seq=_of(6)).commit(2)


@story()
def created_again_three_times_around_a_send(s: Story) -> None:
    """Nobody can say which of the three topics that are gone has it: it reuses no offset of the first."""
    epoch = _deleted(s, wait_us=0)
    s.tick(2 * SECOND)
    invoked_us = s.now
    s.send(3, 0)
    epoch.got(0, seq=_of(3)).commit(1)
    s.deleted("A+", wait_us=0)
    s.tick(100)
    s.deleted("A++", wait_us=0)
    s.send(4, 0, invoked_us=invoked_us)
    s.tick(2 * SECOND)
    s.deleted("A+++").again(6, 0, 1)
    epoch.got(0, 1, seq=_of(6)).commit(2)


@story()
def a_transaction_open_while_the_topic_was_created_again(s: Story) -> None:
    """What it wrote to the deleted topic is gone by order; what it wrote to the new one is there."""
    s.observed("leader_epoch", 0)
    began = s.now
    for seq in range(2):
        s.send(seq, seq, txn=1)
    s.deleted()
    s.send(2, 0, txn=1).log(0, 2).transaction(1, "committed", began)


@story(lost_write=1, torn_transaction=1)
def lost_of_a_transaction_open_while_the_topic_was_created_again(s: Story) -> None:
    s.observed("leader_epoch", 0)
    began = s.now
    for seq in range(2):
        s.send(seq, seq, txn=1)
    s.deleted()
    s.send(2, 0, txn=1).log(0, 2).send(3, 1, txn=1).transaction(1, "committed", began)


@story(torn_transaction=1)
def aborted_while_the_topic_was_created_again_and_seen(s: Story) -> None:
    s.observed("leader_epoch", 0)
    began = s.now
    for seq in range(2):
        s.send(seq, seq, txn=1)
    s.deleted()
    s.send(2, 0, txn=1).log(0, 2).transaction(1, "aborted", began)


@story(lost_write=1)
def created_again_by_a_client(s: Story) -> None:
    """No fault names the time; the observer saw another id."""
    s.observed("id", '"A"', f"topic:{s.name}").tick(9 * SECOND)
    s.send(0, 0).send(1, 1)
    s.tick(9 * SECOND)
    s.observed("id", "null", f"topic:{s.name}").observed("id", '"B"', f"topic:{s.name}").tick(9 * SECOND)
    s.again(2, 0, 1).send(4, 2)


# --- outputs of processors


@story()
def each_input_has_its_output(s: Story) -> None:
    s.wrote(0, 1, 2)
    s.assigned().got(0, 1, 2).commit(3, kind="transaction").revoked()
    s.output(0, of=0).output(1, of=1).output(2, of=2)


@story(missing_output=1)
def committed_past_without_output(s: Story) -> None:
    s.wrote(0, 1, 2)
    s.assigned().got(0, 1, 2).commit(3).revoked()
    s.output(0, of=0).output(1, of=2)


@story(missing_output=1)
def committed_past_with_an_aborted_output(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=0).output(1, of=1, seen=False)


@story(missing_output__undecided=1)
def committed_past_with_an_output_in_an_open_transaction(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=0).output(1, of=1, seen=None)


@story(missing_output__undecided=1)
def committed_past_an_input_in_an_open_transaction(s: Story) -> None:
    s.wrote(0).send(1, 1, txn=1, outcome="unknown").log(1, 1, committed=None)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=0)


@story(missing_output__undecided=1, duplicate_output__undecided=2)
def an_output_may_have_been_evicted(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(1, of=1)
    s.out_start = 1


@story(missing_output__undecided=1, duplicate_output__undecided=2)
def an_output_carries_no_coordinates(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=0).output(1, of=None)


@story(duplicate_output__undecided=2, unconsumed_output=1, unconsumed_output__undecided=1)
def an_output_carries_no_coordinates_and_one_is_of_an_input_that_is_not_committed(s: Story) -> None:
    s.wrote(0, 1, 2)
    s.assigned().got(0, 1, 2).commit(1).revoked()
    s.output(0, of=0).output(1, of=1).output(2, of=None)


@story(missing_output=1)
def an_output_of_a_producer_that_is_no_processor(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=0).output(9, of=1, by=s.producer)


@story(missing_output=1)
def an_input_that_was_evicted_has_no_output(s: Story) -> None:
    s.evicted(1)
    s.send(0, 0).wrote(1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=1)


@story(missing_output=1)
def an_input_that_was_compacted_has_no_output(s: Story) -> None:
    s.compacted().send(0, 0, key="k1").wrote(1, key="k1")
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=1)


@story(lost_processing=1, overcommit=1)
def an_input_that_was_lost_has_no_output(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0).commit(2).revoked()
    s.output(0, of=0)


@story(dirty_read=1)
def an_input_that_the_log_does_not_have_has_no_output(s: Story) -> None:
    """It is at the start of the log, so retention did not delete it."""
    s.evicted(1).send(0, 0)
    s.log_end = 2
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=0)


@story(skipped_delivery=1, poll_skip=1)
def an_input_that_was_skipped_has_no_output(s: Story) -> None:
    s.wrote(0, 1, 2)
    s.assigned().got(0, 2).commit(3).revoked()
    s.output(0, of=0).output(1, of=2)


@story()
def an_input_of_an_aborted_transaction_has_no_output(s: Story) -> None:
    s.in_transaction(1, "aborted", 0).wrote(1)
    s.assigned().got(1).commit(2).revoked()
    s.output(0, of=1)


@story(aborted_read=1)
def an_input_of_an_aborted_transaction_that_was_read_has_no_output(s: Story) -> None:
    s.in_transaction(1, "aborted", 0).wrote(1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=1)


@story(missing_output=1)
def a_reader_of_uncommitted_records_left_an_aborted_one_out(s: Story) -> None:
    s.consumer_config = {"auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"}
    s.in_transaction(1, "aborted", 0).wrote(1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=1)


@story(
    dirty_read=1,
    offset_reuse=1,
    duplicate_output__undecided=1,
    missing_output__undecided=1,
)
def two_records_had_the_same_coordinates(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0).got(1, seq=lambda _: 7).commit(1).revoked()
    s.output(0, of=0).output(1, of=1)
    s.assigned(position=1, source="committed").got(1).commit(2).revoked()
    s.output(2, of=1)


@story(dirty_read=1, offset_reuse=1, stalled_delivery=1, unconsumed_output__undecided=1)
def two_records_had_coordinates_that_nobody_committed_past(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0).got(1, seq=lambda _: 7).commit(1).revoked()
    s.output(0, of=0).output(1, of=1)


@story(dirty_read=1, offset_reuse=1, missing_output=1)
def two_records_had_the_same_coordinates_and_none_has_an_output(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0).got(1, seq=lambda _: 7).commit(1).revoked()
    s.output(0, of=0)
    s.assigned(position=1, source="committed").got(1).commit(2).revoked()


@story(duplicate_output__illegal=1)
def an_evicted_input_was_delivered_once_without_its_identity(s: Story) -> None:
    """A row without an identity is no other record."""
    s.evicted(1).send(0, 0).wrote(1)
    s.assigned().got(0, seq=lambda _: None).revoked()
    s.assigned(source="reset").got(0, 1).commit(2).revoked()
    s.output(0, of=0).output(1, of=0).output(2, of=1)


@story()
def the_input_topic_was_created_again(s: Story) -> None:
    epoch = _deleted(s)
    for seq in range(3):
        s.output(seq, of=seq)
    s.again(3, 0, 1)
    epoch.got(0, 1, seq=_of(3)).commit(2)
    s.output(3, of=0).output(4, of=1)
    epoch.revoked()


@story(duplicate_output__illegal=1)
def written_again_of_a_topic_that_was_created_again(s: Story) -> None:
    epoch = _deleted(s)
    s.output(0, of=0)
    s.again(3, 0, 1)
    epoch.got(0, 1, seq=_of(3)).commit(2)
    s.output(1, of=0).output(2, of=1).output(3, of=1)
    epoch.revoked()


@story(missing_output=1, missing_output__undecided=1)
def missing_of_a_topic_that_was_created_again(s: Story) -> None:
    epoch = _deleted(s)
    s.output(0, of=0)
    s.again(3, 0, 1)
    epoch.got(0, 1, seq=_of(3)).commit(2)
    epoch.revoked()


@story()
def not_committed_and_without_output(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0, 1).commit(1).revoked()
    s.output(0, of=0)


@story()
def an_output_of_an_input_before_the_range(s: Story) -> None:
    s.evicted(1)
    s.send(0, 0).wrote(1)
    s.assigned(position=1).got(1).commit(2).revoked()
    s.output(0, of=1)


@story()
def aborted_and_written_again(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=0).output(1, of=1, seen=False).output(2, of=1)


@story(duplicate_output__illegal=2)
def written_again(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=0).output(1, of=1).output(2, of=1).output(3, of=1)


@story(duplicate_output__undecided=1)
def written_again_in_an_open_transaction(s: Story) -> None:
    s.wrote(0, 1)
    s.assigned().got(0, 1).commit(2).revoked()
    s.output(0, of=0).output(1, of=1).output(2, of=1, seen=None)


@story(unconsumed_output=1)
def an_output_of_an_input_that_is_not_committed(s: Story) -> None:
    s.wrote(0, 1, 2)
    s.assigned().got(0, 1, 2).commit(2).revoked()
    s.output(0, of=0).output(1, of=1).output(2, of=2)


@story(unconsumed_output=1)
def an_output_of_an_input_that_is_not_committed_while_a_fault_moves_another_group(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0, 1).commit(1).revoked()
    s.output(0, of=0).output(1, of=1).moved(2, group="other")


@story(unconsumed_output=1)
def an_output_of_an_input_that_is_not_committed_while_a_fault_moves_another_partition(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0, 1).commit(1).revoked()
    s.output(0, of=0).output(1, of=1).moved(2)
    s.rows["faults"][-1]["evidence"] = json.dumps({"offsets": {f"{s.name}/1": 2}})


@story(unconsumed_output__undecided=1)
def an_output_of_an_input_that_a_fault_may_have_committed_past(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0, 1).commit(1).revoked()
    s.output(0, of=0).output(1, of=1).moved(2, end="failed")


@story(unconsumed_output__undecided=1)
def an_output_of_an_input_whose_commit_timed_out(s: Story) -> None:
    s.wrote(0, 1, 2)
    s.assigned().got(0, 1, 2).commit(2).commit(3, "unknown").revoked()
    s.output(0, of=0).output(1, of=1).output(2, of=2)


@story(unconsumed_output__undecided=1)
def an_output_of_a_processor_that_died(s: Story) -> None:
    s.wrote(0, 1, 2)
    s.assigned().got(0, 1, 2).commit(2).died()
    s.output(0, of=0).output(1, of=1).output(2, of=2)


@story(unconsumed_output=1)
def an_output_of_a_processor_that_stopped(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0, 1).commit(1)
    s.output(0, of=0).output(1, of=1).life(s.reader(), "stopped", role="consumer")


@story(unconsumed_output__undecided=1)
def an_output_of_a_processor_that_lost_its_partition(s: Story) -> None:
    s.wrote(0, 1).assigned().got(0, 1).commit(1).lost()
    s.output(0, of=0).output(1, of=1)


def _processed(s: Story) -> Story:
    """A processor that committed past three inputs with their outputs, and left."""
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0, 1, 2).commit(3, kind="transaction").revoked()
    return s.output(0, of=0).output(1, of=1).output(2, of=2)


def _died_after_a_write(s: Story) -> Story:
    """A processor that works at least once, and died after its second output and before the commit of the input."""
    s.members = 2
    s.wrote(0, 1).assigned(1, generation=1).got(0).commit(1).got(1).died()
    return s.output(0, of=0).output(1, of=1)


@story(duplicate_delivery__legal=2, duplicate_output__legal=2)
def written_again_after_a_reset(s: Story) -> None:
    _processed(s).moved(1)
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3, kind="transaction")
    s.output(3, of=1, by=s.reader(2)).output(4, of=2, by=s.reader(2))


@story(duplicate_delivery__legal=3, duplicate_output__legal=3)
def written_again_after_the_group_was_deleted(s: Story) -> None:
    _processed(s).moved(kind="group.delete")
    s.assigned(2, position=0, generation=1).got(0, 1, 2).commit(3, kind="transaction")
    for offset in range(3):
        s.output(3 + offset, of=offset, by=s.reader(2))


@story(duplicate_delivery__legal=1, duplicate_output__legal=1, duplicate_output__illegal=1)
def written_twice_after_a_reset(s: Story) -> None:
    _processed(s).moved(2)
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3, kind="transaction")
    s.output(3, of=2, by=s.reader(2)).output(4, of=2, by=s.reader(2))


@story(duplicate_delivery__legal=2, duplicate_output__legal=2)
def written_again_after_each_of_two_resets(s: Story) -> None:
    _processed(s).moved(2)
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3, kind="transaction").revoked()
    s.output(3, of=2, by=s.reader(2)).moved(2)
    s.assigned(1, position=2, source="committed", generation=3).got(2).commit(3, kind="transaction")
    s.output(4, of=2)


@story(duplicate_delivery__legal=1, duplicate_output__illegal=1)
def written_again_by_the_next_member_without_a_reset(s: Story) -> None:
    _died_after_a_write(s)
    s.assigned(2, position=1, source="committed", generation=2).got(1).commit(2)
    s.output(2, of=1, by=s.reader(2))


@story(duplicate_delivery__legal=1, duplicate_output__illegal=1)
def written_again_of_an_input_that_was_not_committed_before_a_reset(s: Story) -> None:
    """The reset changed nothing: the input would have been read again without it."""
    _died_after_a_write(s).moved(1)
    s.assigned(2, position=1, source="committed", generation=2).got(1).commit(2)
    s.output(2, of=1, by=s.reader(2))


@story(duplicate_output__illegal=1)
def written_again_below_where_the_group_was_set(s: Story) -> None:
    _processed(s).moved(3)
    s.assigned(2, position=3, source="committed", generation=2)
    s.output(3, of=0, by=s.reader(2))


@story(duplicate_delivery__legal=1, duplicate_output__legal=2)
def written_again_by_a_member_of_which_the_last_delivery_is_not_on_record(s: Story) -> None:
    """The time of the output says that it is of the stretch after the reset."""
    _processed(s).moved(1)
    s.assigned(2, position=1, source="committed", generation=2).got(1).commit(2, kind="transaction")
    s.output(3, of=1, by=s.reader(2)).output(4, of=2, by=s.reader(2))


@story(duplicate_delivery__legal=1, duplicate_output__illegal=1)
def written_again_before_a_reset(s: Story) -> None:
    _processed(s).output(3, of=2, by=s.reader(2)).moved(2)
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3, kind="transaction")


@story(duplicate_delivery__legal=2, duplicate_output__illegal=1)
def written_again_by_the_former_member_after_a_reset(s: Story) -> None:
    """It had got the input before the reset."""
    _processed(s).moved(1)
    s.assigned(2, position=1, source="committed", generation=2).got(1, 2).commit(3, kind="transaction")
    s.output(3, of=1)


@story(duplicate_output__legal=1)
def written_again_by_a_member_of_which_nothing_is_on_record(s: Story) -> None:
    _processed(s).moved(kind="group.delete")
    s.assigned(2, position=None, source=None, generation=1)
    s.output(3, of=0, by=s.reader(2))


@story(duplicate_delivery__legal=3, duplicate_output__legal=3)
def written_again_from_an_offset_that_nobody_knows(s: Story) -> None:
    _processed(s).moved(kind="group.delete")
    s.assigned(2, position=None, source=None, generation=1).got(0, 1, 2).commit(3, kind="transaction")
    for offset in range(3):
        s.output(3 + offset, of=offset, by=s.reader(2))


@story(missing_output=1)
def aborted_and_passed_over_by_a_reset(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2).assigned(1, generation=1).got(0, 1).commit(1, kind="transaction").revoked()
    s.output(0, of=0).output(1, of=1, seen=False).moved(2)
    s.assigned(2, position=2, source="committed", generation=2).got(2).commit(3, kind="transaction").revoked()
    s.output(2, of=2, by=s.reader(2))


# --- counts of processors


def _counted(s: Story, *keys: str) -> None:
    """Inputs of some keys, which a group processed and committed past."""
    s.keyed(*keys).assigned().got(*range(len(keys))).commit(len(keys), kind="transaction").revoked()


@story()
def each_input_is_counted_once(s: Story) -> None:
    _counted(s, "k1", "k2", "k1", "k1")
    s.output(0, of=0, key="k1", count=1).output(1, of=1, key="k2", count=1)
    s.output(2, of=2, key="k1", count=2).output(3, of=3, key="k1", count=3)


@story(wrong_count=2, duplicate_output__illegal=1)
def an_input_is_counted_twice(s: Story) -> None:
    """At least once: the output that was written again, and all later ones of its key, count one more."""
    _counted(s, "k1", "k1", "k2", "k1")
    s.output(0, of=0, key="k1", count=1).output(1, of=1, key="k1", count=2).output(2, of=1, key="k1", count=3)
    s.output(3, of=2, key="k2", count=1).output(4, of=3, key="k1", count=4)


@story(duplicate_output__illegal=1)
def an_input_is_processed_again_with_the_state_before_it(s: Story) -> None:
    _counted(s, "k1", "k1")
    s.output(0, of=0, key="k1", count=1).output(1, of=1, key="k1", count=2).output(2, of=1, key="k1", count=2)


@story(wrong_count=1)
def the_count_of_a_key_begins_again(s: Story) -> None:
    _counted(s, "k1", "k1")
    s.output(0, of=0, key="k1", count=1).output(1, of=1, key="k1", count=1)


@story()
def an_aborted_output_with_another_count(s: Story) -> None:
    _counted(s, "k1", "k1")
    s.output(0, of=0, key="k1", count=1).output(1, of=1, key="k1", count=3, seen=False)
    s.output(2, of=1, key="k1", count=2)


@story(duplicate_output__undecided=1, wrong_count__undecided=1)
def an_output_with_another_count_in_an_open_transaction(s: Story) -> None:
    _counted(s, "k1", "k1")
    s.output(0, of=0, key="k1", count=1).output(1, of=1, key="k1", count=2)
    s.output(2, of=1, key="k1", count=3, seen=None)


@story()
def an_aborted_input_does_not_count(s: Story) -> None:
    s.keyed("k1").send(1, 1).log(1, 1, key="k1", committed=False).send(2, 2).log(2, 2, key="k1")
    s.assigned().got(0, 2).commit(3, kind="transaction").revoked()
    s.output(0, of=0, key="k1", count=1).output(1, of=2, key="k1", count=2)


@story(wrong_count__undecided=2)
def an_earlier_input_is_in_an_open_transaction(s: Story) -> None:
    s.keyed("k1").send(1, 1).log(1, 1, key="k1", committed=None).send(2, 2).log(2, 2, key="k1")
    s.assigned().got(0, 1, 2).commit(3, kind="transaction").revoked()
    s.output(0, of=0, key="k1", count=1).output(1, of=1, key="k1", count=2).output(2, of=2, key="k1", count=3)


@story()
def a_count_begins_where_the_group_begins(s: Story) -> None:
    s.consumer_config = {"auto.offset.reset": "latest"}
    s.keyed("k1", "k1")
    s.assigned(position=1).got(1).commit(2, kind="transaction").revoked()
    s.output(0, of=1, key="k1", count=1)


@story()
def another_partition_has_other_counts(s: Story) -> None:
    s.partitions = 2
    s.keyed("k1").send(1, 0, partition=1).log(0, 1, partition=1, key="k1")
    s.assigned(partition=1).got(0, seq=lambda _: 1).commit(1, kind="transaction").revoked()
    s.assigned().got(0).commit(1, kind="transaction").revoked()
    s.output(0, of=0, key="k1", count=1).output(1, of=0, key="k1", count=1)
    s.rows["log"][-1]["input_partition"] = 1


@story(wrong_count__undecided=2)
def an_earlier_input_may_have_been_evicted(s: Story) -> None:
    s.evicted(1).keyed("k1", "k1")
    s.rows["log"] = s.rows["log"][1:]
    s.assigned().got(0, 1).commit(2, kind="transaction").revoked()
    s.output(0, of=0, key="k1", count=1).output(1, of=1, key="k1", count=2)


@story(wrong_count__undecided=2)
def outputs_without_a_count_and_of_another_key(s: Story) -> None:
    _counted(s, "k1", "k1")
    s.output(0, of=0, key="k1").output(1, of=1, key="k2", count=1)


# --- last, because all stories share the time in which nobody answered


@story()
def seen_only_when_brokers_answered_again(s: Story) -> None:
    """It may have been made at any time since they did not."""
    s.partitions, s.consumer_config = 2, {"auto.offset.reset": "latest"}
    s.observed("answers", "true", "cluster").observed("answers", "false", "cluster")
    s.assigned(position=0, partition=1, generation=1)
    s.tick(9 * SECOND)
    s.observed("answers", "true", "cluster").observed("leader", 1).wrote(0, 1, 2)
    s.assigned(position=2, generation=2).got(2).commit(3)


def _unread(s: Story) -> Epoch:
    """A topic is deleted for good, a client creates it again, and the new one is not read back."""
    s.exists, entity = False, f"topic:{s.name}"
    s.observed("id", '"A"', entity).tick(9 * SECOND)
    epoch = _deleted(s, again=False)
    s.observed("id", "null", entity).tick(9 * SECOND)
    s.observed("id", '"B"', entity).tick(9 * SECOND)
    s.send(3, 0).send(4, 1)
    return epoch


@story(lost_write__undecided=2)
def acked_by_a_topic_created_again_that_was_not_read_back(s: Story) -> None:
    _unread(s).revoked()


@story(lost_write__undecided=2, dirty_read__undecided=2)
def acked_and_read_in_a_topic_created_again_that_was_not_read_back(s: Story) -> None:
    _unread(s).got(0, 1, seq=_of(3)).commit(2).revoked()


@story()
def created_again_by_two_faults_that_overlap(s: Story) -> None:
    """The fault that deletes the topic first reports that last."""
    created_again_twice(s)
    first, second = s.rows["faults"]
    first["at_us"] = second["at_us"] + 1


# --- share groups


@story()
def a_share_group_deals_with_each_record(s: Story) -> None:
    s.wrote(0, 1, 2, 3)
    s.acquires(1, 0, 1).ends()
    s.acquires(2, 2).ends("release").acquires(1, 2, count=2).ends()
    s.acquires(2, 3).ends("reject").share_seen(4, 0)


@story(lost_share=1)
def passed_by_a_share_group(s: Story) -> None:
    s.wrote(0, 1, 2).acquires(1, 0, 2).ends().share_seen(3)


@story(lost_share=1)
def never_acquired_though_the_share_group_has_no_lag(s: Story) -> None:
    s.wrote(0, 1, 2).acquires(1, 0, 2).ends().share_seen(1, 0)


@story(lost_share__undecided=1)
def archived_perhaps_without_a_poll(s: Story) -> None:
    s.consumer = {"share.record.lock.duration.ms": 1, "share.delivery.count.limit": 2}
    s.wrote(0, 1).acquires(1, 0).ends().share_seen(2, 0)


@story(lost_share__undecided=1)
def archived_perhaps_as_nobody_knows_when_it_was_written(s: Story) -> None:
    s.consumer = {"share.record.lock.duration.ms": 3_600_000}
    s.wrote(0).send(1, 1).log(1, 1, timestamp_us=None).acquires(1, 0).ends().share_seen(2, 0)


@story(lost_share__undecided=1)
def archived_perhaps_with_the_members_that_had_it(s: Story) -> None:
    s.consumer = {"share.record.lock.duration.ms": 3_600_000, "share.delivery.count.limit": 2}
    s.wrote(0, 1).acquires(1, 0).ends().life(s.reader(1), "crashed", role="consumer")
    s.life(s.reader(2), "started", "stopped", role="consumer").share_seen(2, 0)


@story(lost_share=1)
def passed_though_one_delivery_was_left_after_the_crash(s: Story) -> None:
    s.consumer = {"share.record.lock.duration.ms": 3_600_000, "share.delivery.count.limit": 2}
    s.wrote(0, 1).acquires(1, 0).ends().life(s.reader(1), "crashed", role="consumer").share_seen(2, 0)


@story(stalled_share=1)
def not_acquired_when_the_drain_ended(s: Story) -> None:
    s.wrote(0, 1, 2).acquires(1, 0, 1).ends().share_seen(2, 1)


@story(stalled_share=2)
def a_share_group_that_began_nowhere(s: Story) -> None:
    s.mode = "share"
    s.wrote(0, 1)


@story()
def aborted_for_a_share_group_that_reads_committed(s: Story) -> None:
    s.consumer = {"share.isolation.level": "read_committed"}
    s.in_transaction(0, "aborted", 0).wrote(1).acquires(1, 1).ends().share_seen(2, 0)


@story(aborted_share=1)
def aborted_and_acquired_by_a_share_group_that_reads_committed(s: Story) -> None:
    s.consumer = {"share.isolation.level": "read_committed"}
    s.in_transaction(0, "aborted", 0).wrote(1).acquires(1, 0, 1).ends().share_seen(2, 0)


@story(aborted_share=1)
def aborted_and_acquired_with_one_that_the_log_does_not_have(s: Story) -> None:
    """It is beyond all records of the log."""
    s.consumer = {"share.isolation.level": "read_committed"}
    s.in_transaction(0, "aborted", 0).wrote(1).acquires(1, 0, 1, 7).ends().share_seen(2, 0)


@story()
def aborted_and_acquired_by_a_share_group_that_reads_all(s: Story) -> None:
    s.in_transaction(0, "aborted", 0).wrote(1).acquires(1, 0, 1).ends().share_seen(2, 0)


@story()
def committed_and_acquired_by_a_share_group_that_reads_committed(s: Story) -> None:
    s.consumer = {"share.isolation.level": "read_committed"}
    s.in_transaction(0, "committed", 0).wrote(1).acquires(1, 0, 1).ends().share_seen(2, 0)


@story(lost_share=1)
def aborted_for_a_share_group_that_reads_all(s: Story) -> None:
    s.in_transaction(0, "aborted", 0).wrote(1).acquires(1, 1).ends().share_seen(2, 0)


def _shared_with_an_open_transaction(s: Story, isolation: str) -> Story:
    s.consumer = {"share.isolation.level": isolation}
    s.wrote(0).send(1, 1, txn=1, outcome="unknown").log(1, 1, committed=None)
    return s.acquires(1, 0).ends()


@story(stalled_share__undecided=1)
def acquired_up_to_an_open_transaction(s: Story) -> None:
    _shared_with_an_open_transaction(s, "read_committed").share_seen(1)


@story(lost_share__undecided=1)
def past_an_open_transaction(s: Story) -> None:
    _shared_with_an_open_transaction(s, "read_committed").share_seen(2, 0)


@story(stalled_share=1)
def acquired_up_to_an_open_transaction_by_a_share_group_that_reads_all(s: Story) -> None:
    _shared_with_an_open_transaction(s, "read_uncommitted").share_seen(1)


@story(lost_share__undecided=1)
def before_the_first_record_of_a_share_group_at_the_latest(s: Story) -> None:
    s.consumer = {"share.auto.offset.reset": "latest"}
    s.wrote(0, 1, 2).acquires(1, 1, 2).ends().share_seen(3, 0)


@story(stalled_share__undecided=1)
def nothing_acquired_by_a_share_group_at_the_latest(s: Story) -> None:
    s.consumer, s.mode = {"share.auto.offset.reset": "latest"}, "share"
    s.wrote(0)


@story(redelivered_share=1)
def accepted_and_acquired_again(s: Story) -> None:
    s.wrote(0).acquires(1, 0).ends().acquires(2, 0, count=2).ends("release").share_seen(1, 0)


@story(redelivered_share=1)
def rejected_and_acquired_again(s: Story) -> None:
    s.wrote(0).acquires(1, 0).ends("reject").acquires(2, 0, count=2)
    s.share_seen(1, 0)


@story()
def perhaps_accepted_and_acquired_again(s: Story) -> None:
    s.wrote(0).acquires(1, 0).ends(outcome="unknown", error="TIMEOUT").acquires(2, 0, count=2).ends().share_seen(1, 0)


@story()
def acquired_again_after_another_record_was_accepted(s: Story) -> None:
    """Nobody acknowledged it."""
    s.wrote(0, 1).acquires(1, 0)
    s.acquires(1, 1).ends().tick_on(60 * SECOND).acquires(2, 0, count=2)
    s.share_seen(2, 0)


@story()
def polled_late_and_refused(s: Story) -> None:
    """The first lock expired before the poll returned the record."""
    s.wrote(0).acquires(1, 0, count=2).ends().acquires(2, 0, count=1).too_late().share_seen(1, 0)


@story()
def accepted_and_polled_again_and_refused(s: Story) -> None:
    """The second member had the record from before the accept: the broker refuses its acknowledgement."""
    s.wrote(0).acquires(1, 0).ends().acquires(2, 0, count=2).too_late().share_seen(1, 0)


@story()
def polled_late_and_confirmed_as_the_group_is_past_it(s: Story) -> None:
    """A broker confirms every acknowledgement below the start offset of the group."""
    s.wrote(0).acquires(1, 0, count=2).ends().acquires(2, 0, count=1).ends().share_seen(1, 0)


@story()
def polled_late_while_somebody_else_had_the_lock(s: Story) -> None:
    s.wrote(0).acquires(1, 0, count=2)
    s.acquires(2, 0, count=1).ends().share_seen(1, 0)


@story(redelivered_share=1, miscounted_share=1)
def accepted_again_with_a_count_of_before(s: Story) -> None:
    s.wrote(0).acquires(1, 0).ends("release").acquires(1, 0, count=2).ends().acquires(2, 0).ends().share_seen(1, 0)


@story(redelivered_share__undecided=1)
def confirmed_again_perhaps_before_the_new_leader(s: Story) -> None:
    s.observed("leader_epoch", 1).wrote(0).acquires(1, 0, count=1).ends()
    s.observed("leader_epoch", 2).acquires(2, 0).ends().share_seen(1, 0)


@story(redelivered_share__undecided=1)
def acquired_again_after_a_new_leader_without_an_answer(s: Story) -> None:
    s.observed("leader_epoch", 1)
    s.wrote(0).acquires(1, 0).ends("release").acquires(1, 0, count=2).ends()
    s.observed("leader_epoch", 2).acquires(2, 0)
    s.share_seen(1, 0)


@story()
def polled_late_from_a_former_leader(s: Story) -> None:
    s.observed("leader_epoch", 1).wrote(0)
    s.observed("leader_epoch", 2).acquires(1, 0).ends()
    s.acquires(2, 0).ends(outcome="unknown", error="NOT_LEADER_OR_FOLLOWER").share_seen(1, 0)


@story(redelivered_share=1)
def accepted_again_after_a_new_leader(s: Story) -> None:
    s.observed("leader_epoch", 1)
    s.wrote(0).acquires(1, 0).ends("release").acquires(1, 0, count=2).ends()
    s.tick_on(10_000_000).observed("leader_epoch", 2).acquires(2, 0).ends().share_seen(1, 0)


@story(redelivered_share__undecided=1)
def acquired_again_long_after_a_new_leader_without_an_answer(s: Story) -> None:
    s.observed("leader_epoch", 1)
    s.wrote(0).acquires(1, 0).ends("release").acquires(1, 0, count=2).ends()
    s.tick_on(10 * SECOND).observed("leader_epoch", 2).acquires(2, 0)
    s.share_seen(1, 0)


@story()
def acquired_again_in_the_moment_of_the_accept(s: Story) -> None:
    s.wrote(0).acquires(1, 0).ends().acquires(2, 0, count=2).ends("release").share_seen(1, 0)
    s.rows["acquisitions"][-1]["acquired_us"] = s.rows["acknowledgements"][0]["completed_us"]


@story()
def set_back_by_a_fault_and_acquired_again(s: Story) -> None:
    s.wrote(0, 1).acquires(1, 0, 1).ends().moved(1, kind="share.reset_offsets")
    s.acquires(1, 1).ends().share_seen(2, 0)


@story(redelivered_share__undecided=1)
def acquired_again_though_a_fault_set_the_group_beyond_it(s: Story) -> None:
    s.wrote(0, 1).acquires(1, 0, 1).ends().moved(1, kind="share.reset_offsets")
    s.acquires(1, 0).ends().share_seen(2, 0)


@story(redelivered_share=1, miscounted_share=1)
def set_back_only_after_it_was_acquired_again(s: Story) -> None:
    s.wrote(0).acquires(1, 0).ends().acquires(1, 0).ends()
    s.moved(0, kind="share.reset_offsets").share_seen(1, 0)


@story(lost_share=1)
def set_beyond_a_record_by_a_fault(s: Story) -> None:
    s.wrote(0, 1).acquires(1, 0).ends().moved(2, kind="share.reset_offsets").share_seen(2, 0)


@story(miscounted_share=1)
def counted_the_same_twice(s: Story) -> None:
    s.wrote(0).acquires(1, 0).ends("release").acquires(2, 0).ends().share_seen(1, 0)


@story(miscounted_share=1)
def counted_too_high_before_a_late_poll(s: Story) -> None:
    """Only the count of four is wrong: the last poll returned what the broker had given before it."""
    s.wrote(0).acquires(1, 0).ends("release").acquires(1, 0, count=4).ends("release")
    s.acquires(2, 0, count=2).too_late().share_seen(1, 0)


@story()
def counted_the_same_after_a_new_leader(s: Story) -> None:
    s.observed("leader_epoch", 1)
    s.wrote(0).acquires(1, 0).ends(outcome="unknown")
    s.observed("leader_epoch", 2).acquires(2, 0).ends().share_seen(1, 0)


def _counted_the_same_before_a_new_leader(s: Story, after_us: int) -> None:
    """The observer sees another leader some time after the second acquisition."""
    s.observed("leader_epoch", 1).wrote(0).acquires(1, 0).ends(outcome="unknown").acquires(2, 0)
    s.tick_on(after_us - STEP_US).observed("leader_epoch", 2).share_seen(1, 0)


@story()
def counted_the_same_before_a_new_leader_was_seen(s: Story) -> None:
    _counted_the_same_before_a_new_leader(s, 10 * SECOND)


@story(miscounted_share=1)
def counted_the_same_long_before_a_new_leader_was_seen(s: Story) -> None:
    _counted_the_same_before_a_new_leader(s, 10 * SECOND + 1)


@story()
def counted_the_same_after_the_crash_of_the_member(s: Story) -> None:
    s.wrote(0).acquires(1, 0)
    s.life(s.reader(), "crashed", role="consumer").acquires(2, 0).ends().share_seen(1, 0)


@story(miscounted_share=1)
def counted_one_too_many(s: Story) -> None:
    s.wrote(0).acquires(1, 0).ends("release").acquires(2, 0, count=3).ends().share_seen(1, 0)


@story(miscounted_share=1)
def counted_one_too_many_for_a_member_that_lost_its_lock(s: Story) -> None:
    """What it had from before would have a lower count, and not a higher one."""
    s.wrote(0).acquires(1, 0).ends("release").acquires(2, 0, count=3).too_late().share_seen(1, 0)


@story(miscounted_share=1)
def counted_the_same_by_a_member_that_died_of_it(s: Story) -> None:
    """Its end explains nothing that came before it."""
    s.wrote(0).acquires(1, 0).ends("release").acquires(2, 0)
    s.life(s.reader(2), "crashed", role="consumer").share_seen(1, 0)


@story()
def counted_on_when_a_former_leader_had_given_the_record(s: Story) -> None:
    """The count of the former leader does not go on at the new one."""
    s.observed("leader_epoch", 1).wrote(0).observed("leader_epoch", 2)
    s.acquires(2, 0).ends("release").acquires(2, 0, count=2).ends("release")
    s.acquires(1, 0).ends(outcome="unknown", error="NOT_LEADER_OR_FOLLOWER")
    s.acquires(2, 0, count=3).ends().share_seen(1, 0)


@story(miscounted_share__undecided=1)
def counted_one_too_many_after_a_new_leader(s: Story) -> None:
    s.observed("leader_epoch", 1).wrote(0)
    s.acquires(1, 0).ends("release").acquires(1, 0, count=2).ends("release").acquires(1, 0, count=3).ends("release")
    s.observed("leader_epoch", 2)
    s.acquires(2, 0).ends("release").acquires(2, 0, count=3).ends().share_seen(1, 0)


@story(miscounted_share__undecided=1)
def counted_two_at_once_of_a_record_sent_nobody_knows_when(s: Story) -> None:
    s.consumer = {"share.record.lock.duration.ms": 3_600_000}
    s.wrote(0).acquires(1, 0, count=2).ends().share_seen(1, 0)
    s.rows["acquisitions"][0]["sent_us"] = None


@story(miscounted_share=1)
def counted_two_at_once(s: Story) -> None:
    s.wrote(0).acquires(1, 0, count=2).ends().share_seen(1, 0)


@story()
def counted_two_after_the_crash_of_a_member_that_had_not_polled(s: Story) -> None:
    s.members = 3
    s.life(s.reader(1), "started", role="consumer").wrote(0)
    s.life(s.reader(1), "crashed", role="consumer").acquires(2, 0, count=2).ends().share_seen(1, 0)


@story(miscounted_share=1)
def counted_three_after_the_crash_of_a_member(s: Story) -> None:
    s.wrote(0, 1).acquires(1, 1).ends()
    s.life(s.reader(1), "crashed", role="consumer").acquires(2, 0, count=3).ends().share_seen(2, 0)


@story(miscounted_share=1)
def counted_two_though_the_member_ended_long_before_the_send(s: Story) -> None:
    s.wrote(0).acquires(1, 0).ends().life(s.reader(1), "crashed", role="consumer")
    s.tick_on(40_000_000).wrote(1).acquires(2, 1, count=2).ends().share_seen(2, 0)


@story()
def counted_two_as_the_member_ended_shortly_before_the_send(s: Story) -> None:
    """The brokers had not noticed it, and gave the record to a fetch that waited."""
    s.wrote(0).acquires(1, 0).ends().life(s.reader(1), "crashed", role="consumer")
    s.tick_on(400_000).wrote(1).acquires(2, 1, count=2).ends().share_seen(2, 0)


@story(miscounted_share__undecided=1)
def counted_two_after_a_lock_that_nobody_saw(s: Story) -> None:
    s.wrote(0).tick_on(60 * SECOND - 2 * STEP_US).acquires(1, 0, count=2).ends().share_seen(1, 0)


@story(lock_overrun=1)
def locked_twice_at_once(s: Story) -> None:
    s.wrote(0).acquires(1, 0)
    s.acquires(2, 0, count=2).ends().share_seen(1, 0)


@story()
def locked_again_after_the_lock(s: Story) -> None:
    s.wrote(0).acquires(1, 0)
    s.tick_on(60_000_000).acquires(2, 0, count=2).ends().share_seen(1, 0)


@story(lock_overrun__undecided=1)
def locked_again_perhaps_after_the_lock(s: Story) -> None:
    """The broker may have locked the record long before the first poll returned it."""
    s.wrote(0).tick_on(50_000_000).acquires(1, 0)
    s.tick_on(20_000_000).acquires(2, 0, count=2).ends().share_seen(1, 0)


@story()
def locked_again_as_the_lock_began_shortly_before_the_poll(s: Story) -> None:
    s.wrote(0).tick_on(50_000_000).acquires(1, 0)
    s.tick_on(59 * SECOND - STEP_US).acquires(2, 0, count=2).ends().share_seen(1, 0)


@story(lock_overrun__undecided=1)
def locked_again_as_the_lock_began_long_before_the_poll(s: Story) -> None:
    s.wrote(0).tick_on(50 * SECOND).acquires(1, 0)
    s.tick_on(59 * SECOND - STEP_US - 1).acquires(2, 0, count=2).ends().share_seen(1, 0)


@story(lock_overrun__undecided=1)
def locked_again_within_the_first_half_of_a_short_lock(s: Story) -> None:
    s.consumer = {"share.record.lock.duration.ms": 1_000}
    s.wrote(0).tick_on(50 * SECOND).acquires(1, 0)
    s.tick_on(300_000).acquires(2, 0, count=2).ends().share_seen(1, 0)


def _locked_again(s: Story, after_us: int, held_us: int = 2 * SECOND) -> None:
    """Acquired some time after the send, two seconds if not said otherwise, and again some time after the send."""
    again_us = s.now + after_us
    s.wrote(0).tick_on(held_us).acquires(1, 0)
    s.tick_on(again_us - STEP_US - s.now).acquires(2, 0, count=2).ends().share_seen(1, 0)


@story(lock_overrun=1)
def locked_again_before_a_lock_ends_that_began_with_the_send(s: Story) -> None:
    _locked_again(s, 60 * SECOND - 1)


@story(lock_overrun__undecided=1)
def locked_again_as_a_lock_ends_that_began_with_the_send(s: Story) -> None:
    _locked_again(s, 60 * SECOND)


@story(lock_overrun=1)
def locked_again_shortly_before_a_lock_ends_that_began_with_the_send(s: Story) -> None:
    _locked_again(s, 60 * SECOND - 1, held_us=0)


def _locked_after(s: Story, kind: str, **answer: str) -> None:
    """A member gives a record up 50 s after the send; 2 s later another one gets it, and 28 s later a third one."""
    s.members = 3
    first = s.wrote(0).acquires(1, 0)
    s.tick(50 * SECOND)
    first.ends(kind, **answer).tick(2 * SECOND)
    s.acquires(2, 0, count=2)
    s.tick_on(28 * SECOND).acquires(3, 0, count=3).ends().share_seen(1, 0)


@story(lock_overrun=1)
def locked_again_within_the_lock_since_the_release(s: Story) -> None:
    _locked_after(s, "release")


@story(lock_overrun__undecided=1)
def locked_again_perhaps_before_an_accept_that_timed_out(s: Story) -> None:
    """The lock of the second member may have begun before the first one, without a lock by then, asked."""
    _locked_after(s, "accept", outcome="unknown", error="TIMEOUT")


@story(lock_overrun__undecided=1)
def locked_again_perhaps_before_a_release_that_timed_out(s: Story) -> None:
    _locked_after(s, "release", outcome="unknown", error="TIMEOUT")


@story()
def locked_again_in_the_moment_of_the_release(s: Story) -> None:
    s.wrote(0).acquires(1, 0).ends("release").acquires(2, 0, count=2).ends().share_seen(1, 0)
    s.rows["acquisitions"][-1]["acquired_us"] = s.rows["acknowledgements"][0]["requested_us"]


@story(lock_overrun=1)
def locked_twice_by_a_member_that_died_of_it(s: Story) -> None:
    s.wrote(0).acquires(1, 0)
    s.acquires(2, 0, count=2)
    s.life(s.reader(2), "crashed", role="consumer").share_seen(1, 0)


@story()
def locked_again_after_the_member_left(s: Story) -> None:
    s.wrote(0).acquires(1, 0)
    s.life(s.reader(), "stopped", role="consumer").acquires(2, 0, count=2).ends().share_seen(1, 0)


@story(overlimit_share=1)
def delivered_beyond_the_limit(s: Story) -> None:
    s.consumer = {"share.delivery.count.limit": 2}
    s.wrote(0).acquires(1, 0).ends("release").acquires(2, 0, count=2).ends("release").acquires(1, 0, count=3).ends()
    s.share_seen(1, 0)


@story()
def delivered_up_to_the_limit(s: Story) -> None:
    s.consumer = {"share.delivery.count.limit": 2}
    s.wrote(0).acquires(1, 0).ends("release").acquires(2, 0, count=2).ends("release").share_seen(1, 0)


@story(lock_overrun__undecided=1, miscounted_share__undecided=3, redelivered_share__undecided=1)
def locked_twice_while_a_broker_was_paused(s: Story) -> None:
    """Long after all others, because its fault concerns every share group of its time."""
    s.tick(300 * SECOND)
    s.fault("injecting").wrote(0, 1, 2).acquires(1, 0)
    s.acquires(2, 0).ends().acquires(2, 1, count=2).ends()
    s.acquires(1, 2).ends().acquires(2, 2).ends().share_seen(3, 0)
    s.fault("healed")


# --- commits of unknown outcome, and the log of offset commits


def _zombie(s: Story) -> tuple[Epoch, Epoch]:
    """A member commits after another one had begun, and does not learn the outcome."""
    s.members = 2
    s.wrote(0, 1)
    old, new = s.assigned(1, generation=1).got(0, 1), s.assigned(2, generation=2)
    s.tick()
    return old.commit(2, "unknown"), new


def _all_stopped(s: Story) -> Story:
    for member in range(1, s.members + 1):
        s.life(s.reader(member), "stopped", role="consumer")
    return s


@story(zombie_commit=1)
def a_late_commit_is_in_the_log(s: Story) -> None:
    old, _ = _zombie(s)
    old.logged(2).lost(generation=1)
    _all_stopped(s).commits_read_back()


@story()
def a_late_commit_is_not_in_the_log(s: Story) -> None:
    old, _ = _zombie(s)
    old.logged(1).lost(generation=1)
    _all_stopped(s).commits_read_back()


@story()
def a_late_commit_without_a_log(s: Story) -> None:
    old, _ = _zombie(s)
    old.lost(generation=1)
    _all_stopped(s)


@story()
def a_late_commit_and_a_log_that_was_not_read(s: Story) -> None:
    old, _ = _zombie(s)
    old.logged(2).lost(generation=1)
    _all_stopped(s).commits_read_back(whole=False, error="the user may not read it")


@story()
def a_record_that_the_new_owner_may_have_written(s: Story) -> None:
    old, new = _zombie(s)
    new.got(0, 1).commit(2).logged(2)
    old.lost(generation=1)
    _all_stopped(s).commits_read_back()


STORIES["a_record_that_the_new_owner_may_have_written"][1]["duplicate_delivery.legal"] = 2


@story(zombie_commit=1, duplicate_delivery__legal=2)
def records_of_both_members(s: Story) -> None:
    old, new = _zombie(s)
    old.logged(2)
    s.tick_on(SECOND)
    new.got(0, 1).commit(2).logged(2)
    old.lost(generation=1)
    _all_stopped(s).commits_read_back()


@story()
def a_record_that_a_dead_member_may_have_written(s: Story) -> None:
    old, new = _zombie(s)
    old.logged(2).lost(generation=1)
    new.died()
    s.life(s.reader(1), "stopped", role="consumer")
    s.commits_read_back()


@story(zombie_commit=1)
def a_record_long_after_a_death(s: Story) -> None:
    s.members = 3
    s.wrote(0, 1)
    s.assigned(3, generation=1).died()
    s.tick_on(11 * SECOND)
    old = s.assigned(1, generation=2).got(0, 1)
    s.assigned(2, generation=3)
    s.tick()
    old.commit(2, "unknown").logged(2).lost(generation=2)
    for member in (1, 2):
        s.life(s.reader(member), "stopped", role="consumer")
    s.commits_read_back()


@story()
def a_record_that_a_fault_may_have_written(s: Story) -> None:
    old, _ = _zombie(s)
    old.logged(2)
    s.moved(2)
    old.lost(generation=1)
    _all_stopped(s).commits_read_back()


@story()
def a_record_from_before_the_commit(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    old, _ = s.assigned(1, generation=1).got(0, 1).logged(2), s.assigned(2, generation=2)
    s.tick_on(SECOND)
    old.commit(2, "unknown").lost(generation=1)
    _all_stopped(s).commits_read_back()


@story()
def a_record_while_the_clocks_differ(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1)
    old = s.assigned(1, generation=1).got(0).commit(1)
    old.logged(1, at_us=s.now + SECOND)
    old.got(1)
    s.assigned(2, generation=2)
    s.tick()
    old.commit(2, "unknown").logged(2).lost(generation=1)
    _all_stopped(s).commits_read_back()


@story(overcommit=1)
def beyond_what_was_processed_in_the_log(s: Story) -> None:
    s.wrote(0, 1, 2).assigned(generation=1).got(0).commit(2, "unknown").logged(2).got(1, 2).revoked()
    _all_stopped(s).commits_read_back()


@story(commit_rewind=1)
def lowered_by_a_commit_of_unknown_outcome(s: Story) -> None:
    s.wrote(0, 1).assigned(generation=1).got(0, 1).commit(2).logged(2).commit(1, "unknown").logged(1).revoked()
    _all_stopped(s).commits_read_back()


@story(commit_rewind=1)
def lowered_after_a_commit_of_unknown_outcome(s: Story) -> None:
    a = s.wrote(0, 1).assigned(generation=1).got(0, 1).commit(2, "unknown").logged(2)
    s.tick_on(10 * STEP_US)
    a.commit(1).logged(1).revoked()
    _all_stopped(s).commits_read_back()


@story()
def carried_out_after_a_lower_commit(s: Story) -> None:
    a = s.wrote(0, 1).assigned(generation=1).got(0, 1).commit(2, "unknown").commit(1).logged(1)
    s.tick()
    a.logged(2).revoked()
    _all_stopped(s).commits_read_back()


def _outputs(s: Story) -> Epoch:
    """A processor with three outputs, which did not learn the outcome of the last commit."""
    s.wrote(0, 1, 2)
    e = s.assigned().got(0, 1, 2).commit(2, kind="transaction").logged(2, transaction="committed", ended_us=s.now)
    s.output(0, of=0).output(1, of=1).output(2, of=2)
    return e.commit(3, "unknown", kind="transaction")


@story()
def an_output_of_an_input_with_a_commit_in_the_log(s: Story) -> None:
    _outputs(s).logged(3, transaction="committed", ended_us=s.now).revoked()
    _all_stopped(s).commits_read_back()


@story(unconsumed_output=1)
def an_output_of_an_input_with_an_aborted_commit_in_the_log(s: Story) -> None:
    _outputs(s).logged(3, transaction="aborted", ended_us=s.now).revoked()
    _all_stopped(s).commits_read_back()


@story(unconsumed_output__undecided=1)
def an_output_of_an_input_with_a_commit_in_an_open_transaction(s: Story) -> None:
    _outputs(s).logged(3, transaction="open").revoked()
    _all_stopped(s).commits_read_back()


@story(unconsumed_output=1)
def an_output_of_an_input_with_no_commit_in_the_log(s: Story) -> None:
    _outputs(s).revoked()
    _all_stopped(s).commits_read_back()


@story(unconsumed_output__undecided=1)
def an_output_of_an_input_and_a_compacted_log_of_commits(s: Story) -> None:
    _outputs(s).revoked()
    _all_stopped(s).commits_read_back(whole=False)


@story(unconsumed_output__undecided=1)
def an_output_of_an_input_and_a_log_that_lacks_an_acknowledged_commit(s: Story) -> None:
    _outputs(s).revoked()
    s.rows["commit_log"].clear()
    _all_stopped(s).commits_read_back()


@story()
def an_output_of_an_input_with_a_commit_that_was_seen_in_force(s: Story) -> None:
    e = _outputs(s)
    s.saw_committed(3)
    e.revoked()
    _all_stopped(s).commits_read_back()


@story(poll_skip=1, skipped_delivery=1, stalled_delivery=1)
def left_one_out_and_stopped_before_another(s: Story) -> None:
    """Only what lies below the highest delivery was left out."""
    s.wrote(0, 1, 2, 3).assigned().got(0, 2).commit(3)


@story(poll_skip=1, skipped_delivery=1, lost_processing=2, overcommit=1)
def left_one_out_and_committed_past_others(s: Story) -> None:
    """The first one was passed by at a poll, before the end of the epoch that committed too much."""
    s.members = 2
    s.wrote(0, 1, 2, 3, 4, 5).assigned(generation=1).got(0, 2).commit(5).revoked()
    s.assigned(2, position=5, source="committed", generation=2).got(5).commit(6)


@story()
def acked_at_one_offset_of_two_partitions_nobody_knows_which(s: Story) -> None:
    """In an unknown partition each of them, so at no position in common."""
    s.partitions = 2
    s.send(0, 0, partition=None).log(0, 0)
    s.send(1, 0, partition=None).log(0, 1, partition=1).assigned().got(0).commit(1)
    s.assigned(partition=1).got(0, seq=lambda _: 1).commit(1)
