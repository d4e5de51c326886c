package main

import (
	"log"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// AssignConsumer reads every partition of its topics, each from an offset that it determines first. With discover_s, it
// also reads partitions that are added later, from their start.
type AssignConsumer struct {
	*Reader
	starts *Starts
	held   []Partition
	next   time.Time
}

func newAssignConsumer(spec *Spec, channel *Channel, life *Lifecycle) (client, error) {
	reader, err := newReader(spec, "assign", channel, life)
	if err != nil {
		return nil, err
	}
	a := &AssignConsumer{Reader: reader}
	if spec.Group != nil {
		a.to = &directMarks{a.marks, *spec.Group}
		a.options = append(a.options, byName())
	}
	return a, kgo.ValidateOpts(a.options...)
}

func (a *AssignConsumer) run() error {
	questions, err := kgo.NewClient(a.options...) // for what has to be known before the client that reads can be made
	if err != nil {
		return err
	}
	a.starts = &Starts{a.spec, a.channel, franzBrokers{questions, a.settings, a.spec.Group}}
	var partitions []Partition
	a.starts.retry(func() (err error) { partitions, err = a.starts.partitions(); return err })
	client, err := kgo.NewClient(append(a.options, kgo.ConsumePartitions(a.begin(partitions, a.starts.of)))...)
	questions.Close()
	if err != nil {
		return err
	}
	a.connect(client)
	a.starts.brokers = a.brokers
	ended := make(chan struct{})
	go a.sendProgress(ended)
	a.next = time.Now().Add(seconds(a.spec.DiscoverS))
	a.poll(a.discover)
	client.Close()
	close(ended)
	a.progress()
	return a.fatal
}

// begin determines all positions, and returns them for the library.
func (a *AssignConsumer) begin(
	partitions []Partition, startOf func(Partition) (position, error),
) map[string]map[int32]kgo.Offset {
	offsets := map[string]map[int32]kgo.Offset{}
	for partition, start := range a.starts.all(partitions, startOf) {
		if offsets[partition.topic] == nil {
			offsets[partition.topic] = map[int32]kgo.Offset{}
		}
		offsets[partition.topic][partition.number] = kgo.NewOffset().At(start.offset)
		a.held = append(a.held, partition)
		a.assignments.begin(partition, start.offset, start.source)
	}
	return offsets
}

func (a *AssignConsumer) discover() {
	if a.spec.DiscoverS == 0 || time.Now().Before(a.next) {
		return
	}
	a.next = time.Now().Add(seconds(a.spec.DiscoverS))
	found, err := a.starts.partitions()
	if err != nil {
		log.Printf("search for new partitions failed, trying again: %s", describe(err))
		return
	}
	added := slices.DeleteFunc(found, func(partition Partition) bool { return slices.Contains(a.held, partition) })
	if len(added) > 0 {
		a.client.AddConsumePartitions(a.begin(added, a.starts.first))
	}
}
