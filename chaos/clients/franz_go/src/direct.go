package main

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// directMarks takes the offsets of a consumer in assign mode, which commits them to a group without being a member.
type directMarks struct {
	*groupMarks
	group   string
	brokers *franzBrokers
	ids     map[string][16]byte // of topics: newer requests have these, not names
}

func (m *directMarks) commit() {
	m.mu.Lock()
	marked := m.marked
	m.marked = map[Partition]int64{}
	m.mu.Unlock()
	if len(marked) == 0 {
		return
	}
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.Generation = m.group, -1
	byTopic := map[string][]kmsg.OffsetCommitRequestTopicPartition{}
	var asked []committed
	for partition, offset := range marked {
		one := kmsg.NewOffsetCommitRequestTopicPartition()
		one.Partition, one.Offset = partition.number, offset
		byTopic[partition.topic] = append(byTopic[partition.topic], one)
		asked = append(asked, committed{partition, offset})
	}
	sent := m.table.request(asked)
	names := map[[16]byte]string{}
	for name, partitions := range byTopic {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = name, partitions
		topic.TopicID = m.id(name)
		names[topic.TopicID] = name
		request.Topics = append(request.Topics, topic)
	}
	answer, err := request.RequestWith(m.ended, m.client)
	if err == nil {
		for i := range answer.Topics {
			if answer.Topics[i].Topic == "" {
				answer.Topics[i].Topic = names[answer.Topics[i].TopicID]
			}
		}
	}
	kept, _ := m.attempts.ended()
	m.restore(sent, answered(m.table, kept, sent, answer, err))
}

// id returns the id of a topic, or zeros if no broker answers; the request is then refused.
func (m *directMarks) id(topic string) [16]byte {
	if found, known := m.ids[topic]; known {
		return found
	}
	found, err := m.brokers.topic(topic)
	if err == nil {
		m.ids[topic] = found.TopicID
	}
	return found.TopicID
}
