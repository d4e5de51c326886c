// Writes an invoice for each order with kafka-go, and commits the order after its invoice.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

func bill(order kafka.Message) kafka.Message {
	var fields map[string]any
	if err := json.Unmarshal(order.Value, &fields); err != nil {
		log.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // the work
	value, _ := json.Marshal(map[string]any{"order_id": fields["order_id"], "total": fields["amount"]})
	return kafka.Message{Key: order.Key, Value: value}
}

func main() {
	ctx, servers := context.Background(), os.Getenv("KAFKA_BOOTSTRAP_SERVERS")
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{servers}, GroupID: "billing", Topic: "orders",
		StartOffset: kafka.FirstOffset, SessionTimeout: 6 * time.Second, MaxWait: 200 * time.Millisecond,
	})
	writer := &kafka.Writer{
		Addr: kafka.TCP(servers), Topic: "invoices", RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
	}
	for {
		order, err := reader.FetchMessage(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if err := writer.WriteMessages(ctx, bill(order)); err != nil {
			log.Fatal(err)
		}
		if err := reader.CommitMessages(ctx, order); err != nil {
			log.Fatal(err)
		}
	}
}
