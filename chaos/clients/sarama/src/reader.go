package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// idle is the longest wait for a record before commits that are due are sent.
const idle = 20 * time.Millisecond

// Reader is what both kinds of consumers share: take, process, write rows and commit, in the order of the commit
// setting.
//
// sarama hands records out one by one, in a goroutine for each partition. A batch is what waits in the channel of a
// partition, at most max_poll_records. The processing time of a record passes in each partition by itself.
type Reader struct {
	*Processing
	life   *Lifecycle
	config *sarama.Config
}

func newReader(spec *Spec, mode string, channel *Channel, life *Lifecycle) (*Reader, error) {
	config, _, err := configOf(spec)
	if err != nil {
		return nil, err
	}
	encryption, err := secure(config, spec.Security)
	if err != nil {
		return nil, err
	}
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = spec.Commit.automatic()
	assignments, err := newAssignments(spec, mode, config.Consumer.Group.InstanceId)
	if err != nil {
		return nil, err
	}
	r := &Reader{Processing: newProcessing(spec, channel, assignments), life: life, config: config}
	commits, err := newCommitLog(spec, r.assignments, life)
	if err != nil {
		return nil, err
	}
	tapped(config, encryption, commits)
	channel.onSlow = life.speed
	return r, config.Validate()
}

// connect returns a client of the library when a broker answers; nil after the order to stop. sarama gives up after
// some attempts, and an application that is started while brokers are down tries again.
func (r *Reader) connect() sarama.Client {
	for !r.channel.stopping() {
		client, err := newConnection(r.spec, r.config)
		if err == nil {
			return client
		}
		r.life.report(describe(err))
		sleep(retryS, r.channel.stop)
	}
	return nil
}

func newConnection(spec *Spec, config *sarama.Config) (sarama.Client, error) {
	return sarama.NewClient(strings.Split(spec.Bootstrap, ","), config)
}

// read processes the records of a partition until their channel is closed. `ended` closes when the partition is to be
// given up. Offsets go to `to`, which may be nil.
func (r *Reader) read(partition Partition, records <-chan *sarama.ConsumerMessage, ended <-chan struct{}, to marks) {
	ticker := time.NewTicker(idle)
	defer ticker.Stop()
	for {
		select {
		case record, open := <-records:
			if !open {
				return
			}
			batch := r.gather(record, records)
			if !r.process(partition, batch, ended, to) {
				return
			}
		case <-ticker.C:
			if to != nil {
				r.committer.due(to)
			}
		}
	}
}

// gather returns a record and those that wait behind it.
func (r *Reader) gather(
	first *sarama.ConsumerMessage, records <-chan *sarama.ConsumerMessage,
) []*sarama.ConsumerMessage {
	batch := []*sarama.ConsumerMessage{first}
	for len(batch) < r.spec.MaxPollRecords {
		select {
		case record, open := <-records:
			if !open {
				return batch
			}
			batch = append(batch, record)
		default:
			return batch
		}
	}
	return batch
}

// process returns false if the rest of the batch was left unprocessed, because the partition is given up.
func (r *Reader) process(
	partition Partition, batch []*sarama.ConsumerMessage, ended <-chan struct{}, to marks,
) bool {
	polledUs := nowUs()
	if to == nil {
		to = noMarks{}
	}
	r.committer.before(to, map[Partition]int64{partition: batch[len(batch)-1].Offset + 1})
	done := r.processPartition(partition, batch, polledUs, ended, to)
	if done > 0 {
		r.committer.afterBatch(to, map[Partition]int64{partition: batch[done-1].Offset + 1})
	}
	return done == len(batch)
}

// start returns the offset that Consumer.Offsets.Initial means now.
func start(client sarama.Client, partition Partition, initial int64) (int64, error) {
	offset, err := client.GetOffset(partition.topic, partition.number, initial)
	if err != nil {
		return 0, fmt.Errorf("the offset of %s: %w", partition, err)
	}
	return offset, nil
}
