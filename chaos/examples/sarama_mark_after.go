// Writes an invoice for each order with sarama. It marks an order after its invoice.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type billing struct {
	producer sarama.SyncProducer
}

func (b billing) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (b billing) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (b billing) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		b.bill(message)
		session.MarkMessage(message, "")
	}
	return nil
}

func (b billing) bill(message *sarama.ConsumerMessage) {
	var order map[string]any
	json.Unmarshal(message.Value, &order)
	time.Sleep(10 * time.Millisecond) // the work
	value, _ := json.Marshal(map[string]any{"order_id": order["order_id"], "total": order["amount"]})
	invoice := &sarama.ProducerMessage{Topic: "invoices", Key: sarama.ByteEncoder(message.Key), Value: sarama.ByteEncoder(value)}
	if _, _, err := b.producer.SendMessage(invoice); err != nil {
		log.Fatal(err)
	}
}

func main() {
	config, servers := sarama.NewConfig(), []string{os.Getenv("KAFKA_BOOTSTRAP_SERVERS")}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Producer.Return.Successes = true
	producer, err := sarama.NewSyncProducer(servers, config)
	if err != nil {
		log.Fatal(err)
	}
	handler := billing{producer}
	group, err := sarama.NewConsumerGroup(servers, "billing", config)
	for err == nil {
		err = group.Consume(context.Background(), []string{"orders"}, handler)
	}
	log.Fatal(err)
}
