package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	offsetCommit = 8
	// noEpoch is the leader epoch of an offset that no record was read for.
	noEpoch int32 = -1
)

// attempts counts the requests to commit that a client of the library writes. The library sends one commit after the
// other, and repeats a request by itself; only the refusal of a single request proves that nothing was committed.
type attempts struct {
	mu    sync.Mutex
	count int
	atUs  int64
}

// OnBrokerWrite is called after each request; it makes this a hook of the library.
func (a *attempts) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key != offsetCommit {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count++; a.count == 1 {
		a.atUs = nowUs()
	}
}

// ended returns what all attempts of the commit that has just ended have in common, and the time of the first one; 0 if
// there was none.
func (a *attempts) ended() (kept []string, atUs int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == 1 {
		kept = []string{"attempt"}
	}
	atUs = a.atUs
	a.count, a.atUs = 0, 0
	return kept, atUs
}

// answered writes the rows of a commit that has ended, and returns the partitions with the outcome ok.
func answered(
	table *CommitTable, kept []string, sent commitRequest, answer *kmsg.OffsetCommitResponse, err error,
) map[Partition]bool {
	codes, done := map[Partition]int16{}, map[Partition]bool{}
	if answer != nil {
		for _, topic := range answer.Topics {
			for _, found := range topic.Partitions {
				codes[Partition{topic.Topic, found.Partition}] = found.ErrorCode
			}
		}
	}
	for i, offset := range sent.offsets {
		code, found := codes[offset.partition]
		switch {
		case err != nil:
			table.write(sent, i, unknown, errorName(err))
		case !found:
			table.write(sent, i, unknown, "no answer for this partition")
		case code == 0:
			done[offset.partition] = true
			table.write(sent, i, ok, "")
		default:
			table.write(sent, i, commitOutcome(code, kept), protocolName(int(code)))
		}
	}
	return done
}

// offsetsIn returns the offsets of a request to commit.
func offsetsIn(request *kmsg.OffsetCommitRequest) []committed {
	var found []committed
	for _, topic := range request.Topics {
		for _, one := range topic.Partitions {
			found = append(found, committed{Partition{topic.Topic, one.Partition}, one.Offset})
		}
	}
	return found
}

// groupMarks takes the offsets of a member of a group.
type groupMarks struct {
	client   *kgo.Client
	table    *CommitTable
	attempts *attempts
	setting  Commit
	ended    context.Context
	mu       sync.Mutex
	marked   map[Partition]int64
	epochs   map[Partition]int32 // leader epoch of the last record read
}

func (m *groupMarks) mark(partition Partition, offset int64) {
	if m.setting.When == "before_processing" && m.setting.Kind == "auto" {
		return // GreedyAutoCommit commits what was polled
	}
	m.mu.Lock()
	epoch := m.epochs[partition]
	if m.setting.Kind != "auto" {
		m.marked[partition] = offset
	}
	m.mu.Unlock()
	if m.setting.Kind == "auto" {
		m.client.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{
			partition.topic: {partition.number: {Epoch: epoch, Offset: offset}},
		})
	}
}

// commit sends the marked offsets.
func (m *groupMarks) commit() {
	m.mu.Lock()
	marked := m.marked
	m.marked = map[Partition]int64{}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for partition, offset := range marked {
		if offsets[partition.topic] == nil {
			offsets[partition.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[partition.topic][partition.number] = kgo.EpochOffset{Epoch: m.epochs[partition], Offset: offset}
	}
	m.mu.Unlock()
	if len(marked) == 0 {
		return
	}
	var asked []committed
	for partition, offset := range marked {
		asked = append(asked, committed{partition, offset})
	}
	m.send(offsets, m.table.request(asked))
}

// send commits offsets, and waits for the answer unless commits are asynchronous.
func (m *groupMarks) send(offsets map[string]map[int32]kgo.EpochOffset, sent commitRequest) {
	ended := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		kept, _ := m.attempts.ended()
		m.restore(sent, answered(m.table, kept, sent, answer, err))
	}
	if m.setting.Kind == "async" {
		m.client.CommitOffsets(m.ended, offsets, ended)
	} else {
		m.client.CommitOffsetsSync(m.ended, offsets, ended)
	}
}

// restore marks what was not committed again, for the next commit, unless there is a later mark.
func (m *groupMarks) restore(sent commitRequest, done map[Partition]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, offset := range sent.offsets {
		epoch, held := m.epochs[offset.partition]
		_, later := m.marked[offset.partition]
		if held && epoch != noEpoch && !later && !done[offset.partition] {
			m.marked[offset.partition] = offset.offset
		}
	}
}

// moved drops the marks of partitions that are read from another position.
func (m *groupMarks) moved(partitions []Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, partition := range partitions {
		delete(m.marked, partition)
		m.epochs[partition] = noEpoch
	}
}

// hasRead returns whether records of a partition were read since it was assigned.
func (m *groupMarks) hasRead(partition Partition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.epochs[partition]
	return found
}

// forget drops the marks of partitions that are given up.
func (m *groupMarks) forget(partitions []Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, partition := range partitions {
		delete(m.marked, partition)
		delete(m.epochs, partition)
	}
}

func (m *groupMarks) read(partition Partition, leaderEpoch int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epochs[partition] = leaderEpoch
}

// automatic is called by the library after each automatic commit.
func (m *groupMarks) automatic(
	_ *kgo.Client, request *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error,
) {
	kept, atUs := m.attempts.ended()
	if request == nil || len(request.Topics) == 0 {
		return
	}
	sent := m.table.request(offsetsIn(request))
	if atUs != 0 {
		sent.atUs = atUs
	}
	answered(m.table, kept, sent, answer, err)
}

// atRevocation commits what automatic commits would: the library leaves it to a callback.
func (m *groupMarks) atRevocation() {
	if !m.setting.automatic() {
		return
	}
	offsets := m.client.MarkedOffsets()
	if m.setting.When == "before_processing" {
		offsets = m.client.UncommittedOffsets()
	}
	if len(offsets) > 0 {
		m.client.CommitOffsetsSync(m.ended, offsets, m.automatic)
	}
}
