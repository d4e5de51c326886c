package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// idle is the longest wait for records before orders and commits that are due are looked at.
const idle = 50 * time.Millisecond

// stopWithinS is the longest wait for answers to commits after the order to stop.
const stopWithinS = 5

// Reader is what both kinds of consumers share: poll, process, write rows and commit, in the order of the commit
// setting. A batch is the answer to a poll, at most max_poll_records.
type Reader struct {
	*Processing
	life     *Lifecycle
	settings *settings
	options  []kgo.Opt
	client   *kgo.Client
	brokers  franzBrokers
	marks    *groupMarks
	to       marks
	ready    chan struct{} // closed when client is set: the library may call back before
	mu       sync.Mutex
	seeks    []seek
	fatal    error
}

func newReader(spec *Spec, mode string, channel *Channel, life *Lifecycle) (*Reader, error) {
	settings, err := settingsOf(spec)
	if err != nil {
		return nil, err
	}
	options, err := connection(spec)
	if err != nil {
		return nil, err
	}
	assignments, err := newAssignments(spec, mode, settings.given["InstanceID"])
	if err != nil {
		return nil, err
	}
	table, err := newCommitTable(spec, assignments)
	if err != nil {
		return nil, err
	}
	r := &Reader{Processing: newProcessing(spec, channel, assignments), life: life, settings: settings}
	r.ready = make(chan struct{})
	r.marks = &groupMarks{
		table: table, attempts: &attempts{}, setting: spec.Commit, ended: afterStop(channel, stopWithinS),
		marked: map[Partition]int64{}, epochs: map[Partition]int32{},
	}
	r.to = noMarks{}
	r.options = append(append(options, settings.options...), kgo.WithHooks(r.marks.attempts))
	channel.onSlow = life.speed
	channel.onSeek = func(order seek) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seeks = append(r.seeks, order)
		return nil
	}
	return r, nil
}

// connect takes a client of the library.
func (r *Reader) connect(client *kgo.Client) {
	r.client, r.marks.client = client, client
	r.brokers = franzBrokers{client, r.settings, r.spec.Group}
	close(r.ready)
}

// poll processes records until the order to stop.
func (r *Reader) poll(between func()) {
	for !r.channel.stopping() && r.fatal == nil {
		ctx, cancel := context.WithTimeout(context.Background(), idle)
		fetches := r.client.PollRecords(ctx, r.spec.MaxPollRecords)
		cancel()
		polledUs := nowUs()
		r.problems(fetches)
		r.process(fetches, polledUs)
		r.committer.due(r.to)
		r.seek()
		between()
	}
}

// problems reports the errors in the answer to a poll. A fenced static member ends: another process has its place.
func (r *Reader) problems(fetches kgo.Fetches) {
	found := false
	fetches.EachError(func(topic string, number int32, err error) {
		switch {
		case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		case isOneOf(err, kerr.FencedInstanceID):
			r.fatal = err
		default:
			found = true
			r.life.report(fmt.Sprintf("%s: %s", Partition{topic, number}, describe(err)))
		}
	})
	if found {
		sleep(napS, r.channel.stop)
	}
}

func (r *Reader) process(fetches kgo.Fetches, polledUs int64) {
	batches := map[Partition][]*Record{}
	ends := map[Partition]int64{}
	fetches.EachPartition(func(fetch kgo.FetchTopicPartition) {
		if len(fetch.Records) == 0 {
			return
		}
		partition := Partition{fetch.Topic, fetch.Partition}
		last := fetch.Records[len(fetch.Records)-1]
		batches[partition] = append(batches[partition], fetch.Records...)
		ends[partition] = last.Offset + 1
		r.marks.read(partition, last.LeaderEpoch)
	})
	if len(batches) == 0 {
		return
	}
	r.committer.before(r.to, ends)
	done := map[Partition]int64{}
	for partition, batch := range batches {
		count := r.processPartition(partition, batch, polledUs, r.channel.stop, r.to)
		if count > 0 {
			done[partition] = batch[count-1].Offset + 1
		}
		if count < len(batch) {
			break
		}
	}
	r.committer.afterBatch(r.to, done)
}

// seek obeys orders to seek. A group leaves out partitions that it has not read from yet, as the library does.
func (r *Reader) seek() {
	r.mu.Lock()
	orders := r.seeks
	r.seeks = nil
	r.mu.Unlock()
	for _, order := range orders {
		targets, err := r.targets(order)
		if err != nil {
			r.life.error("seek failed: "+describe(err), false)
			continue
		}
		offsets := map[string]map[int32]kgo.EpochOffset{}
		for partition, target := range targets {
			if offsets[partition.topic] == nil {
				offsets[partition.topic] = map[int32]kgo.EpochOffset{}
			}
			offsets[partition.topic][partition.number] = kgo.EpochOffset{Epoch: noEpoch, Offset: target}
		}
		r.client.SetOffsets(offsets)
		r.marks.moved(slices.Collect(maps.Keys(targets)))
		r.assignments.sought(targets)
		r.progress()
	}
}

func (r *Reader) targets(order seek) (map[Partition]int64, error) {
	found := map[Partition]int64{}
	for _, partition := range r.assignments.held() {
		if r.spec.Program == "group_consumer" && !r.marks.hasRead(partition) {
			continue
		}
		if order.AgoS == nil {
			if target, named := order.Offsets[partition.String()]; named {
				found[partition] = target
			}
			continue
		}
		at := time.Now().Add(-seconds(*order.AgoS)).UnixMilli()
		target, err := r.brokers.at(partition, at)
		if err == nil && target < 0 {
			target, err = r.brokers.at(partition, newest)
		}
		if err != nil {
			return nil, err
		}
		found[partition] = target
	}
	return found, nil
}
