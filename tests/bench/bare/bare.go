// The bare loops of sarama: BOOTSTRAP TOPIC RECORDS VALUE_SIZE GROUP, where the producer has no group.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	records, _ := strconv.Atoi(os.Args[3])
	size, _ := strconv.Atoi(os.Args[4])
	config := sarama.NewConfig()
	fmt.Println(`{"event": "started"}`)
	var took float64
	if len(os.Args) == 5 {
		took = produce(config, records, size)
	} else {
		took = consume(config, os.Args[5], records)
	}
	fmt.Printf("{\"event\": \"progress\", \"done\": true, \"took_s\": %f}\n", took)
}

func produce(config *sarama.Config, records, size int) float64 {
	config.Producer.Return.Successes = true
	producer, err := sarama.NewAsyncProducer([]string{os.Args[1]}, config)
	check(err)
	began := time.Now()
	go func() {
		for range records {
			value := sarama.ByteEncoder(make([]byte, size))
			producer.Input() <- &sarama.ProducerMessage{Topic: os.Args[2], Value: value}
		}
	}()
	for range records {
		select {
		case <-producer.Successes():
		case err := <-producer.Errors():
			check(err)
		}
	}
	took := time.Since(began).Seconds()
	check(producer.Close())
	return took
}

type handler struct {
	mu      sync.Mutex
	began   time.Time
	count   int
	records int
	done    chan struct{}
}

func (h *handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		h.mu.Lock()
		if h.count == 0 {
			h.began = time.Now()
		}
		if message.Value != nil {
			h.count++
		}
		if h.count == h.records {
			close(h.done)
		}
		h.mu.Unlock()
	}
	return nil
}

func consume(config *sarama.Config, name string, records int) float64 {
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	group, err := sarama.NewConsumerGroup([]string{os.Args[1]}, name, config)
	check(err)
	h := &handler{records: records, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{os.Args[2]}, h); err != nil {
				log.Print(err)
			}
		}
	}()
	<-h.done
	took := time.Since(h.began).Seconds()
	cancel()
	check(group.Close())
	return took
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
