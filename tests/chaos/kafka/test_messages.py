"""Tests of requests built from dicts, and of the errors in their answers. No broker is needed."""

from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse, ElectLeadersResponse
from kafka.protocol.consumer import OffsetDeleteResponse

from chaos.kafka import messages
from chaos.kafka.admin import AdminRequest
from chaos.kafka.partition import TopicPartition


class Cluster:
    """A cluster with one broker that gives the same answer to every request."""

    def __init__(self, answer):
        self.answer = answer

    def ask(self, broker, message, timeout_s):
        return self.answer


def errors(answer, done=frozenset()):
    return AdminRequest("try", None, lambda kafka: 1, done).attempt(Cluster(answer))


def test_dicts_become_the_structures_of_the_request():
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    part = topic.DeleteRecordsPartition
    expected = DeleteRecordsRequest[1](
        topics=[
            topic(name="a", partitions=[part(partition_index=0, offset=5), part(partition_index=2, offset=7)]),
            topic(name="b", partitions=[part(partition_index=1, offset=9)]),
        ],
        timeout_ms=1000,
    )
    offsets = {TopicPartition("a", 0): 5, TopicPartition("b", 1): 9, TopicPartition("a", 2): 7}
    topics = messages.topics({partition: {"offset": offset} for partition, offset in offsets.items()})
    built = messages.request(DeleteRecordsRequest[1], topics=topics, timeout_ms=1000)
    for message in (expected, built):
        message.with_header(correlation_id=1, client_id="x")
    assert built.encode(framed=True, header=True) == expected.encode(framed=True, header=True)


def test_every_error_in_an_answer_has_the_name_of_its_partition():
    topic = DeleteRecordsResponse.DeleteRecordsTopicResult
    part = topic.DeleteRecordsPartitionResult
    parts = [part(partition_index=0, low_watermark=1, error_code=0), part(partition_index=3, error_code=6)]
    assert errors(DeleteRecordsResponse[1](topics=[topic(name="orders", partitions=parts)])) == [("orders/3", 6)]


def test_an_error_of_the_whole_answer_counts_and_one_that_means_done_does_not():
    topic = ElectLeadersResponse.ReplicaElectionResult
    result = topic(topic="orders", partition_result=[topic.PartitionResult(partition_id=1, error_code=84)])
    answer = ElectLeadersResponse[1](error_code=41, replica_election_results=[result])
    assert errors(answer) == [("all", 41), ("orders/1", 84)]
    assert errors(answer, frozenset({84})) == [("all", 41)]


def test_an_answer_without_errors_has_none_and_no_answer_is_no_success():
    assert errors(OffsetDeleteResponse[0](error_code=0, topics=[])) == []
    assert errors(None) is None
