package main

import (
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const (
	// idle is the longest wait for a record before commits that are due are sent.
	idle = 20 * time.Millisecond
	// rowsEveryS is the time between two writes of rows while records take processing time.
	rowsEveryS = 0.02
	// napS is the longest wait without a look at orders.
	napS = 0.05
	// retryS is the time before a request to the brokers is repeated.
	retryS = 0.2
)

// Reader is what both kinds of consumers share: take, process, write rows and commit, in the order of the commit
// setting.
//
// sarama hands records out one by one, in a goroutine for each partition. A batch is what waits in the channel of a
// partition, at most max_poll_records. The processing time of a record passes in each partition by itself.
type Reader struct {
	spec        *Spec
	channel     *Channel
	life        *Lifecycle
	config      *sarama.Config
	assignments *Assignments
	committer   *Committer
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
	r := &Reader{spec: spec, channel: channel, life: life, config: config, committer: newCommitter(spec.Commit)}
	if r.assignments, err = newAssignments(spec, mode, config.Consumer.Group.InstanceId); err != nil {
		return nil, err
	}
	commits, err := newCommitLog(spec, r.assignments, life)
	if err != nil {
		return nil, err
	}
	tapped(config, encryption, commits)
	channel.onSlow = life.speed
	return r, config.Validate()
}

// connect returns a client of the library when a broker answers; nil after the order to stop.
func (r *Reader) connect() sarama.Client {
	return connect(r.spec, r.config, r.channel, r.life)
}

// connect returns a client of the library when a broker answers; nil after the order to stop. sarama gives up after
// some attempts, and an application that is started while brokers are down tries again.
func connect(spec *Spec, config *sarama.Config, channel *Channel, life *Lifecycle) sarama.Client {
	for !channel.stopping() {
		client, err := sarama.NewClient(strings.Split(spec.Bootstrap, ","), config)
		if err == nil {
			return client
		}
		life.report(describe(err))
		sleep(retryS, channel.stop)
	}
	return nil
}

// sendProgress sends progress events until the channel is closed.
func (r *Reader) sendProgress(ended <-chan struct{}) {
	for sleep(progressEvery.Seconds(), ended) {
		r.progress()
	}
}

func (r *Reader) progress() { r.channel.progress(r.assignments.progress()) }

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
	committedFirst := r.committer.setting.When == "before_processing"
	r.committer.before(to, partition, batch[len(batch)-1].Offset+1)
	if committedFirst {
		ended = nil // a member that gave up now would lose what it has committed
	}
	done := 0
	for done < len(batch) {
		size := min(r.groupSize(len(batch)), len(batch)-done)
		if !r.work(size, ended) {
			break
		}
		r.assignments.deliver(partition, batch[done:done+size], polledUs)
		done += size
		r.committer.after(to, partition, batch[done-1].Offset+1)
	}
	if done > 0 {
		r.committer.afterBatch(to, partition, batch[done-1].Offset+1)
	}
	return done == len(batch)
}

func (r *Reader) perRecordS() float64 { return r.spec.PerRecordS + r.channel.perRecordS() }

// groupSize returns the number of records that are processed before their rows are written.
func (r *Reader) groupSize(batch int) int {
	if r.committer.eachRecord() {
		return 1
	}
	if perRecordS := r.perRecordS(); perRecordS > 0 {
		return int(max(1, rowsEveryS/perRecordS))
	}
	return batch
}

// work lets the processing time of records pass. It returns false if the partition is to be given up first.
func (r *Reader) work(records int, ended <-chan struct{}) bool {
	began := time.Now()
	for {
		leftS := float64(records)*r.perRecordS() - time.Since(began).Seconds()
		if leftS <= 0 {
			return true
		}
		if r.channel.stopping() || !sleep(min(leftS, napS), ended) {
			return false
		}
	}
}

// noMarks takes offsets that are not committed.
type noMarks struct{}

func (noMarks) mark(Partition, int64) {}
func (noMarks) commit()               {}

// start returns the offset that Consumer.Offsets.Initial means now.
func start(client sarama.Client, partition Partition, initial int64) (int64, error) {
	offset, err := client.GetOffset(partition.topic, partition.number, initial)
	if err != nil {
		return 0, fmt.Errorf("the offset of %s: %w", partition, err)
	}
	return offset, nil
}

// retry repeats a request until it succeeds; brokers may be down. It returns false after the order to stop.
func (r *Reader) retry(request func() error) bool {
	for !r.channel.stopping() {
		err := request()
		if err == nil {
			return true
		}
		log.Printf("trying again: %s", describe(err))
		sleep(retryS, r.channel.stop)
	}
	return false
}
