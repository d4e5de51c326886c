package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerS is the longest wait for an answer of the brokers.
const answerS = 10 * time.Second

// franzBrokers asks the brokers with requests of the protocol; the library itself has no such calls.
type franzBrokers struct {
	client   *kgo.Client
	settings *settings
	group    *string
}

// partitions returns the number of partitions of a topic.
func (b franzBrokers) partitions(topic string) (int32, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerS)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &topic
	request.Topics = append(request.Topics, asked)
	answer, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return 0, err
	}
	for _, found := range answer.Topics {
		if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
			return 0, fmt.Errorf("the partitions of %s: %w", topic, err)
		}
		return int32(len(found.Partitions)), nil
	}
	return 0, fmt.Errorf("no answer about %s", topic)
}

// at returns an offset by time, with the isolation level of the consumer.
func (b franzBrokers) at(partition Partition, time int64) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerS)
	defer cancel()
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	if b.settings.committed {
		request.IsolationLevel = 1
	}
	topic, asked := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	asked.Partition, asked.Timestamp = partition.number, time
	topic.Topic, topic.Partitions = partition.topic, append(topic.Partitions, asked)
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return 0, err
	}
	for _, topic := range answer.Topics {
		for _, found := range topic.Partitions {
			if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
				return 0, fmt.Errorf("the offset of %s: %w", partition, err)
			}
			return found.Offset, nil
		}
	}
	return 0, fmt.Errorf("no answer about %s", partition)
}

// reset returns the position of a partition without a committed offset.
func (b franzBrokers) reset(partition Partition) (position, error) {
	time := oldest // the library's default
	if given, set := b.settings.given["ConsumeResetOffset"]; set && resets[strings.ToLower(given)] == resets["latest"] {
		time = newest
	}
	offset, err := b.at(partition, time)
	return position{offset, "reset"}, err
}

// committed returns the position of a partition by the offsets of the group.
func (b franzBrokers) committed(partition Partition) (position, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerS)
	defer cancel()
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group, request.RequireStable = *b.group, true
	asked := kmsg.NewOffsetFetchRequestTopic()
	asked.Topic, asked.Partitions = partition.topic, []int32{partition.number}
	request.Topics = append(request.Topics, asked)
	answer, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return position{}, err
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return position{}, err
	}
	for _, topic := range answer.Topics {
		for _, found := range topic.Partitions {
			if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
				return position{}, err
			}
			if found.Offset >= 0 {
				return position{found.Offset, "committed"}, nil
			}
			return b.reset(partition)
		}
	}
	return position{}, fmt.Errorf("no answer about the committed offset of %s", partition)
}
