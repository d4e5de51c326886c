package main

import (
	"errors"
	"fmt"
	"log"
	"slices"
	"sync"

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
	starts   *Starts
}

func newAssignConsumer(spec *Spec, channel *Channel, life *Lifecycle) (client, error) {
	reader, err := newReader(spec, "assign", channel, life)
	to := &managerMarks{managed: map[Partition]sarama.PartitionOffsetManager{}}
	a := &AssignConsumer{Reader: reader, held: map[Partition]bool{}, to: to}
	a.starts = &Starts{spec, channel, saramaBrokers{a}}
	return a, err
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
	if a.starts.retry(func() (err error) { partitions, err = a.starts.partitions(); return err }) {
		a.begin(partitions, a.starts.of)
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

// saramaBrokers answers with sarama's client, and with the offsets that the group manages.
type saramaBrokers struct{ *AssignConsumer }

func (b saramaBrokers) partitions(topic string) (int32, error) {
	if err := b.client.RefreshMetadata(topic); err != nil {
		return 0, err
	}
	numbers, err := b.client.Partitions(topic)
	if err != nil {
		return 0, fmt.Errorf("the partitions of %s: %w", topic, err)
	}
	return int32(len(numbers)), nil
}

func (b saramaBrokers) at(partition Partition, time int64) (int64, error) {
	return start(b.client, partition, time)
}

func (b saramaBrokers) committed(partition Partition) (position, error) {
	if err := b.to.manage(partition); err != nil {
		return position{}, err
	}
	offset, _ := b.to.managed[partition].NextOffset()
	if offset >= 0 {
		return position{offset, "committed"}, nil
	}
	offset, err := start(b.client, partition, offset)
	return position{offset, "reset"}, err
}

func (a *AssignConsumer) discover() {
	found, err := a.starts.partitions()
	if err != nil {
		log.Printf("search for new partitions failed, trying again: %s", describe(err))
		return
	}
	a.begin(slices.DeleteFunc(found, func(partition Partition) bool { return a.held[partition] }), a.starts.first)
}

// begin determines all positions, and then reads.
func (a *AssignConsumer) begin(partitions []Partition, startOf func(Partition) (position, error)) {
	for partition, position := range a.starts.all(partitions, func(partition Partition) (position, error) {
		if a.manager != nil {
			if err := a.to.manage(partition); err != nil {
				return position{}, err
			}
		}
		return startOf(partition)
	}) {
		a.held[partition] = true
		a.assignments.begin(partition, position.offset, position.source)
		a.reading.Add(1)
		go func() {
			defer a.reading.Done()
			a.consume(partition, position.offset)
		}()
	}
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
