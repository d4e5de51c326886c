package main

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Requests with offsets of a group, and the newest version of them that has names of topics, not their ids.
const (
	offsetFetch = 9
	withNames   = 9
)

// byName makes a client of the library send requests with names of topics. In assign mode it knows no ids for those that
// the programs send.
func byName() kgo.Opt {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(offsetCommit, withNames)
	versions.SetMaxKeyVersion(offsetFetch, withNames)
	return kgo.MaxVersions(versions)
}

// directMarks takes the offsets of a consumer in assign mode, which commits them to a group without being a member.
type directMarks struct {
	*groupMarks
	group string
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
	for name, partitions := range byTopic {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = name, partitions
		request.Topics = append(request.Topics, topic)
	}
	sent := m.table.request(asked)
	answer, err := request.RequestWith(m.ended, m.client)
	kept, _ := m.attempts.ended()
	m.restore(sent, answered(m.table, kept, sent, answer, err))
}
