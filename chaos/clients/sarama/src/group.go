package main

import (
	"context"
	"errors"
	"log"
	"sync"

	"github.com/IBM/sarama"
)

// GroupConsumer is a member of a group. Each claim is read in its own goroutine, from the position that the library has
// determined.
type GroupConsumer struct {
	*Reader
	offsets *offsetWatch
	cancel  context.CancelFunc
	mu      sync.Mutex
	fatal   error
}

func newGroupConsumer(spec *Spec, channel *Channel, life *Lifecycle) (client, error) {
	reader, err := newReader(spec, "subscribe", channel, life)
	return &GroupConsumer{Reader: reader}, err
}

func (g *GroupConsumer) run() error {
	client := g.connect()
	if client == nil {
		return nil
	}
	g.offsets = &offsetWatch{Client: client, answers: map[offsetQuestion]int64{}}
	group, err := sarama.NewConsumerGroupFromClient(*g.spec.Group, g.offsets)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	ended := make(chan struct{})
	go g.sendProgress(ended)
	go func() {
		for err := range group.Errors() {
			g.problem(err)
		}
	}()
	go func() {
		<-g.channel.stop
		cancel()
	}()
	for ctx.Err() == nil { // a call ends with each rebalance
		if err := group.Consume(ctx, g.spec.Topics, g); err != nil && ctx.Err() == nil {
			g.problem(err)
			sleep(napS, g.channel.stop)
		}
	}
	if err := group.Close(); err != nil {
		log.Printf("leaving the group: %s", describe(err))
	}
	_ = client.Close() // and with it the connections: requests without an answer get their rows
	close(ended)
	g.progress()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fatal
}

// problem reports an error. A fenced static member ends: another process has its place.
func (g *GroupConsumer) problem(err error) {
	if !errors.Is(err, sarama.ErrFencedInstancedId) {
		g.life.report(describe(err))
		return
	}
	g.mu.Lock()
	g.fatal = err
	g.mu.Unlock()
	g.cancel()
}

// Setup runs when the member has joined, before its claims.
func (g *GroupConsumer) Setup(session sarama.ConsumerGroupSession) error {
	g.assignments.membership(session.MemberID(), session.GenerationID())
	g.progress()
	return nil
}

// Cleanup runs when all claims have ended.
func (g *GroupConsumer) Cleanup(sarama.ConsumerGroupSession) error {
	g.progress()
	return nil
}

// ConsumeClaim reads a partition until it is given up.
func (g *GroupConsumer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	partition := Partition{claim.Topic(), claim.Partition()}
	g.assignments.membership(session.MemberID(), session.GenerationID())
	position, source := claim.InitialOffset(), "committed"
	if position < 0 { // nothing is committed, or the committed offset is out of range
		position, source = g.offsets.answer(partition, position), "reset"
	}
	g.assignments.begin(partition, position, source)
	g.progress()
	to := sessionMarks{session}
	g.read(partition, claim.Messages(), session.Context().Done(), to)
	g.committer.revoked(to)
	g.assignments.end(partition, "revoked")
	g.progress()
	return nil
}

type sessionMarks struct{ session sarama.ConsumerGroupSession }

func (m sessionMarks) mark(partition Partition, offset int64) {
	m.session.MarkOffset(partition.topic, partition.number, offset, "")
}

func (m sessionMarks) commit() { m.session.Commit() }

// offsetWatch remembers the offsets that the library asked the brokers for: the start of a claim without a committed
// offset is the last answer.
type offsetWatch struct {
	sarama.Client
	mu      sync.Mutex
	answers map[offsetQuestion]int64
}

type offsetQuestion struct {
	partition Partition
	time      int64
}

// GetOffset asks a broker for the first or the next offset of a partition.
func (o *offsetWatch) GetOffset(topic string, number int32, time int64) (int64, error) {
	offset, err := o.Client.GetOffset(topic, number, time)
	if err == nil {
		o.mu.Lock()
		o.answers[offsetQuestion{Partition{topic, number}, time}] = offset
		o.mu.Unlock()
	}
	return offset, err
}

func (o *offsetWatch) answer(partition Partition, time int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if offset, found := o.answers[offsetQuestion{partition, time}]; found {
		return offset
	}
	return missing
}
