package main

import (
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// AssignConsumer reads every partition of its topics with partition consumers, each from an offset that it determines
// first. With discover_s, it also reads partitions that are added later, from their start.
type AssignConsumer struct {
	*Reader
	client   sarama.Client
	consumer sarama.Consumer
	manager  sarama.OffsetManager // nil without a group
	to       *managerMarks
	reading  sync.WaitGroup
	held     map[Partition]bool
}

// position is where reading a partition starts.
type position struct {
	offset int64
	source string
}

func newAssignConsumer(spec *Spec, channel *Channel, life *Lifecycle) (client, error) {
	reader, err := newReader(spec, "assign", channel, life)
	to := &managerMarks{managed: map[Partition]sarama.PartitionOffsetManager{}}
	return &AssignConsumer{Reader: reader, held: map[Partition]bool{}, to: to}, err
}

func (a *AssignConsumer) run() error {
	if a.client = a.connect(); a.client == nil {
		return nil
	}
	var err error
	if a.consumer, err = sarama.NewConsumerFromClient(a.client); err != nil {
		return err
	}
	if a.spec.Group != nil {
		if a.manager, err = sarama.NewOffsetManagerFromClient(*a.spec.Group, a.client); err != nil {
			return err
		}
		a.to.manager = a.manager
	}
	ended := make(chan struct{})
	go a.sendProgress(ended)
	var partitions []Partition
	if a.retry(func() (err error) { partitions, err = a.partitions(); return err }) {
		a.begin(partitions, a.startOf)
	}
	a.progress()
	for !a.channel.stopping() {
		if a.spec.DiscoverS == 0 {
			<-a.channel.stop
		} else if sleep(a.spec.DiscoverS, a.channel.stop) {
			a.discover()
		}
	}
	a.reading.Wait()
	a.close()
	close(ended)
	a.progress()
	return nil
}

func (a *AssignConsumer) close() {
	if a.manager != nil {
		a.to.close()
		_ = a.manager.Close() // sends marked offsets if commits are automatic
	}
	_ = a.consumer.Close()
	_ = a.client.Close()
}

// partitions returns the partitions of all topics, from fresh metadata.
func (a *AssignConsumer) partitions() ([]Partition, error) {
	if err := a.client.RefreshMetadata(a.spec.Topics...); err != nil {
		return nil, err
	}
	var found []Partition
	for _, topic := range a.spec.Topics {
		numbers, err := a.client.Partitions(topic)
		if err != nil {
			return nil, fmt.Errorf("the partitions of %s: %w", topic, err)
		}
		for _, number := range numbers {
			found = append(found, Partition{topic, number})
		}
	}
	return found, nil
}

func (a *AssignConsumer) discover() {
	found, err := a.partitions()
	if err != nil {
		log.Printf("search for new partitions failed, trying again: %s", describe(err))
		return
	}
	var added []Partition
	for _, partition := range found {
		if !a.held[partition] {
			added = append(added, partition)
		}
	}
	a.begin(added, func(partition Partition) (position, error) {
		offset, err := start(a.client, partition, sarama.OffsetOldest)
		return position{offset, "start"}, err
	})
}

// begin determines all positions, and then reads.
func (a *AssignConsumer) begin(partitions []Partition, startOf func(Partition) (position, error)) {
	positions := make([]position, len(partitions))
	for i, partition := range partitions {
		if !a.retry(func() (err error) { positions[i], err = startOf(partition); return err }) {
			return
		}
	}
	for i, partition := range partitions {
		a.held[partition] = true
		a.assignments.begin(partition, positions[i].offset, positions[i].source)
		a.reading.Add(1)
		go func() {
			defer a.reading.Done()
			a.consume(partition, positions[i].offset)
		}()
	}
}

// startOf returns where a partition starts: at its checkpoint, or as the spec says.
func (a *AssignConsumer) startOf(partition Partition) (position, error) {
	offset, found := a.spec.Checkpoint[partition.String()]
	if a.manager != nil {
		if err := a.to.manage(partition); err != nil {
			return position{}, err
		}
	}
	if found {
		return position{offset, "checkpoint"}, nil
	}
	if a.spec.Start == "group" {
		return a.groupOffset(partition)
	}
	if offset, found := a.spec.Offsets[partition.String()]; found {
		return a.existing(partition, offset)
	}
	var err error
	switch a.spec.Start {
	case "latest":
		offset, err = start(a.client, partition, sarama.OffsetNewest)
	case "timestamp":
		offset, err = a.atTime(partition)
	default:
		offset, err = start(a.client, partition, sarama.OffsetOldest)
	}
	return position{offset, "start"}, err
}

func (a *AssignConsumer) groupOffset(partition Partition) (position, error) {
	offset, _ := a.to.managed[partition].NextOffset()
	if offset >= 0 {
		return position{offset, "committed"}, nil
	}
	offset, err := start(a.client, partition, offset)
	return position{offset, "reset"}, err
}

// existing waits until an offset in the future exists.
func (a *AssignConsumer) existing(partition Partition, offset int64) (position, error) {
	for !a.channel.stopping() {
		end, err := start(a.client, partition, sarama.OffsetNewest)
		if err != nil {
			return position{}, err
		}
		if end >= offset {
			break
		}
		sleep(napS, a.channel.stop)
	}
	return position{offset, "start"}, nil
}

// atTime returns the first offset at or after the time of the spec, or the end of the partition without one.
func (a *AssignConsumer) atTime(partition Partition) (int64, error) {
	for time.Now().UnixMilli() <= a.spec.TimestampMs && sleep(rowsEveryS, a.channel.stop) {
	}
	offset, err := start(a.client, partition, a.spec.TimestampMs)
	if err == nil && offset < 0 {
		return start(a.client, partition, sarama.OffsetNewest)
	}
	return offset, err
}

// consume reads a partition until the order to stop. Where its position is out of range, it continues at
// Consumer.Offsets.Initial, as sarama's groups do.
func (a *AssignConsumer) consume(partition Partition, offset int64) {
	for !a.channel.stopping() {
		consumer, err := a.consumer.ConsumePartition(partition.topic, partition.number, offset)
		if errors.Is(err, sarama.ErrOffsetOutOfRange) {
			offset = a.config.Consumer.Offsets.Initial
			a.life.report(fmt.Sprintf("%s: OFFSET_OUT_OF_RANGE", partition))
			sleep(napS, a.channel.stop)
			continue
		}
		if err != nil {
			a.life.report(describe(err))
			sleep(retryS, a.channel.stop)
			continue
		}
		offset = a.readUntilClosed(partition, consumer, offset)
	}
}

// readUntilClosed returns where to continue.
func (a *AssignConsumer) readUntilClosed(partition Partition, consumer sarama.PartitionConsumer, from int64) int64 {
	closed, outOfRange := make(chan struct{}), make(chan bool, 1)
	go func() {
		found := false
		for problem := range consumer.Errors() {
			a.life.report(describe(problem))
			found = found || errors.Is(problem, sarama.ErrOffsetOutOfRange)
		}
		outOfRange <- found
	}()
	go func() {
		select {
		case <-a.channel.stop:
		case <-closed:
		}
		consumer.AsyncClose()
	}()
	var to marks
	if a.manager != nil {
		to = a.to
	}
	a.read(partition, consumer.Messages(), a.channel.stop, to)
	close(closed)
	for range consumer.Messages() { // until it is closed
	}
	if <-outOfRange {
		return a.config.Consumer.Offsets.Initial
	}
	a.assignments.mu.Lock()
	defer a.assignments.mu.Unlock()
	if reached := a.assignments.positions[partition]; reached > from {
		return reached
	}
	return from
}

// managerMarks takes the offsets of a group that a consumer in assign mode commits to.
type managerMarks struct {
	manager sarama.OffsetManager
	mu      sync.Mutex
	managed map[Partition]sarama.PartitionOffsetManager
}

func (m *managerMarks) manage(partition Partition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.managed[partition] != nil {
		return nil
	}
	managed, err := m.manager.ManagePartition(partition.topic, partition.number)
	if err != nil {
		return err
	}
	m.managed[partition] = managed
	go func() {
		for problem := range managed.Errors() {
			log.Println(describe(problem))
		}
	}()
	return nil
}

func (m *managerMarks) mark(partition Partition, offset int64) {
	m.mu.Lock()
	managed := m.managed[partition]
	m.mu.Unlock()
	if managed != nil {
		managed.MarkOffset(offset, "")
	}
}

func (m *managerMarks) commit() { m.manager.Commit() }

func (m *managerMarks) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, managed := range m.managed {
		managed.AsyncClose()
	}
}
