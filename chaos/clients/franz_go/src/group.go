package main

import (
	"context"
	"log"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// GroupConsumer is a member of a group. Rebalances wait until a batch is processed (BlockRebalanceOnPoll).
type GroupConsumer struct {
	*Reader
	granted sync.Map // partitions between the callbacks OnPartitionsAssigned and OnPartitionsRevoked
}

func newGroupConsumer(spec *Spec, channel *Channel, life *Lifecycle) (client, error) {
	reader, err := newReader(spec, "subscribe", channel, life)
	if err != nil {
		return nil, err
	}
	g := &GroupConsumer{Reader: reader}
	g.to = g.marks
	g.options = append(g.options,
		kgo.ConsumerGroup(*spec.Group),
		kgo.ConsumeTopics(spec.Topics...),
		kgo.BlockRebalanceOnPoll(),
		kgo.AdjustFetchOffsetsFn(g.begin),
		kgo.OnPartitionsAssigned(g.assigned),
		kgo.OnPartitionsRevoked(g.revoked),
		kgo.OnPartitionsLost(g.lost),
	)
	if strings.HasPrefix(spec.Topics[0], "^") {
		g.options = append(g.options, kgo.ConsumeRegex())
	}
	switch {
	case !spec.Commit.automatic():
		g.options = append(g.options, kgo.DisableAutoCommit())
	case spec.Commit.When == "before_processing":
		g.options = append(g.options, kgo.GreedyAutoCommit(), kgo.AutoCommitCallback(g.marks.automatic))
	default:
		g.options = append(g.options, kgo.AutoCommitMarks(), kgo.AutoCommitCallback(g.marks.automatic))
	}
	return g, kgo.ValidateOpts(g.options...)
}

func (g *GroupConsumer) run() error {
	client, err := kgo.NewClient(g.options...)
	if err != nil {
		return err
	}
	g.connect(client)
	ended := make(chan struct{})
	go g.sendProgress(ended)
	g.poll(func() {
		g.noteMembership()
		client.AllowRebalance()
	})
	client.CloseAllowingRebalance() // leaves the group, after the callback
	close(ended)
	g.progress()
	return g.fatal
}

// noteMembership takes over the member id and the generation. Not every rebalance calls a callback.
func (g *GroupConsumer) noteMembership() {
	if memberID, generation := g.client.GroupMetadata(); memberID != "" {
		g.assignments.membership(memberID, generation)
	}
}

func (g *GroupConsumer) assigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	<-g.ready
	g.noteMembership()
	for _, partition := range partitionsIn(added) {
		g.granted.Store(partition, true)
	}
	g.progress()
}

// begin records where the library is about to begin, and makes it exact: the committed offset, or what the reset means
// now. The library calls it with the committed offsets of partitions that were assigned.
func (g *GroupConsumer) begin(
	_ context.Context, offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	<-g.ready
	g.noteMembership()
	for topic, partitions := range offsets {
		for number, offset := range partitions {
			partition := Partition{topic, number}
			if _, found := g.granted.Load(partition); !found {
				continue
			}
			begin := position{offset.EpochOffset().Offset, "committed"}
			if begin.offset < 0 {
				var err error
				if begin, err = g.brokers.reset(partition); err != nil {
					log.Printf("the library chooses where %s begins: %s", partition, describe(err))
					g.assignments.begin(partition, missing, "")
					continue
				}
				partitions[number] = kgo.NewOffset().At(begin.offset)
			}
			g.assignments.begin(partition, begin.offset, begin.source)
		}
	}
	g.progress()
	return offsets, nil
}

func (g *GroupConsumer) revoked(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	<-g.ready
	partitions := partitionsIn(gone)
	if len(partitions) > 0 {
		g.committer.revoked(g.to)
		g.marks.atRevocation()
	}
	g.giveUp("revoked", partitions)
}

func (g *GroupConsumer) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	<-g.ready
	g.giveUp("lost", partitionsIn(gone))
}

func (g *GroupConsumer) giveUp(event string, partitions []Partition) {
	g.marks.forget(partitions)
	for _, partition := range partitions {
		g.granted.Delete(partition)
		if g.assignments.holds(partition) {
			g.assignments.end(partition, event)
		}
	}
	g.progress()
}

func partitionsIn(topics map[string][]int32) []Partition {
	var found []Partition
	for topic, numbers := range topics {
		for _, number := range numbers {
			found = append(found, Partition{topic, number})
		}
	}
	return found
}
