"""Kafka's own message schemas for requests that kafka-python does not contain, in its format.

ConsumerGroupDescribe and ConsumerGroupHeartbeat (KIP-848) are for the groups that DescribeGroups does not know.
ShareGroupDescribe, ShareGroupHeartbeat, DescribeShareGroupOffsets and AlterShareGroupOffsets (KIP-932, KIP-1226) are
for share groups, StreamsGroupDescribe and StreamsGroupHeartbeat (KIP-1071) for groups of Kafka Streams.
AddRaftVoter and RemoveRaftVoter (KIP-853) are for dynamic quorums. The answers to ShareFetch and ShareAcknowledge
contain addresses of brokers. GroupMetadataValue and ConsumerGroupMemberMetadataValue are records of
`__consumer_offsets`. TxnOffsetCommit has a version with topic ids (KIP-1319) that kafka-python does not know.
"""

from __future__ import annotations

from types import new_class
from typing import Any

from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage


def _message(name: str, kind: Any = ApiMessage) -> Any:
    """Return the message class for the JSON file with this name."""
    return new_class(name, (kind,), {"load_json": "chaos.kafka.schemas"})


AddRaftVoterRequest = _message("AddRaftVoterRequest")
AddRaftVoterResponse = _message("AddRaftVoterResponse")
AlterShareGroupOffsetsRequest = _message("AlterShareGroupOffsetsRequest")
AlterShareGroupOffsetsResponse = _message("AlterShareGroupOffsetsResponse")
ConsumerGroupDescribeRequest = _message("ConsumerGroupDescribeRequest")
ConsumerGroupDescribeResponse = _message("ConsumerGroupDescribeResponse")
ConsumerGroupHeartbeatRequest = _message("ConsumerGroupHeartbeatRequest")
ConsumerGroupHeartbeatResponse = _message("ConsumerGroupHeartbeatResponse")
ConsumerGroupMemberMetadataValue = _message("ConsumerGroupMemberMetadataValue", ApiData)
DescribeShareGroupOffsetsRequest = _message("DescribeShareGroupOffsetsRequest")
DescribeShareGroupOffsetsResponse = _message("DescribeShareGroupOffsetsResponse")
GroupMetadataValue = _message("GroupMetadataValue", ApiData)
RemoveRaftVoterRequest = _message("RemoveRaftVoterRequest")
RemoveRaftVoterResponse = _message("RemoveRaftVoterResponse")
ShareAcknowledgeResponse = _message("ShareAcknowledgeResponse")
ShareFetchResponse = _message("ShareFetchResponse")
ShareGroupDescribeRequest = _message("ShareGroupDescribeRequest")
ShareGroupDescribeResponse = _message("ShareGroupDescribeResponse")
ShareGroupHeartbeatRequest = _message("ShareGroupHeartbeatRequest")
ShareGroupHeartbeatResponse = _message("ShareGroupHeartbeatResponse")
StreamsGroupDescribeRequest = _message("StreamsGroupDescribeRequest")
StreamsGroupDescribeResponse = _message("StreamsGroupDescribeResponse")
StreamsGroupHeartbeatRequest = _message("StreamsGroupHeartbeatRequest")
StreamsGroupHeartbeatResponse = _message("StreamsGroupHeartbeatResponse")
TxnOffsetCommitRequest = _message("TxnOffsetCommitRequest")
TxnOffsetCommitResponse = _message("TxnOffsetCommitResponse")
